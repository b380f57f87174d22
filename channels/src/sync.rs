//! Atomics and cells: those of std, those of loom under `cfg(loom)`, or those of shuttle if `cfg(shuttle)` is set as
//! well. Code that loom or shuttle tests must take them from this module.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(loom, shuttle))]
pub(crate) use shuttle::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(loom, not(shuttle)))]
pub(crate) use loom::{
    cell::UnsafeCell as Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    },
};

#[cfg(any(not(loom), shuttle))]
pub(crate) use cell::Cell;

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

#[cfg(loom)]
pub(crate) use mutex::Mutex;

#[cfg(loom)]
mod mutex {
    #[cfg(not(shuttle))]
    use loom::sync::{Mutex as Lock, MutexGuard};
    #[cfg(shuttle)]
    use shuttle::sync::{Mutex as Lock, MutexGuard};

    /// The mutex of loom, with the interface of `parking_lot`.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(Lock<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(Lock::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

#[cfg(any(not(loom), shuttle))]
mod cell {
    /// The cell of std, with the closure interface of loom's cell.
    pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Self {
            Cell(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}
