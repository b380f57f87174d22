//! The scheduler of submitted calls, without clocks, locks or letters: which call runs where, and when.
//!
//! Calls whose inputs are there start in the order of their submission. One that fits nowhere is passed over, at most
//! [`PASSES_MAX`] times; from then on everything behind it waits. What no worker could ever run is refused at once. Two calls at most
//! are pushed ahead to a worker that is full, so that it goes on without waiting for a letter.
//!
//! - `resources`: what a call needs and a worker offers;
//! - `worker`: a worker, and what it has left;
//! - `ready`: the calls whose inputs are there, by what they need;
//! - `scheduler`: the steps.
//!
//! Its invariants:
//! - `SCHEDULE-1`: the calls that run on a worker need no more than it offers. A call that has waited and goes on is the exception
//!   (`PLACES-2`): the cpu that it gave back is then lent twice, and nothing starts until one is given back.
//!   Workers that share the cores of their host need together no more than it has.
//! - `SCHEDULE-2`: of two ready calls that need the same, the older one starts first.
//! - `SCHEDULE-3`: a call is passed over at most [`PASSES_MAX`] times, unless it waits for what a blocked call holds.
//! - `SCHEDULE-4`: a call that waits fits some worker by what that offers.
//! - `SCHEDULE-5`: a call that is pushed ahead needs one cpu and nothing else, and so do all calls of its worker: the worker's
//!   threads, as many as its cpus, start it no earlier than the scheduler would. A worker whose offer its user has set gets nothing ahead, and
//!   none of several that share cores.

#[cfg(test)]
mod random_loads;
mod ready;
mod resources;
mod scheduler;
#[cfg(test)]
mod tests;
mod worker;

pub use resources::Resources;
pub(crate) use scheduler::{Infeasible, Scheduler};

/// The number of times that a ready call is passed over by younger ones.
pub(crate) const PASSES_MAX: u64 = 64;

/// The calls that a full worker has besides those that run.
pub(crate) const AHEAD_MAX: usize = 2;

/// The members that a call goes through on its way to the one where it runs.
pub(crate) const HOPS_MAX: u8 = 8;

/// The hops of a call that is forwarded to another member; `None` if it has to stay, so that forwarding ends.
pub(crate) fn forwarded(hops: u8) -> Option<u8> {
    hops.checked_add(1).filter(|hops| *hops <= HOPS_MAX)
}
