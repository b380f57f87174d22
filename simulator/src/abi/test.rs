//! Functions for tests, beyond the driver's own interface.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::c_int;

use crate::engine::{self, Settled};
use crate::{context, event, kernels, report};

/// Returns the code of a state: 1 drained, 0 stuck, 2 blocked on another process.
fn told(settled: Settled) -> c_int {
    match settled {
        Settled::Drained => 1,
        Settled::Stuck => 0,
        Settled::Outside => 2,
    }
}

// SAFETY: the names belong to this library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_violations() -> u64 {
    report::violations()
}

super::exported! {
    /// Blocks a stream until `selvedge_sim_release` is called with this number or a larger one.
    fn selvedge_sim_hold(stream: u64, until: u64) {
        engine::enqueue(context::stream(stream)?, kernels::hold(until))
    }
}

// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_stuck() -> c_int {
    c_int::from(engine::settled() == Some(Settled::Stuck))
}

// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_settle() -> c_int {
    told(engine::settle())
}

// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_events() -> u64 {
    event::count()
}

// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_release(upto: u64) {
    kernels::release(upto);
}
