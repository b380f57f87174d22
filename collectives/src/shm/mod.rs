//! The communicator over shared memory: threads of one process, processes of one host, or both.
//!
//! Every rank has *blocks* of memory that the other ranks can map, and puts its contribution into one of them. Ranks
//! synchronise through counters, without locks:
//!
//! 1. *Arrive*: publish the operation, the contribution's types and shapes, and its block (the module `rendezvous`).
//! 2. When all ranks have arrived, *share*: each rank computes its part of the result, in the order of ranks, in memory
//!    that all ranks can see. Large reductions happen in place, in the block of rank 0 or of the root: every rank reads
//!    one part of all contributions and writes that part once (two-shot, with one shared result). For a small reduction
//!    every rank computes the whole result for itself (one-shot).
//! 3. When all shares are done, *finish*: the result is a view of the shared block, which is held until the view is
//!    dropped.
//!
//! Private vectors of two ranks are reduced chunk by chunk between *arrive* and *finish*, through a ring of each rank.
//!
//! - `rank`: one rank, as a [`Communicator`](crate::Communicator); `advance`: the progress of its operation.
//! - `share`: the part of a result that each rank computes.
//! - `private`: reductions of memory that the group does not know, in pieces; `pair`, `staging`: such reductions between
//!   two ranks, chunk by chunk.
//!
//! Invariants, beside those of `rendezvous` (`COLL-1` to `COLL-3`, `COLL-5`):
//! - `COLL-4` a slot of a ring belongs to its owner, except from the time when the owner has staged a chunk there to
//!   the time when the other rank has reduced that chunk.

mod advance;
mod pair;
mod private;
mod rank;
mod share;
mod staging;

#[cfg(all(test, not(miri)))]
#[path = "../../../channels/tests/models/explore.rs"]
mod explore;
#[cfg(all(test, not(miri)))]
mod model;
#[cfg(test)]
mod tests;

pub use crate::rendezvous::{Group, GroupDescriptor, Loan, NotAGroup, group_bytes};
pub use rank::Rank;
