//! A call that another process submits to this one.

use std::sync::Arc;

use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Parcel, RefId};

use super::board::{NewTask, ReferenceOf, TaskArguments};
use super::options::Submission;
use super::outer::NestedName;
use crate::body::Body;
use crate::call::remote_error::RemoteError;
use crate::failure::Failure;
use crate::lineage::{CallDigest, ReferenceName};
use crate::reference::handle::Handle;
use crate::reference::references::Object;
use crate::remote::function::{find_function, known_functions};
use crate::remote::request::EncodedArguments;
use crate::remote::service::Remote;
use crate::schedule::{HOPS_MAX, forwarded};

impl Remote {
    /// Another process submits a call to this one.
    pub(crate) fn submission_arrived(
        &self,
        from: Peer,
        submission: Submission,
        parcels: Vec<Parcel>,
        body: Body,
    ) {
        let Some(Parcel::Keep { id: object }) = parcels.first().copied() else {
            let why = "it submits a call without a reference to its value".to_owned();
            return self.post.cut(from, why);
        };
        let (me, references) = ((self, &self.this), &self.references);
        references.arrived_at(me, from, parcels, move |this, handles| {
            let may_stay = forwarded(submission.hops).is_some();
            let accepted = match (find_function(submission.function), handles) {
                _ if !may_stay => {
                    let text = format!("the call has gone through more than {HOPS_MAX} processes");
                    Err(Failure::Internal(text))
                }
                (Some(function), Ok(handles)) => Ok((function, handles)),
                (None, _) => {
                    let near = known_functions();
                    Err(Failure::from_error(RemoteError::UnknownFunction { near }))
                }
                (_, Err(error)) => Err(Failure::from_error(error)),
            };
            match accepted {
                Ok((function, handles)) => {
                    let inputs = inputs(&handles, &submission.inputs);
                    let nested = submission.nested.map(NestedName::spec);
                    let digest = match nested {
                        Some(nested) => nested.name,
                        None => digest(&submission, &body, &handles, object),
                    };
                    this.tasks().submit(NewTask {
                        job: this.post.is_job(from).then_some(from),
                        function,
                        object,
                        arguments: TaskArguments::Encoded(EncodedArguments { body, handles }),
                        // Of another process: sums of it must not overflow.
                        stored_bytes: usize::try_from(submission.stored_bytes.min(1 << 40))
                            .unwrap_or(1 << 30),
                        inputs,
                        options: submission.options,
                        pinned: submission.pinned,
                        alias: submission.is_alias.then_some((|_| None) as ReferenceOf),
                        digest,
                        nested,
                        named: submission.named,
                    });
                    // Its last reference may have been dropped before the call was known here.
                    if matches!(this.references.object(object), Object::Unknown) {
                        this.tasks().freed(object);
                    }
                }
                Err(failure) => this.fill(object, Err(Arc::new(failure))),
            }
        });
    }
}

/// The name of a call that is none of a pure call: unique, since its object is.
fn digest(submission: &Submission, body: &Body, handles: &[Arc<Handle>], object: RefId) -> CallDigest {
    let references = handles.iter().map(|handle| handle.id()).chain([object]);
    CallDigest::of(
        (CallDigest::PROGRAM, submission.call.0),
        (submission.function.0, submission.pinned),
        body.segments(),
        references.map(ReferenceName::Object),
    )
}

/// The references whose values are arguments, each once.
fn inputs(handles: &[Arc<Handle>], ids: &[RefId]) -> Vec<Arc<Handle>> {
    let mut inputs: Vec<Arc<Handle>> = Vec::new();
    for handle in handles.iter().filter(|handle| ids.contains(&handle.id())) {
        if inputs.iter().all(|input| input.id() != handle.id()) {
            inputs.push(Arc::clone(handle));
        }
    }
    inputs
}
