//! What tests ask the simulator beyond the driver's own interface.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::c_int;

use crate::engine::{self, Settled};
use crate::{kernels, report};

/// Drained, stuck, or blocked on another process.
fn told(settled: Settled) -> c_int {
    match settled {
        Settled::Drained => 1,
        Settled::Stuck => 0,
        Settled::Outside => 2,
    }
}

// SAFETY: the names are this library's own.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_violations() -> u64 {
    report::violations()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_stuck() -> c_int {
    c_int::from(engine::settled() == Some(Settled::Stuck))
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_settle() -> c_int {
    told(engine::settle())
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_release(upto: u64) {
    kernels::release(upto);
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn selvedge_sim_reset() {
    report::forget();
}
