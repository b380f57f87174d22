//! The channels' protocols, explored state by state with stateright. The states are those of the real ends: a state is
//! the path that leads to it, walked again on fresh ends, and two paths that leave the same words in memory and the same
//! positions are one state. What happens within a call is loom's matter (`tests/loom.rs`); this is what calls can do to
//! each other, in every order, with crashes. Every model has mutants, in which it must find the fault.
//!
//! - `explore`: from ends that can be stepped to a model.
//! - `ring`: one writer, N readers, K slots, close, leave, crash, and whoever notices (M5).
//! - `growth`: payloads that outgrow their slots (M5b).
//! - `cache`: one message, several reads (M5d).
//! - `fail_fast`: two inputs of which one fails (M5e).
#![cfg(not(any(miri, loom)))] // thousands of states; Miri would take hours
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod explore;

mod cache;
mod fail_fast;
mod growth;
mod ring;
