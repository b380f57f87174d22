//! Atomics, locks, doorbells and values of a thread, for the code that shuttle explores: `tests/shuttle` has those of shuttle in
//! this place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::{Condvar, Mutex};
pub(crate) use selvedge_channels::Doorbell;
