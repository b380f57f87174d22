//! Ordinary calls inside the runtime: a call on its way to its actor, and the reasons that it gives no value.

use std::sync::Arc;
use std::time::Duration;

use crate::actor::arguments::{Arguments, Returned};
use crate::actor::extension::Method;
use crate::call::remote_error::RemoteError;
use crate::cancel::CallCancel;
use crate::death::Death;
use crate::failure::Failure;
use crate::id::ActorId;

/// The time limit of [`Call::wait`](crate::Call::wait). A call to an inline actor has the same limit: for the wait
/// until the actor is free, and for an async method that awaits.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// An ordinary call on its way to an actor.
pub(crate) struct ActorCall {
    pub(crate) actor: ActorId,
    pub(crate) method: Method,
    pub(crate) arguments: Arguments,
    pub(crate) reply: CallReply,
    /// Whether the caller still wants the result.
    pub(crate) cancel: Arc<CallCancel>,
}

/// A callback for the result of a call. Its drop tells the caller that no result will come.
pub(crate) type CallReply = Box<dyn FnOnce(Result<Returned, CallFault>) + Send>;

/// The reason that a call gave no value, before the actor's name is added.
#[derive(Debug)]
pub(crate) enum CallFault {
    Failed(Failure),
    Died(Death),
    /// No such actor lives at the place that was asked, or it does not any more.
    NoActor,
    /// A remote function gave no value.
    Remote(RemoteError),
}
