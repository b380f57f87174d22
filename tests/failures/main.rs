//! Failures: of methods, of waits and of workers, each told as an error of its type.
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
#[path = "../census/mod.rs"]
mod census;

mod checkpoints;
mod deaths;
mod errors;
mod hostile;
mod lane_failures;
mod no_hang;
mod own_thread;
mod reports;
mod typed_errors;
