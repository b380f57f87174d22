//! Graphs: what may be bound, where it runs, what it gives, and how it is seen.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::new_without_default,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)]

#[path = "../actors/mod.rs"]
mod actors;

mod diagnostics;
mod flags;
mod graphs;
mod hops;
mod lanes;
mod lists;
mod payloads;
mod placements;
mod plain;
mod profile;
mod results;
mod run;
mod submission;
mod trace;
