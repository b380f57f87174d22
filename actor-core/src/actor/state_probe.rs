//! The probe for states that must stay on their thread.
//!
//! Generated code does not know whether the type of an actor is `Send`, so it asks a [`TypeProbe`]: with both traits in
//! scope, method lookup finds [`SendState`] if `A: Send`, and, one reference further, [`PinnedState`] for every other type.

use crate::ActorState;
use crate::actor::probe::TypeProbe;

/// The answers of [`TypeProbe`] for types that are `Send`.
pub trait SendState<A> {
    /// Erases the type of an actor.
    fn state(&self, actor: A) -> ActorState;

    /// Returns `false`.
    fn is_pinned(&self) -> bool;
}

impl<A: Send + 'static> SendState<A> for TypeProbe<A> {
    fn state(&self, actor: A) -> ActorState {
        ActorState::new(actor)
    }

    fn is_pinned(&self) -> bool {
        false
    }
}

/// The answers of [`TypeProbe`] for all other types.
pub trait PinnedState<A> {
    /// Erases the type of an actor, and pins it to this thread.
    fn state(&self, actor: A) -> ActorState;

    /// Returns `true`.
    fn is_pinned(&self) -> bool;
}

impl<A: 'static> PinnedState<A> for &TypeProbe<A> {
    fn state(&self, actor: A) -> ActorState {
        ActorState::pinned(actor)
    }

    fn is_pinned(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[allow(clippy::needless_borrow, reason = "the reference chooses the trait")]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn the_probe_tells_what_must_stay_on_its_thread() {
        assert!(!(&TypeProbe::<Vec<u8>>::of()).is_pinned());
        assert!((&TypeProbe::<Rc<u8>>::of()).is_pinned());
        assert!((&TypeProbe::<Box<dyn Fn()>>::of()).is_pinned());
    }
}
