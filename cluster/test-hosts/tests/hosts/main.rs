//! Test hosts, and what processes of `selvedge-cluster` do on them.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

mod faults;
mod isolation;
mod leaves_nothing;
mod life;
mod links;
mod support;
