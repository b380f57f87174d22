//! The start of a worker: a process becomes a worker before `main` (feature `premain`, on Linux), or when `main` calls
//! [`init`].

use crate::worker::exit::refuse;
use crate::worker::{initialised, serve};
use crate::{flags, platform};

/// Turns the process into a worker if it was started as one, and then does not return. Otherwise it handles the flags
/// that every program understands ([`flags`](crate::flags)), and does nothing else.
///
/// With the feature `premain` (the default, on Linux) this has already happened before `main`. Without the feature, and
/// on other systems, call this first in `main`: any code before the call also runs in every worker.
pub fn init() {
    initialised::set();
    #[cfg(feature = "hosts")]
    match flags::hosted_worker() {
        Ok(None) => {}
        Ok(Some(flags)) => crate::hosts::serve::serve(&flags),
        Err(wrong) => refuse(&wrong.to_string()),
    }
    match platform::premain::link() {
        None => flags::take(),
        Some(Ok(link)) => serve::serve(link),
        Some(Err(why)) => refuse(&why),
    }
}
