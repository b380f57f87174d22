//! Ordinary calls of an actor, outside any graph, and calls of remote functions.

pub(crate) mod remote_error;
pub(crate) mod request;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use selvedge_channels::{Payload, Traits};
use selvedge_cluster::peer::ProcessId;

use crate::actor::arguments::Returned;
use crate::actor::registry::typed;
use crate::actor_record::{ActorRecord, Liveness};
use crate::call::remote_error::RemoteError;
use crate::call::request::{CALL_TIMEOUT, CallFault};
use crate::cancel::CallCancel;
use crate::current::NoBlocking;
use crate::death::Death;
use crate::failure::Failure;
use crate::process_name::{NameBook, ProcessName};
use crate::promise::{Answer, NoAnswer};
use crate::remote::near::near;
use crate::waiting::{Unanswered, WaitPermit, wait_for, wait_for_any};

/// The reason that a call gave no value.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The method returned an error, panicked, or its value could not be sent.
    #[error("`{actor}.{method}` failed: {failure}")]
    Failed {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
        /// The failure. [`Failure::Error`] holds the user's own error, if the method ran in this process or serde knows
        /// the error's type.
        failure: Failure,
    },
    /// The actor is dead.
    #[error("`{actor}.{method}`: {death}")]
    ActorDied {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
        /// The death of the actor.
        death: Box<Death>,
    },
    /// The answer did not arrive in time. After [`Call::wait`], which takes the call, the call is cancelled. After
    /// [`Call::wait_timeout`] it goes on as long as its [`Call`] lives, and may be waited for again.
    #[error(
        "`{actor}.{method}` has not answered after {waited:?}{} (help: `wait` cancels the call then; `wait_timeout` waits longer, and the \
         call goes on while its `Call` is kept{})",
        if *is_waiting { ": a method on the thread of the actor waits itself" } else { "" },
        if *is_waiting {
            "; if it waits for the caller, no answer comes: call `self.method(..)`, or let one of the two return first"
        } else {
            ""
        }
    )]
    Timeout {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
        /// The time that the wait lasted.
        waited: Duration,
        /// Whether a method on the actor's thread waited itself when the time was over: the one that has called, say. Seen for actors on
        /// threads of this process.
        is_waiting: bool,
    },
    /// The call of the function or method that waited was cancelled, or its deadline has passed.
    #[error("`{actor}.{method}` was not waited for: the call that waited was cancelled: end the function")]
    Cancelled {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
    },
    /// An async remote function waited by blocking, which would stop all other async functions of its process. The call goes on as
    /// long as its [`Call`] lives.
    #[error(
        "`{actor}.{method}` was not waited for: an async remote function cannot block (help: write `.await` in place of `.wait()`)"
    )]
    WouldBlock {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
    },
    /// The answer has been taken already.
    #[error("the answer of `{actor}.{method}` has been taken already")]
    Taken {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
    },
    /// The runtime was shut down.
    #[error(
        "`{actor}.{method}`: the runtime was shut down, or dropped (help: keep the `Runtime` as long as its actors are called)"
    )]
    Shutdown {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
    },
    /// A call of a remote function gave no value.
    #[error("`{function}` on {process}: {error}")]
    Remote {
        /// The function's path.
        function: &'static str,
        /// The process that the function was to run in.
        process: ProcessName,
        /// The reason.
        error: Box<RemoteError>,
    },
}

selvedge_channels::debug_is_report!(CallError);

/// The failure of a result that has come as bytes.
#[derive(thiserror::Error)]
#[error("the calling process cannot decode its result: {0}")]
struct Undecoded(Failure);

selvedge_channels::debug_is_report!(Undecoded);

impl CallError {
    /// The user's own error, if the method or function returned one of type `E`, and ran in this process or serde knows
    /// `E`.
    #[must_use]
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.failure().and_then(Failure::downcast_ref)
    }

    /// Whether the method or function panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.failure().is_some_and(Failure::is_panic)
    }

    /// The reason, if this was a call of a remote function.
    #[must_use]
    pub fn remote(&self) -> Option<&RemoteError> {
        match self {
            CallError::Remote { error, .. } => Some(error),
            _ => None,
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match self {
            CallError::Failed { failure, .. } => Some(failure),
            CallError::Remote { error, .. } => match &**error {
                RemoteError::Failed(failure) => Some(failure),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The method or function that a call is made to.
#[derive(Clone)]
pub(crate) enum Callee {
    /// A method of an actor.
    Method(Arc<ActorRecord>, &'static str),
    /// A remote function, by its path, in a process, with the names of processes.
    Function(&'static str, ProcessId, Arc<NameBook>),
}

/// A call in flight. Wait for it, or `.await` it.
///
/// A call is a future, and one that is borrowed may be awaited again: `tokio::select! { value = &mut call => .. }` lets it go on when
/// another branch is first, and `join_all(calls)` awaits many. An `.await` has no limit of time. Once the answer was taken, another
/// one is [`CallError::Taken`] or [`RemoteError::Taken`].
///
/// The drop of this object cancels the call, also after a wait that timed out. An `async fn` is then dropped where it
/// awaits, or does not begin. Any other method runs to its end, and its result is discarded; it may ask whether its call is
/// cancelled ([`cancellation`](crate::cancellation)). [`detach`](Self::detach) lets the call go on.
#[must_use = "a call's errors show in its result"]
pub struct Call<R: 'static> {
    answer: Answer<Result<Returned, CallFault>>,
    /// `None` if the call goes on without this object.
    cancel: Option<Arc<CallCancel>>,
    callee: Callee,
    /// The time of [`wait`](Self::wait).
    limit: Duration,
    traits: &'static Traits<R>,
}

impl<R: 'static> std::fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.callee {
            Callee::Method(actor, method) => write!(f, "Call({}.{method})", actor.name()),
            Callee::Function(path, process, _) => write!(f, "Call({path} on {process})"),
        }
    }
}

impl<R: 'static> Drop for Call<R> {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
    }
}

impl<R: Payload> Call<R> {
    pub(crate) fn new(
        answer: Answer<Result<Returned, CallFault>>,
        cancel: Arc<CallCancel>,
        callee: Callee,
        traits: &'static Traits<R>,
    ) -> Self {
        Self {
            answer,
            cancel: Some(cancel),
            callee,
            limit: CALL_TIMEOUT,
            traits,
        }
    }

    /// Sets the time of [`wait`](Self::wait).
    pub(crate) fn limited(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Lets the call go on without this object. Its result is discarded.
    pub fn detach(mut self) {
        self.cancel = None;
    }

    /// Blocks until the answer arrives, at most one minute, or the call's own deadline; after that the call is
    /// cancelled. The death of the actor or process is an answer too.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait(mut self) -> Result<R, CallError> {
        self.wait_timeout(self.limit)
    }

    /// Blocks until the answer arrives, at most `timeout`. After [`CallError::Timeout`] or [`RemoteError::Timeout`] the
    /// call continues and may be waited for again. After any other answer, another wait returns [`CallError::Taken`] or
    /// [`RemoteError::Taken`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<R, CallError> {
        let answered = self.answered(timeout);
        self.outcome(answered)
    }

    /// Returns the answer if it has arrived, without waiting for it. Once the answer was returned, the next one is
    /// [`CallError::Taken`] or [`RemoteError::Taken`].
    pub fn try_get(&mut self) -> Option<Result<R, CallError>> {
        let answered = self.answer.try_take()?;
        Some(self.outcome(Ok(answered)))
    }

    /// Waits like [`wait`](Self::wait), in a function that has given its place back already.
    pub(crate) fn wait_in_place(mut self) -> Result<R, CallError> {
        let answered = WaitPermit::in_place(self.limit).wait_for(&mut self.answer);
        self.outcome(answered)
    }

    /// Waits at most `timeout` until one of the calls has its answer, which a wait for it then returns at once. Returns its place in
    /// the slice; `None` if the time is over first, or if there are no calls.
    ///
    /// # Errors
    /// [`CallError`]: the function that waits must not block, or its call was cancelled. The calls go on.
    pub fn wait_any(calls: &mut [Self], timeout: Duration) -> Result<Option<usize>, CallError> {
        Self::wait_any_of(calls.iter(), timeout)
    }

    pub(crate) fn wait_any_of<'a>(
        calls: impl Iterator<Item = &'a Self> + Clone,
        timeout: Duration,
    ) -> Result<Option<usize>, CallError> {
        let waited = wait_for_any(calls.clone().map(|call| &call.answer), timeout);
        match (waited, calls.into_iter().next()) {
            (Ok(place), _) => Ok(place),
            (Err(_), None) => Ok(None),
            (Err(reason), Some(first)) => Err(first.callee.not_awaited(reason)),
        }
    }

    /// The call as one whose result is a `U`.
    pub(crate) fn of_type<U: Payload>(mut self, traits: &'static Traits<U>) -> Call<U> {
        Call {
            answer: std::mem::replace(&mut self.answer, Answer::ready(Err(CallFault::NoActor))),
            cancel: self.cancel.take(),
            callee: self.callee.clone(),
            limit: self.limit,
            traits,
        }
    }

    fn outcome(&mut self, answered: Result<Answered, Unanswered>) -> Result<R, CallError> {
        match answered {
            Ok(Ok(answer)) => self.value(answer),
            Ok(Err(reason)) => Err(self.unanswered(reason)),
            Err(reason) => Err(self.callee.not_awaited(reason)),
        }
    }

    /// Waits for the answer. A function that cannot give its place away, because too many have, waits for a method in its place.
    fn answered(&mut self, timeout: Duration) -> Result<Answered, Unanswered> {
        match wait_for(&mut self.answer, timeout) {
            Err(Unanswered::Refused(NoBlocking::TooMany { .. }))
                if matches!(self.callee, Callee::Method(..)) =>
            {
                WaitPermit::in_place(timeout).wait_for(&mut self.answer)
            }
            waited => waited,
        }
    }

    /// Returns the error of a call without an answer.
    fn unanswered(&self, reason: NoAnswer) -> CallError {
        match &self.callee {
            Callee::Method(actor, method) => of_actor(actor, method, reason),
            function => function.error(match reason {
                NoAnswer::Taken => RemoteError::Taken,
                NoAnswer::Broken => RemoteError::Shutdown,
            }),
        }
    }

    fn value(&mut self, answer: Result<Returned, CallFault>) -> Result<R, CallError> {
        // Nothing is left to cancel.
        self.cancel = None;
        let fault = match answer {
            // User code runs here: `Deserialize`.
            Ok(returned) => match Failure::catch(|| returned.into::<R>(self.traits)) {
                Ok(value) => return Ok(value),
                Err(failure) => CallFault::Failed(Failure::from_error(Undecoded(failure))),
            },
            Err(fault) => fault,
        };
        Err(match fault {
            CallFault::NoActor => self.unanswered(NoAnswer::Broken),
            CallFault::Died(death) => self.callee.died(death),
            CallFault::Failed(failure) => self.callee.failed(failure),
            CallFault::Remote(error) => self.callee.fault(error),
        })
    }
}

type Answered = Result<Result<Returned, CallFault>, NoAnswer>;

/// Returns the error of an actor's call without an answer. A broken promise means the actor's death or the runtime's end.
fn of_actor(actor: &ActorRecord, method: &'static str, reason: NoAnswer) -> CallError {
    let name = actor.name().to_owned();
    match (reason, actor.liveness()) {
        (NoAnswer::Taken, _) => CallError::Taken { actor: name, method },
        (NoAnswer::Broken, Liveness::Dead(death)) => CallError::ActorDied {
            actor: name,
            method,
            death: Box::new(death),
        },
        (NoAnswer::Broken, _) => CallError::Shutdown { actor: name, method },
    }
}

impl Callee {
    fn failed(&self, failure: Failure) -> CallError {
        match self {
            Callee::Method(actor, method) => CallError::Failed {
                actor: actor.name().to_owned(),
                method,
                failure,
            },
            Callee::Function(..) => self.error(RemoteError::Failed(failure)),
        }
    }

    fn died(&self, death: Death) -> CallError {
        match self {
            Callee::Method(actor, method) => CallError::ActorDied {
                actor: actor.name().to_owned(),
                method,
                death: Box::new(match actor.liveness() {
                    // The actor was ended before its process, and its own death tells why.
                    Liveness::Dead(own) if !death.actors.contains(&actor.id()) => own,
                    _ => death,
                }),
            },
            Callee::Function(..) => self.failed(Failure::from_error(death)),
        }
    }

    /// The error of a remote function, as its process has told it.
    pub(crate) fn fault(&self, error: RemoteError) -> CallError {
        match error {
            RemoteError::Failed(failure) => self.failed(typed(failure)),
            RemoteError::UnknownFunction { near: known } => self.unknown(known),
            error => self.error(error),
        }
    }

    /// The error of a function that its process does not know; `known` are the functions that it knows.
    fn unknown(&self, known: Vec<String>) -> CallError {
        let near = match self {
            Callee::Method(..) => known,
            Callee::Function(path, ..) => near(path, known),
        };
        self.error(RemoteError::UnknownFunction { near })
    }

    /// The error of a wait that ended without the answer.
    fn not_awaited(&self, reason: Unanswered) -> CallError {
        match (self, reason) {
            (Callee::Method(actor, method), Unanswered::TimedOut { waited }) => CallError::Timeout {
                actor: actor.name().to_owned(),
                method,
                waited,
                is_waiting: actor.home.is_waiting(),
            },
            (Callee::Method(actor, method), Unanswered::Cancelled) => CallError::Cancelled {
                actor: actor.name().to_owned(),
                method,
            },
            (Callee::Method(actor, method), Unanswered::Refused(NoBlocking::Async)) => {
                CallError::WouldBlock {
                    actor: actor.name().to_owned(),
                    method,
                }
            }
            (_, reason) => self.error(reason.into()),
        }
    }

    /// The error of a remote function.
    pub(crate) fn error(&self, error: RemoteError) -> CallError {
        match self {
            Callee::Method(..) => self.failed(Failure::from_error(error)),
            Callee::Function(function, process, names) => CallError::Remote {
                function,
                process: names.name(*process),
                error: Box::new(error),
            },
        }
    }
}

impl<R: Payload> Future for Call<R> {
    type Output = Result<R, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let call = self.get_mut();
        call.answer.poll(context).map(|answer| match answer {
            Ok(answer) => call.value(answer),
            Err(reason) => Err(call.unanswered(reason)),
        })
    }
}
