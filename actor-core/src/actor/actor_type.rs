//! The trait that `#[actor]` implements for the type of a user's actor.

use crate::actor::construction::Construction;
use crate::actor::{ActorEntry, ConstructorEntry};
use crate::actor_ref::ActorRef;
use crate::cell::state::ActorState;

/// A type whose values live on a lane and are used by calls and by programs.
///
/// A type that is not `Send` stays on the thread that built it: no other lane of a graph borrows it, and an inline actor
/// refuses calls of other threads ([`WrongThread`](crate::WrongThread)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no actor",
    label = "has no `#[actor]`",
    note = "put `#[actor]` in front of the `impl` block with its methods"
)]
pub trait Actor: Sized + 'static {
    /// The arguments of the constructor `new`, as a tuple; [`NoConstructor`] if the type has none. They are kept to rebuild
    /// the actor after a panic or after the death of its worker.
    type Args;

    /// The type that users hold, with one method per public method of the actor.
    type Handle: Clone;

    /// The name of the type, as in its entry: `concat!(module_path!(), "::", "Tok")`.
    const NAME: &'static str;

    /// The description of the actor type, which is also registered in [`ACTORS`](crate::ACTORS).
    fn entry() -> &'static ActorEntry;

    /// Names the constructor `new` with its arguments.
    fn construction(args: Self::Args) -> Construction<Self, Self::Args>;

    /// Erases the type of a value: [`ActorState::new`] for a type that is `Send`, else [`ActorState::pinned`].
    fn into_actor_state(self) -> ActorState;

    /// Wraps a reference into the typed handle.
    fn handle(actor: ActorRef) -> Self::Handle;
}

/// The constructors of an actor type `A`, as a trait, so that the bounds on the types of all arguments are checked once.
pub trait ConstructorTable<A: Actor> {
    /// The table.
    const CONSTRUCTORS: &'static [ConstructorEntry];

    /// Names the constructor `new` with its arguments.
    fn construction(args: A::Args) -> Construction<A, A::Args>;
}

/// The arguments of an actor type without a constructor `new`. No value of
/// this type exists.
#[derive(Clone, Copy, Debug)]
pub enum NoConstructor {}
