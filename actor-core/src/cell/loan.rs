//! Loans of an actor's state to the futures of its methods (`STATE-3` in `state.rs`).
#![allow(unsafe_code)] // refers to a value that the state keeps in place

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use crate::Failure;

/// The box of a state that was dropped before its loans.
type Outlived = Mutex<Option<Box<dyn Any>>>;

/// The loans of a state.
pub(super) struct Loans {
    /// Counted by the state and by each loan.
    outlived: Arc<Outlived>,
    /// The thread that the loans that exist were made on, and stay on.
    on: ThreadId,
}

impl Loans {
    pub(super) fn none() -> Self {
        Loans {
            outlived: Arc::default(),
            on: thread::current().id(),
        }
    }

    /// Lends the state's value on this thread, which is that of the loans that exist.
    pub(super) fn lend<A>(&mut self, value: NonNull<A>) -> Loan<A> {
        self.on = thread::current().id();
        Loan {
            value,
            _loans: Arc::clone(&self.outlived),
        }
    }

    /// Leaves the box of a state that is dropped to its loans. Without loans, drops it here and now.
    pub(super) fn leave(self, value: Box<dyn Any>) {
        *self.outlived.lock() = Some(value);
    }

    /// Whether a loan exists.
    #[inline]
    pub(super) fn any(&self) -> bool {
        if Arc::strong_count(&self.outlived) > 1 {
            return true;
        }
        // SYNC loan: pairs with the release in the drop of the last loan's count, which `strong_count` reads without an order;
        // all that was done through loans, on whichever thread, comes before.
        fence(Ordering::Acquire);
        false
    }

    /// Refuses the use of the value on another thread than that of the loans.
    ///
    /// # Errors
    /// [`Failure::Internal`].
    pub(super) fn check_thread(&self) -> Result<(), Box<Failure>> {
        if self.any() && self.on != thread::current().id() {
            let text = "a method was to run on another thread than the one on which futures borrow its actor";
            return Err(Box::new(Failure::Internal(text.to_owned())));
        }
        Ok(())
    }
}

/// A shared borrow of an actor's value that a future may hold. The state refuses every exclusive use meanwhile. A loan
/// stays on the thread on which it was made.
pub struct Loan<A> {
    value: NonNull<A>,
    /// The other count is the state's. Whoever gives up the last count drops the box, if the state has left it here.
    _loans: Arc<Outlived>,
}

impl<A> Loan<A> {
    /// The actor's value.
    #[must_use]
    pub fn get(&self) -> &A {
        // SAFETY: the value lives and is borrowed only as shared while this loan exists (STATE-3).
        unsafe { self.value.as_ref() }
    }
}
