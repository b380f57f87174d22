//! Rendezvous: the ranks of a group come together for an operation. The communicators for ranks of one host, over shared
//! memory and over NCCL, stand on this module.
//!
//! A rank *arrives* at an operation: it publishes the operation, and the types and shapes of its contribution or its own
//! failure. When all ranks have arrived, they *agree* on the operation, or all get the same error. Meanwhile each rank
//! watches the processes of the other ranks, and waits for a limited time. The communicator then moves the data.
//!
//! - [`Group`], `state`: a group, for other processes and within this one.
//! - `participant`: one rank; `agree`: its operation; `wait`: waits for other ranks, whose processes are
//!   watched meanwhile; `message`: messages from one rank to another.
//! - `layout`, `words`: the words that ranks share.
//! - `block`, `mapped`: memory of a rank that other ranks can map; `loan`: such memory, to be written; `view`: tensors in
//!   it, to be read.
//!
//! Invariants:
//! - `COLL-1` a block is written by its owner before the owner arrives, and by other ranks only in the parts of their
//!   share, between the arrival of all ranks and their own `done`.
//! - `COLL-2` the owner uses a block again only when all ranks have finished the operation in which it was used, and no
//!   rank holds it.
//! - `COLL-3` the outcome of an operation follows from the arrivals alone, which are equal for all ranks; so either all
//!   ranks have a result, or all have the same error.
//! - `COLL-5` a rank arrives at operation n + 1 only when it has seen that all ranks have arrived at n. An operation at
//!   which a rank does not arrive ends with the group, or because that rank has left. A rank whose operation ended so
//!   arrives at no other.

mod agree;
mod block;
mod group;
mod layout;
mod loan;
mod mapped;
mod message;
mod participant;
mod state;
mod view;
mod wait;
mod words;

pub(crate) use agree::Proposal;
pub(crate) use block::LeasedBlock;
#[cfg(test)]
pub(crate) use block::looks;
pub use group::{Group, GroupDescriptor, NotAGroup, group_bytes};
pub use loan::Loan;
pub(crate) use mapped::MappedBlocks;
pub(crate) use participant::Participant;
pub(crate) use state::GroupState;
pub(crate) use view::BlockView;
pub(crate) use words::Arrival;
#[cfg(all(test, not(miri)))]
pub(crate) use words::GroupEnd;
