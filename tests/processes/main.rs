//! Tests that count, limit or fork a whole process: each runs in a process of its own.
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
mod alone;
#[path = "../census/mod.rs"]
mod census;
#[path = "../killing/mod.rs"]
mod killing;
#[path = "../spilled/mod.rs"]
mod spilled;

mod channels;
mod crowd;
mod edges;
mod endings;
#[cfg(feature = "parallel")]
mod everything;
mod fork;
mod kill;
mod killed_peers;
mod lending;
mod memory;
mod no_leak;
mod objects;
mod shortage;
mod submitted;
mod undumpable;
