//! Collectives between actors, and the schedules that use them.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[path = "../actors/mod.rs"]
mod actors;

mod collectives;
mod defects;
