//! A mutex that detects re-entry by the thread that holds it, and whose waits can have a deadline.
//!
//! User code runs under some of the locks of selvedge: an inline actor's method under the lock of its actor, a graph
//! with inline actors under the lock of its driver. That code may lead back to the same lock, and a plain mutex would
//! deadlock there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

/// A value that one thread at a time may use.
#[derive(Debug)]
pub struct Guarded<T> {
    value: Mutex<T>,
    /// The thread that holds the value; 0 while no thread does.
    holder: AtomicUsize,
    /// The number of threads that wait for the value.
    waiting: AtomicUsize,
}

/// Returns a number that no other living thread has and that is not 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// A mark that this thread holds the value. The drop removes the mark.
struct Holding<'a>(&'a AtomicUsize);

impl<'a> Holding<'a> {
    #[inline]
    fn by_this_thread(holder: &'a AtomicUsize) -> Self {
        // Relaxed: each thread only compares the mark with its own number.
        holder.store(this_thread(), Ordering::Relaxed);
        Holding(holder)
    }
}

impl Drop for Holding<'_> {
    #[inline]
    fn drop(&mut self) {
        // Relaxed, like the store above: the mark orders nothing.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The reason that the value cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEntry {
    /// Another thread holds the value, and the deadline has passed or no wait was allowed.
    OutOfTime,
    /// The calling thread holds the value already, further up its stack.
    Reentered,
}

impl<T> Guarded<T> {
    /// Guards `value`.
    pub fn new(value: T) -> Self {
        Guarded {
            value: Mutex::new(value),
            holder: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Uses the value once it is free. If another thread holds it, `deadline` is called: a deadline in the past means
    /// one attempt, and `None` means a wait without a limit.
    ///
    /// # Errors
    /// [`NoEntry`]; `act` has not run then.
    #[inline]
    pub fn with<R>(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
        act: impl FnOnce(&mut T) -> R,
    ) -> Result<R, NoEntry> {
        match self.value.try_lock() {
            Some(value) => Ok(self.using(value, act)),
            None => Ok(self.using(self.wait(deadline)?, act)),
        }
    }

    #[cold]
    fn wait(&self, deadline: impl FnOnce() -> Option<Instant>) -> Result<MutexGuard<'_, T>, NoEntry> {
        // A thread that holds the value already would wait for itself.
        if self.is_held_here() {
            return Err(NoEntry::Reentered);
        }
        // Relaxed, like the load in `is_wanted`: a holder that sees the count late releases the value a little later.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let lock = match deadline() {
            None => Some(self.value.lock()),
            Some(deadline) => self.value.try_lock_until(deadline),
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        lock.ok_or(NoEntry::OutOfTime)
    }

    fn is_held_here(&self) -> bool {
        // Relaxed: this thread's own number can only have been stored by this thread.
        self.holder.load(Ordering::Relaxed) == this_thread()
    }

    #[inline]
    fn using<R>(&self, mut value: MutexGuard<'_, T>, act: impl FnOnce(&mut T) -> R) -> R {
        let holding = Holding::by_this_thread(&self.holder);
        let result = act(&mut value);
        drop(holding);
        if self.is_wanted() {
            // The waiting thread gets the lock next, even if this thread asks for it again at once.
            MutexGuard::unlock_fair(value);
        }
        result
    }

    /// Whether other threads wait for the value: a hint for a thread that holds it for long.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        // Relaxed: a hint; see `wait`.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Uses the value if it is free.
    ///
    /// # Errors
    /// The errors of [`with`](Self::with).
    #[inline]
    pub fn try_with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, NoEntry> {
        match self.value.try_lock() {
            Some(value) => Ok(self.using(value, act)),
            None if self.is_held_here() => Err(NoEntry::Reentered),
            None => Err(NoEntry::OutOfTime),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn its_own_holder_is_told_and_does_not_wait() {
        let guarded = Guarded::new(1);
        let inner = guarded.with(
            || None,
            |_| {
                let later = Some(Instant::now() + Duration::from_secs(60));
                [
                    guarded.with(|| None, |_| ()),
                    guarded.with(|| later, |_| ()),
                    guarded.try_with(|_| ()),
                ]
            },
        );
        assert_eq!(inner, Ok([Err(NoEntry::Reentered); 3]));
        assert_eq!(guarded.with(|| None, |value| *value), Ok(1));
    }

    #[test]
    fn who_waits_is_seen_and_comes_next() {
        let guarded = Guarded::new(1);
        std::thread::scope(|scope| {
            let held = guarded.with(
                || None,
                |_| {
                    scope.spawn(|| guarded.with(|| None, |value| *value = 2));
                    while !guarded.is_wanted() {
                        std::thread::yield_now();
                    }
                },
            );
            assert_eq!(held, Ok(()));
        });
        assert!(!guarded.is_wanted());
        assert_eq!(guarded.with(|| None, |value| *value), Ok(2));
    }

    #[test]
    fn others_wait_until_their_deadline_and_a_panic_frees_it() {
        let guarded = Guarded::new(1);
        let later = Some(Instant::now() + Duration::from_millis(2));
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            guarded.with(
                || None,
                |_| {
                    std::thread::scope(|scope| {
                        let other =
                            scope.spawn(|| [guarded.with(|| later, |_| ()), guarded.try_with(|_| ())]);
                        assert_eq!(other.join().unwrap(), [Err(NoEntry::OutOfTime); 2]);
                    });
                    std::panic::resume_unwind(Box::new(()));
                },
            )
        }));
        assert!(held.is_err());
        assert_eq!(guarded.try_with(|value| *value), Ok(1));
    }
}
