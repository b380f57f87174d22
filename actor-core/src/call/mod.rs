//! Ordinary calls of an actor, outside any graph.

pub(crate) mod request;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::{Payload, Traits};

use crate::actor::arguments::Returned;
use crate::actor_record::{ActorRecord, Liveness};
use crate::call::request::{CALL_TIMEOUT, CallFault};
use crate::cancel::CallCancel;
use crate::death::Death;
use crate::failure::Failure;
use crate::promise::{Answer, NoAnswer};

/// The reason that a call gave no value.
#[derive(thiserror::Error)]
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
        #[source]
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
    /// The answer did not arrive in time. The call goes on as long as its [`Call`] lives, and [`Call::wait_timeout`] may
    /// wait for it again.
    #[error(
        "`{actor}.{method}` has not answered after {waited:?} (help: wait_timeout sets this time, and the call goes on while it is kept)"
    )]
    Timeout {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
        /// The time that the wait lasted.
        waited: Duration,
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
    #[error("`{actor}.{method}`: the runtime was shut down")]
    Shutdown {
        /// The actor's name.
        actor: String,
        /// The method's name.
        method: &'static str,
    },
}

selvedge_channels::debug_is_report!(CallError);

impl CallError {
    /// The user's own error, if the method returned one of type `E`, and ran in this process or serde knows `E`.
    #[must_use]
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            CallError::Failed { failure, .. } => failure.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the method panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, CallError::Failed { failure, .. } if failure.is_panic())
    }
}

/// A call in flight. Wait for it, or `.await` it.
///
/// The drop of this object cancels the call, also after a wait that timed out. An `async fn` is then dropped where it
/// awaits, or does not begin. Any other method runs to its end, and its result is discarded; it may ask whether its call is
/// cancelled ([`cancellation`](crate::cancellation)). [`detach`](Self::detach) lets the call go on.
#[must_use = "a call's errors show in its result"]
pub struct Call<R: 'static> {
    answer: Answer<Result<Returned, CallFault>>,
    /// `None` if the call goes on without this object.
    cancel: Option<Arc<CallCancel>>,
    callee: Arc<ActorRecord>,
    method: &'static str,
    traits: &'static Traits<R>,
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
        callee: Arc<ActorRecord>,
        method: &'static str,
        traits: &'static Traits<R>,
    ) -> Self {
        Self {
            answer,
            cancel: Some(cancel),
            callee,
            method,
            traits,
        }
    }

    /// Lets the call go on without this object. Its result is discarded.
    pub fn detach(mut self) {
        self.cancel = None;
    }

    /// Blocks until the answer arrives, at most one minute; after that the call is cancelled. The death of the actor is an
    /// answer too.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait(mut self) -> Result<R, CallError> {
        self.wait_timeout(CALL_TIMEOUT)
    }

    /// Blocks until the answer arrives, at most `timeout`. After [`CallError::Timeout`] the call continues and may be
    /// waited for again. After any other answer, another wait returns [`CallError::Taken`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<R, CallError> {
        let started = Instant::now();
        match self.answer.wait(started.checked_add(timeout)) {
            Some(Ok(answer)) => self.value(answer),
            Some(Err(reason)) => Err(self.unanswered(reason)),
            None => Err(CallError::Timeout {
                actor: self.callee.name().to_owned(),
                method: self.method,
                waited: started.elapsed(),
            }),
        }
    }

    /// Returns the error of a call without an answer. A broken promise means the actor's death or the runtime's end.
    fn unanswered(&self, reason: NoAnswer) -> CallError {
        let (actor, method) = (self.callee.name().to_owned(), self.method);
        match (reason, self.callee.liveness()) {
            (NoAnswer::Taken, _) => CallError::Taken { actor, method },
            (NoAnswer::Broken, Liveness::Dead(death)) => CallError::ActorDied {
                actor,
                method,
                death: Box::new(death),
            },
            (NoAnswer::Broken, _) => CallError::Shutdown { actor, method },
        }
    }

    fn value(&self, answer: Result<Returned, CallFault>) -> Result<R, CallError> {
        let (actor, method) = (self.callee.name().to_owned(), self.method);
        let fault = match answer {
            // User code runs here: `Deserialize`.
            Ok(returned) => match Failure::catch(|| returned.into::<R>(self.traits)) {
                Ok(value) => return Ok(value),
                Err(failure) => CallFault::Failed(failure),
            },
            Err(fault) => fault,
        };
        Err(match fault {
            CallFault::Failed(failure) => CallError::Failed {
                actor,
                method,
                failure,
            },
            CallFault::Died(death) => CallError::ActorDied {
                actor,
                method,
                death: Box::new(death),
            },
            CallFault::NoActor => self.unanswered(NoAnswer::Broken),
        })
    }
}

impl<R: Payload> IntoFuture for Call<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let answer = std::future::poll_fn(|context| self.answer.poll(context)).await;
            match answer {
                Ok(answer) => self.value(answer),
                Err(reason) => Err(self.unanswered(reason)),
            }
        })
    }
}
