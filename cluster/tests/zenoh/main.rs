//! Streams through routers of zenoh.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

mod contract;
mod leaks;
mod restarts;
mod routers;
mod stalls;
