//! The communicator over shared memory: threads of one process, processes of one host, or both.
//!
//! Every rank keeps *blocks* of memory that the others can map, and puts what it contributes into one of them. Ranks meet at
//! counters, not at locks:
//!
//! 1. *Arrive*: publish what is brought, and where it lies.
//! 2. When all have arrived, *share*: each rank computes its part of the result, in the order of ranks, where everybody can
//!    see it. Large reductions happen in place, in the block of rank 0 or of the root: every rank reads one part of all
//!    contributions and writes that part once (two-shot, with one shared result). Small ones are computed by everybody for
//!    itself (one-shot).
//! 3. When all shares are done, *finish*: the result is a view of the shared block, held until it is dropped.
//!
//! Private vectors of two ranks are joined chunk by chunk between *arrive* and *finish*, through a ring of each rank.
//!
//! Invariants:
//! - `COLL-1` a block is written by its owner before it arrives, and by others only in the parts that are theirs to share,
//!   between everybody's arrival and their own `done`.
//! - `COLL-2` the owner uses a block again only when everybody has finished the operation it was used in and nobody holds it.
//! - `COLL-3` what becomes of an operation follows from the arrivals alone, which are the same for everybody; so either all
//!   ranks have a result or all have the same error.
//! - `COLL-4` a slot of a ring is its owner's but from the time when it has staged a chunk there to the time when the other has
//!   joined it.

mod block;
mod group;
mod layout;
mod output;
mod rank;
mod share;
mod staging;
mod watch;

#[cfg(all(test, not(miri)))]
#[path = "../../../channels/tests/models/explore.rs"]
mod explore;
#[cfg(all(test, not(miri)))]
mod model;

pub use block::Loan;
pub use group::{Group, GroupDescriptor, NotAGroup, group_bytes};
pub use rank::Rank;
