//! The probe for states that must stay on their thread.
//!
//! Generated code does not know whether the type of an actor is `Send`, so it asks a [`StateProbe`]: with both traits in
//! scope, method lookup finds [`SendState`] if `A: Send`, and, one reference further, [`PinnedState`] for every other type.

use std::marker::PhantomData;

use crate::ActorState;

/// A probe that tells whether values of type `A` are `Send`. See the documentation of the module.
pub struct StateProbe<A>(PhantomData<fn() -> A>);

impl<A> StateProbe<A> {
    /// Creates a probe, which has no data.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A> Default for StateProbe<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// The answers of [`StateProbe`] for types that are `Send`.
pub trait SendState<A> {
    /// Erases the type of an actor.
    fn state(&self, actor: A) -> ActorState;

    /// Returns `false`.
    fn is_pinned(&self) -> bool;
}

impl<A: Send + 'static> SendState<A> for StateProbe<A> {
    fn state(&self, actor: A) -> ActorState {
        ActorState::new(actor)
    }

    fn is_pinned(&self) -> bool {
        false
    }
}

/// The answers of [`StateProbe`] for all other types.
pub trait PinnedState<A> {
    /// Erases the type of an actor, and pins it to this thread.
    fn state(&self, actor: A) -> ActorState;

    /// Returns `true`.
    fn is_pinned(&self) -> bool;
}

impl<A: 'static> PinnedState<A> for &StateProbe<A> {
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
        assert!(!(&StateProbe::<Vec<u8>>::new()).is_pinned());
        assert!((&StateProbe::<Rc<u8>>::new()).is_pinned());
        assert!((&StateProbe::<Box<dyn Fn()>>::new()).is_pinned());
    }
}
