//! The repository itself: programs that must not compile, manifests, and the table of requirements.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod conformance;
mod left_out;
mod packages;
mod ui;
