//! Waiting: doorbells over futexes, how long to spin before a thread parks, and threads that share a core.

#[cfg(not(loom))]
pub mod berth;
pub mod doorbell;
mod futex;
pub mod on_behalf;
#[cfg(not(loom))]
pub mod shared_core;
#[cfg(not(loom))]
pub mod spin_budget;
pub mod spin_permit;
pub mod waiting;
