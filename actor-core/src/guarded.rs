//! A mutex that knows when its own holder comes back, and that is never waited for without a limit.
//!
//! User code runs under some of our locks: an inline actor's method under its actor's, a graph with inline actors
//! under its driver's. What that code calls may lead back to the same lock, and a plain mutex would hang there.

use std::cell::RefCell;
use std::time::Instant;

use parking_lot::ReentrantMutex;

/// A value that one thread at a time may use.
#[derive(Debug)]
pub struct Guarded<T>(ReentrantMutex<RefCell<T>>);

/// Why the value cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEntry {
    /// Another thread has it, and the deadline has passed.
    OutOfTime,
    /// This very thread has it already, further up its stack.
    Reentered,
}

impl<T> Guarded<T> {
    /// Guards `value`.
    pub fn new(value: T) -> Self {
        Guarded(ReentrantMutex::new(RefCell::new(value)))
    }

    /// Uses the value, once it is free; a deadline that has passed looks once. With no deadline it is waited for as
    /// long as its holder takes.
    ///
    /// # Errors
    /// [`NoEntry`]; `act` has not run then.
    #[inline]
    pub fn with<R>(&self, deadline: Option<Instant>, act: impl FnOnce(&mut T) -> R) -> Result<R, NoEntry> {
        let lock = match deadline {
            None => Some(self.0.lock()),
            // The clock is not asked unless there is something to wait for.
            Some(deadline) => self.0.try_lock().or_else(|| self.0.try_lock_until(deadline)),
        };
        let lock = lock.ok_or(NoEntry::OutOfTime)?;
        let mut value = lock.try_borrow_mut().map_err(|_| NoEntry::Reentered)?;
        Ok(act(&mut value))
    }

    /// Uses the value if it is free.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    #[inline]
    pub fn try_with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, NoEntry> {
        let lock = self.0.try_lock().ok_or(NoEntry::OutOfTime)?;
        let mut value = lock.try_borrow_mut().map_err(|_| NoEntry::Reentered)?;
        Ok(act(&mut value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn its_own_holder_is_told_and_does_not_wait() {
        let guarded = Guarded::new(1);
        let inner = guarded.with(None, |_| {
            let later = Some(Instant::now() + Duration::from_secs(60));
            [
                guarded.with(None, |_| ()),
                guarded.with(later, |_| ()),
                guarded.try_with(|_| ()),
            ]
        });
        assert_eq!(inner, Ok([Err(NoEntry::Reentered); 3]));
        assert_eq!(guarded.with(None, |value| *value), Ok(1));
    }

    #[test]
    fn others_wait_until_their_deadline_and_a_panic_frees_it() {
        let guarded = Guarded::new(1);
        let later = Some(Instant::now() + Duration::from_millis(2));
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            guarded.with(None, |_| {
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| [guarded.with(later, |_| ()), guarded.try_with(|_| ())]);
                    assert_eq!(other.join().unwrap(), [Err(NoEntry::OutOfTime); 2]);
                });
                std::panic::resume_unwind(Box::new(()));
            })
        }));
        assert!(held.is_err());
        assert_eq!(guarded.try_with(|value| *value), Ok(1));
    }
}
