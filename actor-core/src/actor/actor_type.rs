//! The trait that `#[actor]` implements for the type of a user's actor.

use selvedge_channels::Wire;
use serde::{Deserialize, Serialize};

use crate::actor::ActorEntry;
use crate::actor_ref::ActorRef;
use crate::{ActorState, AsyncDriver, BoxError};

/// A type whose values live on a lane and are used by calls and by programs.
///
/// A type that is not `Send` stays on the thread that built it: no other lane of a graph borrows it, and an inline actor
/// refuses calls of other threads ([`WrongThread`](crate::WrongThread)).
pub trait Actor: Sized + 'static {
    /// The constructor's arguments, as a tuple. They are kept, encoded, to rebuild the actor after a panic or after the
    /// death of its worker. [`NoConstructor`] if only a closure can build the actor.
    type Args: Wire;

    /// The type that users hold, with one method per public method of the actor.
    type Handle: Clone;

    /// The name of the type, as in its entry: `concat!(module_path!(), "::", "Tok")`.
    const NAME: &'static str;

    /// The description of the actor type, which is also registered in [`ACTORS`](crate::ACTORS).
    fn entry() -> &'static ActorEntry;

    /// Builds a value; `driver` runs an async constructor.
    ///
    /// # Errors
    /// The error that the user's constructor returns.
    fn create(args: Self::Args, driver: &AsyncDriver) -> Result<Self, BoxError>;

    /// Erases the type of a value: [`ActorState::new`] for a type that is `Send`, else [`ActorState::pinned`].
    fn state(self) -> ActorState;

    /// Wraps a reference into the typed handle.
    fn handle(actor: ActorRef) -> Self::Handle;
}

/// The arguments of an actor type that [`Runtime::spawn_with`](crate::Runtime::spawn_with) alone can spawn. No value of
/// this type exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NoConstructor {}
