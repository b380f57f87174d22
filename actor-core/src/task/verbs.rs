//! The verbs: `submit`, `cancel`, `offers`.

use std::sync::Arc;

use selvedge_channels::{Wire, dispose};
use selvedge_cluster::peer::ProcessId;

use super::board::{NewTask, ReferenceOf, TaskArguments};
use super::options::Submission;
use super::outer::{NamedReferences, NestedName, OuterCall, named};
use crate::body::Body;
use crate::call::remote_error::RemoteError;
use crate::home::handles::Worker;
use crate::lineage::{CallDigest, NestedPlace, ReferenceName};
use crate::reference::Ref;
use crate::reference::content::ObjectValue;
use crate::reference::handle::Handle;
use crate::remote::argument_store::{ArgumentStore, LargeArgument};
use crate::remote::chosen::Verb;
use crate::remote::function::FunctionEntry;
use crate::remote::message::CallMessage;
use crate::remote::remote_call::{Destination, RemoteCall};
use crate::remote::request::{EncodedArguments, Request};
use crate::remote::service::Remote;
use crate::runtime::Runtime;
use crate::schedule::Resources;

impl Runtime {
    /// Submits a remote function, and returns a reference to its value at once. The call is scheduled by the driver's process,
    /// which owns the value: it starts when its inputs are there and a worker has the cpus that it needs, in the order of
    /// submission. Until then it holds no thread.
    ///
    /// If the worker dies, or the last copy of the value is lost later, a call of a pure function runs again, at another worker. Any
    /// other call is lost: the error of every
    /// fetch is then a [`Lost`](crate::Lost), which [`FetchError::downcast_ref`](crate::FetchError::downcast_ref) finds. An error
    /// of the function is the error of every fetch as well.
    ///
    /// A function that returns a `Ref<S>` gives a `Ref<S>`: the reference stands for the one that the function returns.
    ///
    /// A call with [`on`](RemoteCall::on), or with a `#[here]` value, goes to its process at once, whatever that has to do.
    pub fn submit<T: Wire, S: Wire>(&self, call: RemoteCall<T, S>) -> Ref<S> {
        let remote = self.remote();
        let pinned = match (call.destination, call.request.homes.first()) {
            (Destination::Process(process), _) => Some(process),
            (Destination::Any, Some(home)) => Some(home.id().owner.process),
            (Destination::Any, None) => None,
        };
        let checked = call.check_options(Verb::Submit);
        let is_alias = std::any::TypeId::of::<T>() != std::any::TypeId::of::<S>();
        let alias: Option<ReferenceOf> = is_alias.then_some(reference_of::<S>);
        let mut inputs = call.inputs;
        inputs.dedup_by_key(|input| input.0.id());
        let inputs = inputs.into_iter().map(|input| input.0).collect();
        let submitted = Submitted {
            request: call.request,
            inputs,
            options: call.options,
            pinned,
            alias,
        };
        let handle = match (checked, self.is_open()) {
            (Err(error), _) => remote.not_submitted(submitted.request.function, error),
            (Ok(()), true) if remote.me() == ProcessId::HEAD => remote.submit(submitted),
            (Ok(()), true) => remote.submit_to_head(submitted),
            (Ok(()), false) => remote.not_submitted(submitted.request.function, RemoteError::Shutdown),
        };
        Ref::of(handle)
    }

    /// Sets the bytes of the descriptions of ended calls that this process keeps, so that lost values can be made again: a call that
    /// is declared pure is kept, with its arguments, as long as somebody holds its value, or that of a call that was made of it. Beyond
    /// this the oldest ones are forgotten, and a value of theirs that is lost is [`Lost::LineageDropped`](crate::Lost::LineageDropped).
    /// The default is 256 MiB; 0 keeps none.
    #[must_use]
    pub fn lineage_bytes(self, bytes: usize) -> Self {
        self.remote().tasks().limit_lineage(bytes);
        self
    }

    /// Cancels a submitted call that has not ended: the error of every fetch is a [`CallCancelled`](crate::CallCancelled). A function
    /// that runs is asked to end, as that of a dropped [`Call`](crate::Call) is. Only the process that has scheduled the call can
    /// cancel it: elsewhere, and for a value that is there, this has no effect.
    pub fn cancel<T>(&self, reference: &Ref<T>) {
        self.remote().tasks().cancel(reference.id());
    }
}

impl Worker {
    /// Says what submitted calls this worker has room for. By default a worker offers as many cpus as it may use cores, and
    /// nothing else, and the cores of this host are counted once for all workers that say nothing. Calls that run already go on.
    ///
    /// A worker that offers more cpus than it has cores runs as many functions at a time, up to 1024: for functions that wait for
    /// something outside of selvedge.
    pub fn offers(&self, resources: Resources) {
        let remote = self.runtime().remote();
        if let Some(peer) = remote.post.peer(self.process()) {
            let offered = CallMessage::Offered {
                cpus: resources.cpu_count(),
            };
            // A worker that does not learn it runs as many functions at a time as it has cores.
            let _ = remote.post.send(peer, offered.letter(Body::EMPTY));
            remote.tasks().offer(peer, resources);
        }
    }
}

/// Takes the reference out of a value that is one.
fn reference_of<S: 'static>(value: &ObjectValue) -> Option<Arc<Handle>> {
    Some(Arc::clone(value.get::<Ref<S>>()?.handle()))
}

struct Submitted {
    request: Request,
    inputs: Vec<Arc<Handle>>,
    options: super::options::TaskOptions,
    pinned: Option<ProcessId>,
    alias: Option<ReferenceOf>,
}

impl Remote {
    fn submit(&self, submitted: Submitted) -> Arc<Handle> {
        let Submitted {
            request,
            inputs,
            options,
            pinned,
            alias,
        } = submitted;
        let function = request.function;
        if let Some(error) = pinned.and_then(|pinned| request.check(pinned, &self.names).err()) {
            return self.not_submitted(function, error);
        }
        let outer = self.outer();
        // A call that may run again keeps its arguments, and the name of a nested one is made of them.
        let stays = outer.is_none()
            && match pinned {
                Some(process) => process == self.me(),
                None => options.retries.is_none() && self.post.peers().is_empty(),
            };
        let arguments = match stays {
            true => Ok((TaskArguments::Here(Box::new(request)), 0)),
            false => self
                .encoded(request, outer.as_ref())
                .map(|(encoded, stored)| (TaskArguments::Encoded(encoded), stored)),
        };
        let (arguments, stored_bytes) = match arguments {
            Ok(arguments) => arguments,
            Err(error) => return self.not_submitted(function, error),
        };
        let handle = self.references.create();
        let what = (function.id().0, pinned);
        let (digest, nested, named) = match (&outer, &arguments) {
            (Some(outer), TaskArguments::Encoded(encoded)) => {
                let (name, named) = nested(outer, what, encoded);
                outer.note(handle.id(), name.digest);
                (name.digest, Some(name.spec()), named)
            }
            _ => {
                let place = (CallDigest::PROGRAM, self.tasks().next_index());
                (digest(place, what, &arguments, &inputs), None, Vec::new())
            }
        };
        self.tasks().submit(NewTask {
            job: None,
            digest,
            nested,
            named,
            function,
            object: handle.id(),
            arguments,
            stored_bytes,
            inputs,
            options,
            pinned,
            alias,
        });
        handle
    }

    /// The arguments of a call that is submitted, encoded, and the bytes of the large ones, which are put into the store and travel by
    /// reference.
    fn encoded(
        &self,
        request: Request,
        outer: Option<&Arc<OuterCall>>,
    ) -> Result<(EncodedArguments, usize), RemoteError> {
        let room = OuterCall::carried_bytes_max(outer);
        let put = |argument: LargeArgument<'_>| self.put_argument(argument, outer);
        let mut store = ArgumentStore::new(&put, room);
        let stored = request.stored(&mut store)?;
        let encoded = stored.encode_with(room);
        dispose(stored);
        Ok((encoded?, store.bytes))
    }

    /// Submits a call to the process that schedules.
    fn submit_to_head(&self, submitted: Submitted) -> Arc<Handle> {
        let function = submitted.request.function;
        let sent = self.sent_to_head(submitted);
        sent.unwrap_or_else(|error| self.not_kept(function, ProcessId::HEAD, error))
    }

    fn sent_to_head(&self, submitted: Submitted) -> Result<Arc<Handle>, RemoteError> {
        let Submitted {
            request,
            inputs,
            options,
            pinned,
            alias,
        } = submitted;
        let function = request.function.id();
        pinned.map_or(Ok(()), |pinned| request.check(pinned, &self.names))?;
        let head = self.find(ProcessId::HEAD)?;
        let outer = self.outer();
        let (encoded, stored_bytes) = self.encoded(request, outer.as_ref())?;
        let name = outer
            .as_deref()
            .map(|outer| nested(outer, (function.0, pinned), &encoded));
        let (nested, named) = name.unzip();
        let EncodedArguments { body, handles } = encoded;
        let (handle, parcel) = self.references.keep(head).map_err(|error| self.unpassed(error))?;
        if let (Some(outer), Some(nested)) = (outer, nested) {
            outer.note(handle.id(), nested.digest);
        }
        let sent = self.references.send(head, Some(parcel), &handles, |parcels| {
            let submission = Submission {
                call: self.asked.lock().number(),
                nested,
                named: named.unwrap_or_default(),
                function,
                stored_bytes: stored_bytes as u64,
                inputs: inputs.iter().map(|input| input.id()).collect(),
                options,
                pinned,
                is_alias: alias.is_some(),
                hops: 0,
            };
            CallMessage::Submit { submission, parcels }.letter(body)
        });
        sent.map(|_| handle).map_err(|error| self.unsaid(error))
    }

    /// A reference to the failure of a call that was not submitted.
    fn not_submitted(&self, function: &FunctionEntry, error: RemoteError) -> Arc<Handle> {
        self.not_kept(function, self.me(), error)
    }
}

/// The name of a call that the program submits.
fn digest(
    place: NestedPlace,
    what: (u64, Option<ProcessId>),
    arguments: &TaskArguments,
    inputs: &[Arc<Handle>],
) -> CallDigest {
    let none = Body::EMPTY;
    let (body, handles) = match arguments {
        TaskArguments::Encoded(encoded) => (&encoded.body, encoded.handles.as_slice()),
        TaskArguments::Here(_) | TaskArguments::Kept { .. } | TaskArguments::Dropped => (&none, inputs),
    };
    CallDigest::of(
        place,
        what,
        body.segments(),
        handles.iter().map(|handle| ReferenceName::Object(handle.id())),
    )
}

/// The name of a call that a pure call submits, and those of the references in its arguments.
fn nested(
    outer: &OuterCall,
    what: (u64, Option<ProcessId>),
    arguments: &EncodedArguments,
) -> (NestedName, NamedReferences) {
    let names = outer.reference_names(arguments.handles.iter().map(|handle| handle.id()));
    let (segments, named) = (arguments.body.segments(), named(&names));
    let digest = CallDigest::of(outer.next_place(), what, segments, names.into_iter());
    (outer.nested(digest), named)
}
