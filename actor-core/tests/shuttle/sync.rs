//! Atomics and values of a thread of shuttle, its locks with the interface of `parking_lot`, and a model of the doorbell, which loom
//! has explored (`BELL-1` in the package of channels).

use std::ops::{Deref, DerefMut};
use std::time::Instant;

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use shuttle::thread_local;

#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// `None` while the thread waits at a condition variable.
pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

#[derive(Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

pub(crate) struct InTime;

/// A doorbell whose waiter sleeps elsewhere. Shuttle's atomics have one order, so there is no fence.
pub(crate) struct Doorbell(AtomicBool);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap()))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().unwrap();
        guard.0 = Some(self.0.wait(held).unwrap());
    }

    /// Shuttle has no time: the moment never comes.
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> InTime {
        self.wait(guard);
        InTime
    }

    pub(crate) fn notify_one(&self) -> bool {
        self.0.notify_one();
        true
    }
}

impl Doorbell {
    pub(crate) fn heap() -> Self {
        Doorbell(AtomicBool::new(false))
    }

    pub(crate) fn announce(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn retract(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub(crate) fn claim(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl InTime {
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}
