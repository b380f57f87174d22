//! Wakers, whose panics are caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use selvedge_channels::dispose;

/// Wakes a waker. Wakers are user code, so panics are caught.
pub fn wake(waker: Waker) {
    dispose(catch_unwind(AssertUnwindSafe(|| waker.wake())));
}

/// A waker that is woken by the drop, wherever that happens: no waiter sleeps for ever.
pub(crate) struct Waking(Option<Waker>);

impl Waking {
    pub(crate) fn new(waker: Waker) -> Self {
        Waking(Some(waker))
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            wake(waker);
        }
    }
}
