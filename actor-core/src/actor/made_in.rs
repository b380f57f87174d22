//! Process identity: the process in which an object was made. A forked child has copies of all objects but not the
//! threads behind them, and the drop of a copy must not end objects that the parent still uses.

#![allow(unsafe_code, reason = "a hook that runs in forked children")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which an object was made.
#[derive(Clone, Copy, Debug)]
pub struct MadeIn(u32);

impl MadeIn {
    /// Returns the identity of the current process.
    #[must_use]
    pub fn here() -> Self {
        static HOOK: Once = Once::new();
        extern "C" fn in_child() {
            // Relaxed: the child has one thread.
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        HOOK.call_once(|| {
            // SAFETY: the hook only changes one atomic number, which is allowed in a child right after a fork, and its
            // code is never unloaded. If the system has no memory for the hook, forked children are not distinguished
            // from their parents.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
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
