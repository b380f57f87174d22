//! Lending lanes: who may run programs on which actors' threads, and what they hear of deaths.
//!
//! - `table`: the state and its rules, pure.
//! - `desk`: the table behind a lock, with the wait for a lease that is ending.
//! - `handle`: [`Lease`], what a holder works with.
//! - `error`: [`LeaseError`].

pub(crate) mod desk;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod table;

pub use error::LeaseError;
pub use handle::{Lease, Loading};
