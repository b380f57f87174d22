//! Actors without graphs: calls, leases, deaths, and workers whose driver ends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

#[path = "../toys/mod.rs"]
mod toys;

mod calls;
mod deaths;
mod leases;
mod orphans;
