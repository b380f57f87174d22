//! The matrix: each fault of a host or of the network meets each kind of work. Each test is a fault, and prints a line for each
//! load: what was seen, and how long after the fault.
//!
//! `MATRIX=all` takes every load for every fault; without it, a fault meets one or two. With `MATRIX_TLS=1` the links are under TLS.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[cfg(feature = "cluster")]
#[path = "../programs/available.rs"]
mod available;
mod cell;
mod driver;
mod faults;
mod guests;
#[cfg(feature = "cluster")]
mod nat;
#[path = "../../../spilled/mod.rs"]
mod spilled;
mod sshd;
mod storm;
mod wire;
