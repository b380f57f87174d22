//! Which process something was made in. A forked child has a copy of everything, but not the threads behind it, and what it drops
//! must not end what its parent goes on with.

#![allow(unsafe_code, reason = "a hook that runs in forked children")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that something was made in.
#[derive(Clone, Copy, Debug)]
pub struct MadeIn(u32);

impl MadeIn {
    /// This process.
    #[must_use]
    pub fn here() -> Self {
        static HOOK: Once = Once::new();
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        HOOK.call_once(|| {
            // SAFETY: the hook touches one atomic number, which a child may do right after the fork, and it is never unloaded.
            // Where the system has no memory for it, forked children are not told from their parents.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        MadeIn(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this process is that one, and no forked child. One load.
    #[must_use]
    #[inline]
    pub fn is_here(self) -> bool {
        // Relaxed: it changes only before the child's only thread goes on.
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
