//! An actor's state with its type erased.
//!
//! - `STATE-1` the value in the box has the type that `id` identifies.
#![allow(unsafe_code)] // downcasts an erased state without a call through its vtable

use std::any::{Any, TypeId, type_name};
use std::ptr;

use crate::Failure;

/// An actor's value at its home. The type is stored here as `id`: `dyn Any` would be asked by a virtual call, which
/// takes as long as a small method.
pub struct ActorState {
    id: TypeId,
    value: Box<dyn Any + Send>,
}

impl ActorState {
    /// Erases the type of an actor.
    #[must_use]
    pub fn new<A: Send + 'static>(actor: A) -> Self {
        ActorState {
            id: TypeId::of::<A>(),
            value: Box::new(actor),
        }
    }

    /// Returns the actor as the receiver of a method of `A`.
    ///
    /// # Errors
    /// [`Failure::Internal`] if the actor is of another type.
    #[inline]
    pub fn receiver<A: 'static>(&mut self) -> Result<&mut A, Box<Failure>> {
        if self.id != TypeId::of::<A>() {
            return Err(wrong_receiver::<A>());
        }
        // SAFETY: `id` is that of `A`, so the value in the box is an `A` (STATE-1). It is borrowed exclusively, through
        // `&mut self`.
        Ok(unsafe { &mut *ptr::from_mut(self.value.as_mut()).cast::<A>() })
    }
}

#[cold]
fn wrong_receiver<A>() -> Box<Failure> {
    let wanted = type_name::<A>();
    Box::new(Failure::Internal(format!("the actor is not a `{wanted}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_it_was_made_of_and_nothing_else() {
        let mut state = ActorState::new(String::from("one"));
        state.receiver::<String>().unwrap().push_str(" and more");
        assert_eq!(state.receiver::<String>().unwrap(), "one and more");
        let refused = state.receiver::<Vec<u8>>().unwrap_err().to_string();
        assert!(refused.contains("Vec<u8>"), "{refused}");
        let mut nothing = ActorState::new(());
        assert!(nothing.receiver::<()>().is_ok());
    }

    #[test]
    fn a_state_is_dropped_with_its_actor() {
        let shared = std::sync::Arc::new(());
        let state = ActorState::new(std::sync::Arc::clone(&shared));
        drop(state);
        assert_eq!(std::sync::Arc::strong_count(&shared), 1);
    }
}
