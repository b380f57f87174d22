//! Batches of the requests of many clients.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../doubling/mod.rs"]
mod doubling;
#[path = "../gate/mod.rs"]
mod gate;

mod continuous;
mod dynamic;
mod ending;
mod no_room;
mod panics;
mod unserialised;
