//! Actors in every form that a user may give them, and calls to them.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::new_without_default,
    clippy::panic,
    clippy::unwrap_used
)]

#[path = "../actors/mod.rs"]
mod actors;

mod actor_forms;
mod asynchronous;
mod attributes;
mod calls;
mod cores;
mod facade;
mod hygiene;
mod local_actors;
mod names;
mod overlap;
mod reentry;
mod unserialised;
