//! Process identity: the process in which an object was made. A forked child has copies of all objects but not the
//! threads behind them, and the drop of a copy must not end objects that the parent still uses, or give back shared memory
//! that the parent still reads and writes.

use std::sync::atomic::Ordering;

use crate::platform;
use crate::platform::forks::FORKS;

/// The process in which an object was made.
#[derive(Clone, Copy, Debug)]
pub struct MadeIn(u32);

impl MadeIn {
    /// Returns the identity of the current process.
    #[must_use]
    pub fn here() -> Self {
        platform::forks::count();
        // Relaxed: see `is_here`.
        MadeIn(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the current process is this one, and not a forked child. One load.
    #[must_use]
    #[inline]
    pub fn is_here(self) -> bool {
        // Relaxed: the number changes only in a new child, before its only thread continues.
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
