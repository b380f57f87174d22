//! Rendezvous: the part of an operation in which the ranks of a group come together. Every implementation for ranks of one
//! host stands on it.

mod block;
mod group;
mod layout;
mod watch;

pub use block::Loan;
pub(crate) use block::{Blocks, Mapped, Taken};
pub(crate) use group::Shared;
pub use group::{Group, GroupDescriptor, NotAGroup, group_bytes};
pub(crate) use layout::{Arrival, End, MOST_BLOCKS};
pub(crate) use watch::Watches;
