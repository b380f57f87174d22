//! The mark of a thread that passes a letter, a death or a tick to a service: no user code may run on it.

use std::cell::Cell;

thread_local! {
    static IS_DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Puts back what was there before.
struct DeliveringBefore(bool);

impl Drop for DeliveringBefore {
    fn drop(&mut self) {
        IS_DELIVERING.set(self.0);
    }
}

/// Delivers something on this thread.
pub(crate) fn delivering<R>(deliver: impl FnOnce() -> R) -> R {
    let _before = DeliveringBefore(IS_DELIVERING.replace(true));
    deliver()
}

/// Whether this thread delivers something, so that other threads have to run what is user code: drops of values, and wakers.
pub(crate) fn is_delivering() -> bool {
    IS_DELIVERING.get()
}
