//! Leases: the right to run programs on actors' threads, and the announcement of deaths to the holders.
//!
//! - `table`: the state and its rules, as pure functions.
//! - `manager`: the table behind a lock, with the wait for a lease that is ending.
//! - `handle`: [`Lease`], the object that a holder uses.
//! - `loading`: [`Loading`], the wait for a worker that loads programs.
//! - `correspondence`: letters between the processes in which programs of one lease run.
//! - `error`: [`LeaseError`].

pub(crate) mod correspondence;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod loading;
pub(crate) mod manager;
pub(crate) mod table;

pub use error::LeaseError;
pub use handle::Lease;
pub use loading::Loading;
