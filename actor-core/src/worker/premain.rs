//! The start of a worker: a process becomes a worker before `main` (feature `premain`, on Linux), or when `main` calls
//! [`init`].

use std::sync::atomic::{AtomicBool, Ordering};

use crate::worker::exit::refuse;
use crate::worker::serve;
use crate::{flags, platform};

/// Turns the process into a worker if it was started as one, and then does not return. Otherwise it handles the flags
/// that every program understands ([`flags`](crate::flags)), and does nothing else.
///
/// With the feature `premain` (the default, on Linux) this has already happened before `main`. Without the feature, and
/// on other systems, call this first in `main`: any code before the call also runs in every worker.
pub fn init() {
    // Relaxed: the flag only says that this function has run, and publishes nothing.
    INITIALISED.store(true, Ordering::Relaxed);
    match platform::premain::link() {
        None => flags::take(),
        Some(Ok(link)) => serve::serve(link),
        Some(Err(why)) => refuse(&why),
    }
}

/// Whether [`init`] has run, before `main` or in it. If so, a process that is started as a worker becomes one.
pub(crate) fn initialised() -> bool {
    // Relaxed, like the store in `init`: the flag publishes nothing.
    INITIALISED.load(Ordering::Relaxed)
}

static INITIALISED: AtomicBool = AtomicBool::new(false);
