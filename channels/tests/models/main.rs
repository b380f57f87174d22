//! The channels' protocols, explored state by state with stateright over the real ends. A state is the path of calls
//! that leads to it, repeated on fresh ends; two paths that leave the same words in memory and the same positions are
//! one state. These models cover the effects of calls on each other, in every order, with crashes; loom covers the
//! steps within a call (`tests/loom.rs`). Every model has mutants, in which it must find the fault.
//!
//! - `explore`: turns ends with single steps into a model.
//! - `ring`: one writer, N readers, K slots, close, leave, crash, and the report of a death (M5).
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
