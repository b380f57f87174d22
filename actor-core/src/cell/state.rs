//! An actor's state with its type erased.
//!
//! - `STATE-1` the value in the box is an `A`, where `id` identifies `A` or, for a pinned state, `Pinned<A>`.
//! - `STATE-2` a pinned state has an owner, the thread that built it. Only that thread uses or drops the value; a pinned
//!   state that another thread drops is left in `LEFT`, for its owner to drop. A state that is not pinned is `Send`.
#![allow(unsafe_code)] // downcasts an erased state without a call through its vtable, and carries one that is not `Send`

use std::any::{Any, TypeId, type_name};
use std::marker::PhantomData;
use std::ptr;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use selvedge_channels::dispose;

use crate::Failure;

/// An actor's value at its home. The type is stored here as `id`: `dyn Any` would be asked by a virtual call, which
/// takes as long as a small method.
pub struct ActorState {
    id: TypeId,
    value: Box<dyn Any>,
    /// The thread that built a pinned state. `None` for a state that any thread may use.
    owner: Option<ThreadId>,
}

// SAFETY: without an owner, the value is `Send` (STATE-2). With an owner, other threads only carry the box: `receiver`
// and the drop leave the value alone on any thread but the owner's.
unsafe impl Send for ActorState {}

/// Identifies pinned states of an `A`, so that the check of the thread costs other states nothing.
struct Pinned<A>(PhantomData<A>);

/// An error: an actor whose state is not `Send` was used on another thread than the one that built it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{type_name}` is not `Send`, so it runs only on the thread that built it: use its handle on that thread, or give the \
     actor a thread of its own with `in_thread`"
)]
pub struct WrongThread {
    /// The type of the actor.
    pub type_name: &'static str,
}

impl ActorState {
    /// Erases the type of an actor.
    #[must_use]
    pub fn new<A: Send + 'static>(actor: A) -> Self {
        ActorState {
            id: TypeId::of::<A>(),
            value: Box::new(actor),
            owner: None,
        }
    }

    /// Erases the type of an actor, and makes this thread the only one that uses it.
    #[must_use]
    pub fn pinned<A: 'static>(actor: A) -> Self {
        Left::drop_mine_at_the_end();
        ActorState {
            id: TypeId::of::<Pinned<A>>(),
            value: Box::new(actor),
            owner: Some(thread::current().id()),
        }
    }

    /// Returns the actor as the receiver of a method of `A`.
    ///
    /// # Errors
    /// [`WrongThread`], as the user's error, for a pinned state of another thread. [`Failure::Internal`] if the actor is
    /// of another type.
    #[inline]
    pub fn receiver<A: 'static>(&mut self) -> Result<&mut A, Box<Failure>> {
        if self.id != TypeId::of::<A>() {
            self.check_pinned::<A>()?;
        }
        // SAFETY: `id` is that of `A` or, as just checked, of `Pinned<A>` on the owner's thread, so the value in the box is
        // an `A` (STATE-1) that this thread may use (STATE-2). It is borrowed exclusively, through `&mut self`.
        Ok(unsafe { &mut *ptr::from_mut(self.value.as_mut()).cast::<A>() })
    }

    /// Whether this is a pinned state of an `A`, on the thread of its owner.
    #[cold]
    fn check_pinned<A: 'static>(&self) -> Result<(), Box<Failure>> {
        let type_name = type_name::<A>();
        if self.id != TypeId::of::<Pinned<A>>() {
            return Err(Box::new(Failure::Internal(format!(
                "the actor is not a `{type_name}`"
            ))));
        }
        if self.is_elsewhere() {
            return Err(Box::new(Failure::from_error(WrongThread { type_name })));
        }
        Ok(())
    }

    fn is_elsewhere(&self) -> bool {
        self.owner.is_some_and(|owner| owner != thread::current().id())
    }
}

impl Drop for ActorState {
    fn drop(&mut self) {
        if self.is_elsewhere() {
            let value = std::mem::replace(&mut self.value, Box::new(()));
            let (id, owner) = (self.id, self.owner.take());
            LEFT.lock().push(ActorState { id, value, owner });
        }
    }
}

/// Pinned states that other threads have dropped. A state whose owner has ended stays here.
static LEFT: Mutex<Vec<ActorState>> = Mutex::new(Vec::new());

/// Drops, when its thread ends, the states in `LEFT` that the thread owns.
struct Left;

thread_local!(static MINE: Left = const { Left });

impl Left {
    /// Drops what others have left for this thread so far, and the rest when the thread ends.
    fn drop_mine_at_the_end() {
        // A thread that has dropped its thread-locals already is about to end.
        let _ = MINE.try_with(|_| ());
        Left::drop_mine();
    }

    fn drop_mine() {
        let mine: Vec<_> = LEFT
            .lock()
            .extract_if(.., |state| !state.is_elsewhere())
            .collect();
        mine.into_iter().for_each(dispose);
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        Left::drop_mine();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;

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
        let shared = Arc::new(());
        let state = ActorState::new(Arc::clone(&shared));
        drop(state);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    /// Not `Send`, and counts its drops on the thread that made it.
    struct Here(Rc<Cell<u32>>, Arc<Mutex<Option<ThreadId>>>);

    impl Drop for Here {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            *self.1.lock() = Some(thread::current().id());
        }
    }

    #[test]
    fn a_pinned_state_is_used_on_its_thread_only() {
        let (count, dropped) = (Rc::new(Cell::new(0)), Arc::default());
        let mut state = ActorState::pinned(Here(Rc::clone(&count), Arc::clone(&dropped)));
        assert!(state.receiver::<String>().is_err());
        state.receiver::<Here>().unwrap().0.set(7);
        let refused = move || {
            let error = state.receiver::<Here>().err().unwrap();
            (state, error.downcast_ref::<WrongThread>().is_some())
        };
        let (state, is_wrong_thread) = thread::spawn(refused).join().unwrap();
        assert!(is_wrong_thread);
        assert_eq!(count.get(), 7);
        drop(state);
        assert_eq!((count.get(), *dropped.lock()), (8, Some(thread::current().id())));
    }

    #[test]
    fn a_pinned_state_that_another_thread_drops_is_dropped_by_its_owner() {
        let dropped: Arc<Mutex<Option<ThreadId>>> = Arc::default();
        let told = Arc::clone(&dropped);
        let owner = thread::spawn(move || {
            let state = ActorState::pinned(Here(Rc::default(), Arc::clone(&told)));
            thread::spawn(move || drop(state)).join().unwrap();
            assert_eq!(*told.lock(), None);
            thread::current().id()
        });
        let owner = owner.join().unwrap();
        assert_eq!(*dropped.lock(), Some(owner));
    }
}
