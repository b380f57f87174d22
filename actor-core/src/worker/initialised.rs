//! The mark of a process that becomes a worker if it is started as one.

use std::sync::atomic::{AtomicBool, Ordering};

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Records that [`init`](crate::init) has run.
pub(super) fn set() {
    // Relaxed: the flag only says that `init` has run, and publishes nothing.
    INITIALISED.store(true, Ordering::Relaxed);
}

/// Whether [`init`](crate::init) has run, before `main` or in it.
pub(crate) fn initialised() -> bool {
    // Relaxed, like the store in `set`: the flag publishes nothing.
    INITIALISED.load(Ordering::Relaxed)
}
