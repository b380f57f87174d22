//! Forks: a count that goes up in each forked child.

#![allow(unsafe_code, reason = "a hook that runs in forked children")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process and this one.
pub(crate) static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on.
pub(crate) fn count() {
    static HOOK: Once = Once::new();
    extern "C" fn in_child() {
        // Relaxed: the child has one thread.
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    if cfg!(miri) {
        return; // Miri has no forks
    }
    HOOK.call_once(|| {
        // SAFETY: the hook only changes one atomic number, which is allowed in a child right after a fork, and its
        // code is never unloaded. If the system has no memory for the hook, forked children are not distinguished
        // from their parents.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
