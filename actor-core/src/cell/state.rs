//! An actor's state with its type erased.
//!
//! - `STATE-1` the value in the box is an `A`, where `id` identifies `A` or, for a pinned state, `PinnedType<A>`.
//! - `STATE-2` a pinned state has an owner, the thread that built it. Only that thread uses or drops the value; a pinned
//!   state that another thread drops is left in `LEFT`, for its owner to drop. A state that is not pinned is `Send`.
//! - `STATE-3` while a [`Loan`] exists, the value is neither dropped nor borrowed exclusively, its box stays where it is, and
//!   only the thread of the loans uses the value, which need not be `Sync`. A state that is dropped while it is lent leaves
//!   its box to its loans, and the last one drops it.
#![allow(unsafe_code)] // downcasts an erased state without a call through its vtable, lends it, and carries one that is not `Send`

use std::any::{Any, TypeId, type_name};
use std::marker::PhantomData;
use std::mem::replace;
use std::ptr::{self, NonNull};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use selvedge_channels::dispose;

use super::loan::{Loan, Loans};
use crate::Failure;

/// An actor's value at its home. The type is stored here as `id`: `dyn Any` would be asked by a virtual call, which
/// takes as long as a small method.
pub struct ActorState {
    id: TypeId,
    value: Box<dyn Any>,
    /// The loans; `None` if the state was never lent.
    loans: Option<Loans>,
    /// The thread that built a pinned state. `None` for a state that any thread may use.
    owner: Option<ThreadId>,
    /// Saves the state; `None` if it has no checkpoints.
    saving: Option<Saving>,
}

/// Counts a method that has run on the state, and saves the state when it is time.
pub(crate) type Saving = Box<dyn FnMut(&ActorState) -> Result<(), Failure> + Send>;

// SAFETY: without an owner, the value is `Send` (STATE-2), and while loans stay behind on a thread, `receiver`, `shared` and
// the drop leave the value alone on every other one (STATE-3). With an owner, other threads only carry the box: the three
// leave the value alone on any thread but the owner's.
unsafe impl Send for ActorState {}

/// Identifies pinned states of an `A`, so that the check of the thread costs other states nothing.
struct PinnedType<A>(PhantomData<A>);

/// An error: an actor whose state is not `Send` was used on another thread than the one that built it.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{type_name}` is not `Send`, so it runs only on the thread that built it: use its handle on that thread, or give the \
     actor a thread of its own with `in_thread`"
)]
pub struct WrongThread {
    /// The type of the actor.
    pub type_name: &'static str,
}

selvedge_channels::debug_is_report!(WrongThread);

impl ActorState {
    /// Erases the type of an actor.
    #[must_use]
    pub fn new<A: Send + 'static>(actor: A) -> Self {
        ActorState {
            id: TypeId::of::<A>(),
            value: Box::new(actor),
            loans: None,
            owner: None,
            saving: None,
        }
    }

    /// Erases the type of an actor, and makes this thread the only one that uses it.
    #[must_use]
    pub fn pinned<A: 'static>(actor: A) -> Self {
        Left::drop_mine_at_the_end();
        ActorState {
            id: TypeId::of::<PinnedType<A>>(),
            value: Box::new(actor),
            loans: None,
            owner: Some(thread::current().id()),
            saving: None,
        }
    }

    /// Has the state saved from now on.
    pub(crate) fn save_with(&mut self, saving: Saving) {
        self.saving = Some(saving);
    }

    /// Notes that a method with `&mut self` has run. Saves the state if its checkpoints say so.
    ///
    /// # Errors
    /// [`CheckpointError::NotSaved`](crate::CheckpointError::NotSaved), as the user's error.
    #[inline]
    pub fn changed(&mut self) -> Result<(), Box<Failure>> {
        match self.saving {
            None => Ok(()),
            Some(_) => self.count_change(),
        }
    }

    #[cold]
    fn count_change(&mut self) -> Result<(), Box<Failure>> {
        let Some(mut saving) = self.saving.take() else {
            return Ok(());
        };
        let saved = saving(self);
        self.saving = Some(saving);
        Ok(saved?)
    }

    /// Whether futures borrow the actor.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.loans.as_ref().is_some_and(Loans::any)
    }

    /// Returns the actor as the receiver of a method of `A` that takes `&self`.
    ///
    /// # Errors
    /// [`WrongThread`], as the user's error, for a pinned state of another thread. [`Failure::Internal`] if the actor is
    /// of another type, or if futures of another thread borrow it.
    #[inline]
    pub fn shared<A: 'static>(&self) -> Result<&A, Box<Failure>> {
        if self.id != TypeId::of::<A>() {
            self.check_pinned::<A>()?;
        }
        if let Some(loans) = &self.loans {
            loans.check_thread()?;
        }
        // SAFETY: `id` is that of `A` or, as just checked, of `PinnedType<A>` on the owner's thread, so the value in the box
        // is an `A` (STATE-1) that this thread may use (STATE-2, and STATE-3 as just checked). It is borrowed as shared,
        // through `&self`.
        Ok(unsafe { &*ptr::from_ref(self.value.as_ref()).cast::<A>() })
    }

    /// Lends the actor to the future of a method of `A` that takes `&self`.
    ///
    /// # Errors
    /// The errors of [`shared`](Self::shared).
    pub fn lend<A: 'static>(&mut self) -> Result<Loan<A>, Box<Failure>> {
        let value = NonNull::from(self.shared::<A>()?);
        // If there are loans, `shared` has found them to be of this thread.
        Ok(self.loans.get_or_insert_with(Loans::none).lend(value))
    }

    /// Returns the actor as the receiver of a method of `A`.
    ///
    /// # Errors
    /// [`WrongThread`], as the user's error, for a pinned state of another thread. [`Failure::Internal`] if the actor is
    /// of another type, or if futures borrow it.
    #[inline]
    pub fn receiver<A: 'static>(&mut self) -> Result<&mut A, Box<Failure>> {
        if self.id != TypeId::of::<A>() {
            self.check_pinned::<A>()?;
        }
        if self.is_lent() {
            return Err(lent());
        }
        // SAFETY: `id` is that of `A` or, as just checked, of `PinnedType<A>` on the owner's thread, so the value in the box
        // is an `A` (STATE-1) that this thread may use (STATE-2). It is borrowed exclusively, through `&mut self`, and no
        // loan exists (STATE-3).
        Ok(unsafe { &mut *ptr::from_mut(self.value.as_mut()).cast::<A>() })
    }

    /// Whether this is a pinned state of an `A`, on the thread of its owner.
    #[cold]
    fn check_pinned<A: 'static>(&self) -> Result<(), Box<Failure>> {
        let type_name = type_name::<A>();
        if self.id != TypeId::of::<PinnedType<A>>() {
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
            let value = replace(&mut self.value, Box::new(()));
            LEFT.lock().push(ActorState {
                id: self.id,
                value,
                loans: self.loans.take(),
                owner: self.owner.take(),
                saving: None,
            });
        } else if let Some(loans) = self.loans.take() {
            // Without loans, this drops the box here and now.
            loans.leave(replace(&mut self.value, Box::new(())));
        }
    }
}

#[cold]
fn lent() -> Box<Failure> {
    let text = "a method with `&mut self` was to run while others of its actor are in flight";
    Box::new(Failure::Internal(text.to_owned()))
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
    fn state_3_a_lent_state_refuses_exclusive_use_and_outlives_its_loans() {
        let shared = Arc::new(());
        let mut state = ActorState::new(Arc::clone(&shared));
        let (one, two) = (state.lend::<Arc<()>>().unwrap(), state.lend::<Arc<()>>().unwrap());
        assert!(state.receiver::<Arc<()>>().is_err());
        assert!(Arc::ptr_eq(state.shared::<Arc<()>>().unwrap(), one.get()));
        drop(one);
        assert!(state.receiver::<Arc<()>>().is_err());
        drop(two);
        assert!(state.receiver::<Arc<()>>().is_ok());
        let (one, two) = (state.lend::<Arc<()>>().unwrap(), state.lend::<Arc<()>>().unwrap());
        drop(state);
        drop(one);
        assert!(Arc::ptr_eq(&shared, two.get()), "the value lives on");
        drop(two);
        assert_eq!(Arc::strong_count(&shared), 1, "the last loan drops it");
        assert!(state_of(&shared).lend::<u8>().is_err());
    }

    #[test]
    fn state_3_a_value_that_futures_of_a_thread_borrow_is_used_on_no_other() {
        let mut state = ActorState::new(Cell::new(0));
        let loan = state.lend::<Cell<i32>>().unwrap();
        let elsewhere = move || {
            let mut state = state;
            let refused = state.shared::<Cell<i32>>().is_err() && state.lend::<Cell<i32>>().is_err();
            (state, refused)
        };
        let (mut state, refused) = thread::spawn(elsewhere).join().unwrap();
        assert!(refused);
        loan.get().set(state.shared::<Cell<i32>>().unwrap().get() + 1);
        let set = thread::spawn(move || {
            // What was done through the loan is seen as soon as the loan is seen to be over.
            loop {
                if let Ok(value) = state.receiver::<Cell<i32>>() {
                    break *value.get_mut();
                }
                thread::yield_now();
            }
        });
        loan.get().set(loan.get().get() + 1);
        drop(loan);
        assert_eq!(set.join().unwrap(), 2);
    }

    fn state_of(shared: &Arc<()>) -> ActorState {
        ActorState::new(Arc::clone(shared))
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
