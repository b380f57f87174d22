//! Remote functions and references: in one process, and between processes.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic
#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "references are what is tested"
)]

mod actors;
mod between;
mod bind;
#[path = "../census/mod.rs"]
mod census;
mod channels;
mod control_plane;
mod counting;
mod defects;
mod edges;
mod futures;
mod gate;
mod here;
mod here_attribute;
mod lost;
mod misuse;
mod named;
mod nested;
mod objects;
mod options;
mod shutdown;
#[path = "../spilled/mod.rs"]
mod spilled;
mod stores;
mod submit;
mod tasks;
mod texts;
mod workers;
