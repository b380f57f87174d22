//! The homes of actors: the placements that users ask for, and the lanes and workers that result.
//!
//! - `placement`: placements and policies, as users choose them.
//! - `inline`, `thread`, `worker`: the kinds of homes, each with its [`Home`] and its [`LaneHome`](keep::LaneHome). A
//!   further kind is a further file.
//! - `keep`: the shared objects that keep lanes alive.
//! - `handles`: [`Lane`](crate::Lane) and [`Worker`](crate::Worker).

pub(crate) mod handles;
pub(crate) mod inline;
pub(crate) mod keep;
pub(crate) mod placement;
mod requested;
pub(crate) mod thread;
pub(crate) mod worker;

use std::sync::Arc;

use crate::actor::arguments::ArgumentsKind;
use crate::call::request::ActorCall;
use crate::cell::guarded::Guarded;
use crate::cell::{ActorCell, Blueprint};
use crate::home::placement::PlacementLabel;
use crate::id::{ActorId, Address};
use crate::spawn_error::SpawnError;
use crate::worker::record::WorkerRecord;

/// A callback for the end of a constructor. Its drop says that the home has ended.
pub(crate) type BuildReply = Box<dyn FnOnce(Result<(), SpawnError>) + Send>;

/// The home of an actor: the place where its state lives and its methods run. A home outlives its lane; a request
/// after that has no effect, and its reply is dropped or says that there is no actor.
pub(crate) trait Home: Send + Sync {
    /// The address of the actor.
    fn address(&self) -> Address;

    /// The present place of the actor, for display.
    fn label(&self) -> PlacementLabel;

    /// The form in which a call's arguments are passed.
    fn arguments(&self) -> ArgumentsKind;

    /// Builds the actor.
    fn build(&self, blueprint: &Blueprint, done: BuildReply);

    /// Runs a call, or passes it on to the thread that runs it.
    fn call(&self, call: ActorCall);

    /// Removes the actor, after everything that the home was asked before.
    fn remove(&self, actor: ActorId);

    /// Kills the process of the actor; `why` is told by its exit. Returns `false` if the actor lives in this process, where nothing
    /// can be killed.
    fn kill(&self, _why: &str) -> bool {
        false
    }

    /// Makes async methods that the lane's program awaits ask again whether they are wanted. Never blocks.
    fn wake_async(&self);

    /// Whether a method on the actor's thread waits at present, so that no other one runs; `false` where that cannot be seen.
    fn is_waiting(&self) -> bool {
        false
    }

    /// The actor itself, if it has no lane and the threads that use it run its methods.
    fn inline_cell(&self) -> Option<&Arc<Guarded<ActorCell>>> {
        None
    }

    /// The worker process of the actor, if it lives in one.
    fn worker(&self) -> Option<&Arc<WorkerRecord>> {
        None
    }
}
