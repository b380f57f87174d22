//! An actor's state with its type erased.
//!
//! - `STATE-1` the value in the box has the type that `id` identifies.
//! - `STATE-2` while a [`Loan`] exists, the value is neither dropped nor borrowed exclusively, and its box stays where
//!   it is. A state whose loans outlive it is leaked.
#![allow(unsafe_code)] // downcasts an erased state without a call through its vtable, and lends it to futures

use std::any::{Any, TypeId, type_name};
use std::mem::{ManuallyDrop, replace};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::Failure;

/// An actor's value at its home. The type is stored here as `id`: `dyn Any` would be asked by a virtual call, which
/// takes as long as a small method.
pub struct ActorState {
    id: TypeId,
    value: Box<dyn Any + Send>,
    /// Counts the loans; `None` if the state was never lent.
    loans: Option<Arc<()>>,
}

/// A shared borrow of an actor's value that a future may hold. The state refuses every exclusive use meanwhile. A loan
/// stays on the thread on which it was made.
pub struct Loan<A> {
    value: NonNull<A>,
    /// The other count is the state's.
    _loans: Arc<()>,
}

impl<A> Loan<A> {
    /// The actor's value.
    #[must_use]
    pub fn get(&self) -> &A {
        // SAFETY: the value lives and is borrowed only as shared while this loan exists (STATE-2).
        unsafe { self.value.as_ref() }
    }
}

impl ActorState {
    /// Erases the type of an actor.
    #[must_use]
    pub fn new<A: Send + 'static>(actor: A) -> Self {
        ActorState {
            id: TypeId::of::<A>(),
            value: Box::new(actor),
            loans: None,
        }
    }

    /// Whether futures borrow the actor.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        match &self.loans {
            None => false,
            Some(loans) => Arc::strong_count(loans) > 1,
        }
    }

    /// Returns the actor as the receiver of a method of `A` that takes `&self`.
    ///
    /// # Errors
    /// [`Failure::Internal`] if the actor is of another type.
    #[inline]
    pub fn shared<A: 'static>(&self) -> Result<&A, Box<Failure>> {
        if self.id != TypeId::of::<A>() {
            return Err(wrong_receiver::<A>());
        }
        // SAFETY: `id` is that of `A`, so the value in the box is an `A` (STATE-1). It is borrowed as shared, through
        // `&self`.
        Ok(unsafe { &*ptr::from_ref(self.value.as_ref()).cast::<A>() })
    }

    /// Lends the actor to the future of a method of `A` that takes `&self`.
    ///
    /// # Errors
    /// [`Failure::Internal`] if the actor is of another type.
    pub fn lend<A: 'static>(&mut self) -> Result<Loan<A>, Box<Failure>> {
        let loans = Arc::clone(self.loans.get_or_insert_default());
        let value = NonNull::from(self.shared::<A>()?);
        Ok(Loan { value, _loans: loans })
    }

    /// Returns the actor as the receiver of a method of `A`.
    ///
    /// # Errors
    /// [`Failure::Internal`] if the actor is of another type, or if futures borrow it.
    #[inline]
    pub fn receiver<A: 'static>(&mut self) -> Result<&mut A, Box<Failure>> {
        if self.id != TypeId::of::<A>() {
            return Err(wrong_receiver::<A>());
        }
        if self.loans.is_some() && self.is_lent() {
            return Err(lent());
        }
        // SAFETY: `id` is that of `A`, so the value in the box is an `A` (STATE-1). It is borrowed exclusively, through
        // `&mut self`, and no loan exists (STATE-2).
        Ok(unsafe { &mut *ptr::from_mut(self.value.as_mut()).cast::<A>() })
    }
}

impl Drop for ActorState {
    fn drop(&mut self) {
        if self.is_lent() {
            // A lane ends the futures of an actor first. If it did not, the value is leaked: a future would read freed
            // memory (STATE-2).
            let _leaked = ManuallyDrop::new(replace(&mut self.value, Box::new(())));
        }
    }
}

#[cold]
fn lent() -> Box<Failure> {
    let text = "a method with `&mut self` was to run while others of its actor are in flight";
    Box::new(Failure::Internal(text.to_owned()))
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
    fn state_2_a_lent_state_refuses_exclusive_use_and_outlives_its_loans() {
        let shared = Arc::new(());
        let mut state = ActorState::new(Arc::clone(&shared));
        let (one, two) = (state.lend::<Arc<()>>().unwrap(), state.lend::<Arc<()>>().unwrap());
        assert!(state.receiver::<Arc<()>>().is_err());
        assert!(Arc::ptr_eq(state.shared::<Arc<()>>().unwrap(), one.get()));
        drop(one);
        assert!(state.receiver::<Arc<()>>().is_err());
        drop(two);
        assert!(state.receiver::<Arc<()>>().is_ok());
        let loan = state.lend::<Arc<()>>().unwrap();
        drop(state);
        assert!(Arc::ptr_eq(&shared, loan.get()), "the value is leaked");
        drop(loan);
        assert!(state_of(&shared).lend::<u8>().is_err());
    }

    fn state_of(shared: &Arc<()>) -> ActorState {
        ActorState::new(Arc::clone(shared))
    }

    #[test]
    fn a_state_is_dropped_with_its_actor() {
        let shared = std::sync::Arc::new(());
        let state = ActorState::new(std::sync::Arc::clone(&shared));
        drop(state);
        assert_eq!(std::sync::Arc::strong_count(&shared), 1);
    }
}
