//! The verbs of a runtime: what becomes of a described call.

use std::sync::Weak;

use selvedge_channels::{Payload, Traits, Wire};
use selvedge_cluster::peer::ProcessId;
use selvedge_objects::refs::RefStats;

use crate::call::remote_error::RemoteError;
use crate::call::request::CALL_TIMEOUT;
use crate::call::{Call, CallError, Callee};
use crate::current::current;
use crate::home::handles::Worker;
use crate::hub::LinkTraffic;
use crate::reference::Ref;
use crate::remote::asking::Asking;
use crate::remote::chosen::Verb;
use crate::remote::composite::Composite;
use crate::remote::function::Wants;
use crate::remote::remote_call::RemoteCall;
use crate::runtime::{Inner, Runtime};
use crate::waiting::WaitPermit;

/// An error: the thread runs neither a remote function nor an actor, or their runtime has ended.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no runtime here: only the threads of remote functions and of actors have a current one, until it ends; an inline actor and a function bound to a graph have none"
)]
pub struct NoRuntime;

selvedge_channels::debug_is_report!(NoRuntime);

impl Runtime {
    /// The runtime of the remote function or the actor that runs on this thread. A runtime that they have made themselves is another
    /// one. An inline actor has none, because it runs on the thread of whoever drives it.
    ///
    /// The runtime lives as long as this handle, so an actor that keeps it in its state keeps its own runtime alive until
    /// [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// [`NoRuntime`] on a thread that runs neither, and once the runtime has ended.
    pub fn current() -> Result<Runtime, NoRuntime> {
        let current = current().ok_or(NoRuntime)?;
        let inner = current.owner.downcast_ref::<Weak<Inner>>();
        let inner = inner.and_then(Weak::upgrade).ok_or(NoRuntime)?;
        Ok(Runtime::of(inner))
    }

    /// Calls a remote function. The function runs at most once; its value comes back, and nothing is kept in its process.
    ///
    /// A call within this process moves the arguments and the value. A call to another process encodes them, with one
    /// message there and one back. A function that panics fails with its panic's message.
    ///
    /// ```
    /// # use selvedge_core as selvedge;
    /// # fn described() -> Option<selvedge::RemoteCall<f64>> { None }
    /// use selvedge::Runtime;
    /// let runtime = Runtime::new();
    /// if let Some(square) = described() {
    ///     assert_eq!(runtime.call(square).wait()?, 9.0);
    /// }
    /// # Ok::<(), selvedge::CallError>(())
    /// ```
    pub fn call<T: Wire, S>(&self, call: RemoteCall<T, S>) -> Call<T> {
        self.start(call, Verb::Call, Wants::Value, const { &Traits::LETTER })
    }

    /// Runs a remote function in a process that keeps the value, and returns a reference to it at once. The value needs no
    /// serde, unless it is fetched from another process. An error of the function is the error of every fetch.
    pub fn keep<T: Payload, S>(&self, call: RemoteCall<T, S>) -> Ref<T> {
        let remote = self.remote();
        let process = remote.choose(call.destination, &call.request.homes);
        Ref::of(match call.check_options(Verb::Keep) {
            Ok(()) => remote.keep(process, call.request),
            Err(error) => remote.not_kept(call.request.function, process, error),
        })
    }

    /// Creates a reference without a value, which lives in this process: [`Worker::unset`].
    pub fn unset<T: Wire>(&self) -> Ref<T> {
        let remote = self.remote();
        Ref::of(remote.unset(remote.me()))
    }

    /// The frames and bytes that this process has exchanged with others, by process and service. A process without an entry
    /// has exchanged nothing. Links of processes that are dead are not counted any more.
    #[must_use]
    pub fn traffic(&self) -> Vec<LinkTraffic> {
        self.remote().traffic()
    }

    /// Whether a process of this number lives and can be called.
    #[doc(hidden)] // for the floor of parallel work
    #[must_use]
    pub fn reaches(&self, process: ProcessId) -> bool {
        process == self.process() || self.remote().find(process).is_ok()
    }

    /// Counts of the references that this process holds, of the objects that live here, and of what is waited for. A
    /// remote function that returns it tells the counts of its process ([`Runtime::current`]).
    #[must_use]
    pub fn references(&self) -> RefStats {
        self.remote().references.stats()
    }

    /// Runs a remote function whose value nobody wants. A success says that the call was accepted; an error of the function
    /// itself is written to the standard error of its process.
    ///
    /// # Errors
    /// [`CallError::Remote`] if the call was not accepted.
    pub fn cast<T, S>(&self, call: RemoteCall<T, S>) -> Result<(), CallError> {
        let function = call.request.function;
        let remote = self.remote();
        let process = remote.choose(call.destination, &call.request.homes);
        let accepted = match (call.check_options(Verb::Cast), self.is_open()) {
            (Err(error), _) => Err(error),
            (Ok(()), true) => remote.cast(process, call.request),
            (Ok(()), false) => Err(RemoteError::Shutdown),
        };
        accepted.map_err(|error| remote.callee(function, process).error(error))
    }

    /// Calls a remote function in every process of [`processes`](Self::processes), and in this one, and returns the values in the order of the processes'
    /// numbers. The calls to other processes are sent before the function runs in this one.
    ///
    /// # Errors
    /// [`Composite`], with the errors of all calls that failed.
    pub fn everywhere<T: Wire, S>(&self, call: RemoteCall<T, S>) -> Result<Vec<T>, Composite> {
        let (function, deadline, remote) = (call.request.function, call.request.deadline, self.remote());
        let checked = call.check_options(Verb::Everywhere);
        // Asked for first, so that a function that must not wait calls nobody; one that may has given its place back until all
        // calls have ended.
        let waiting = WaitPermit::begin(CALL_TIMEOUT);
        let askings = match (checked, &waiting) {
            (Err(error), _) => vec![Asking::failed(remote.me(), error)],
            (Ok(()), Err(reason)) => vec![Asking::failed(remote.me(), RemoteError::from(*reason))],
            (Ok(()), Ok(_)) if !self.is_open() => vec![Asking::failed(remote.me(), RemoteError::Shutdown)],
            (Ok(()), Ok(_)) => remote.ask_everywhere(call.request),
        };
        let calls = askings.len();
        let (mut values, mut errors) = (Vec::new(), Vec::new());
        let made: Vec<_> = askings
            .into_iter()
            .map(|asking| {
                made::<T>(
                    remote.callee(function, asking.process),
                    asking,
                    deadline,
                    const { &Traits::LETTER },
                )
            })
            .collect();
        for call in made {
            match call.wait_in_place() {
                Ok(value) => values.push(value),
                Err(error) => errors.push(error),
            }
        }
        drop(waiting);
        if errors.is_empty() {
            return Ok(values);
        }
        Err(Composite { errors, calls })
    }

    /// Starts a call of which `wants` is wanted, a `T`.
    pub(super) fn start<T: Payload, U, S>(
        &self,
        call: RemoteCall<U, S>,
        verb: Verb,
        wants: Wants,
        traits: &'static Traits<T>,
    ) -> Call<T> {
        let (function, deadline) = (call.request.function, call.request.deadline);
        let remote = self.remote();
        let process = remote.choose(call.destination, &call.request.homes);
        let asking = match (call.check_options(verb), self.is_open()) {
            (Err(error), _) => Asking::failed(process, error),
            (Ok(()), true) => remote.ask(process, call.request, wants),
            (Ok(()), false) => Asking::failed(process, RemoteError::Shutdown),
        };
        let callee = remote.callee(function, asking.process);
        made(callee, asking, deadline, traits)
    }
}

impl Worker {
    /// Runs a remote function in this worker, which keeps the value: [`Runtime::keep`], with this worker as the place.
    pub fn keep<T: Payload, S>(&self, call: RemoteCall<T, S>) -> Ref<T> {
        self.runtime().keep(call.on(self))
    }

    /// Creates a reference without a value, which lives in this worker. Any process that holds the reference sets the value by
    /// [`Ref::set`], and the first one counts; fetches and calls that take the value wait for it.
    pub fn unset<T: Wire>(&self) -> Ref<T> {
        Ref::of(self.runtime().remote().unset(self.process()))
    }
}

fn made<T: Payload>(
    callee: Callee,
    asking: Asking,
    deadline: Option<std::time::Duration>,
    traits: &'static Traits<T>,
) -> Call<T> {
    let call = Call::new(asking.answer, asking.cancel, callee, traits);
    match deadline {
        // The deadline itself ends the wait.
        Some(deadline) => call.limited(deadline.saturating_add(LATE)),
        None => call,
    }
}

/// The time by which a deadline may be late.
const LATE: std::time::Duration = std::time::Duration::from_secs(5);
