//! The trait that `#[actor]` implements for the type of a user's actor.

use selvedge_channels::{Payload, Traits};
use serde::{Deserialize, Serialize};

use crate::BoxError;
use crate::actor::ActorEntry;
use crate::actor_ref::ActorRef;

/// A type whose values live on a lane and are used by calls and by programs.
pub trait Actor: Sized + Send + 'static {
    /// The constructor's arguments, as a tuple. They are kept, to build the actor again after a panic or after the death
    /// of its worker. An actor in a worker process asks that they are [`Wire`](selvedge_channels::Wire).
    /// [`NoConstructor`] if only a closure can build the actor.
    type Args: Payload;

    /// The type that users hold, with one method per public method of the actor.
    type Handle: Clone;

    /// The name of the type, as in its entry: `concat!(module_path!(), "::", "Tok")`.
    const NAME: &'static str;

    /// The description of the actor type, which is also registered in [`ACTORS`](crate::ACTORS).
    fn entry() -> &'static ActorEntry;

    /// Returns what the constructor's arguments can do beside being moved: by default, nothing.
    #[doc(hidden)]
    fn arguments() -> &'static Traits<Self::Args> {
        const { &Traits::MOVED }
    }

    /// Builds a value.
    ///
    /// # Errors
    /// The error that the user's constructor returns.
    fn create(args: Self::Args) -> Result<Self, BoxError>;

    /// Wraps a reference into the typed handle.
    fn handle(actor: ActorRef) -> Self::Handle;
}

/// The arguments of an actor type that [`Runtime::spawn_with`](crate::Runtime::spawn_with) alone can spawn. No value of
/// this type exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NoConstructor {}
