//! Collectives over several hosts, whose ranks share no memory.
//!
//! The first rank of each host is its *leader*. The others give it their contributions and get their results from it, as
//! messages of a group of their host. The leaders exchange what they have, each with each other one ([`HostExchange`]), and every leader
//! computes the results of its host's ranks.
//!
//! - `AllReduce` and `Reduce` with an operation that can be done in two steps: a leader combines the contributions of its
//!   host first, so a host sends S bytes to each other host, however many ranks it has. Elements are combined in the order of
//!   ranks within a host, and then in the order of hosts.
//! - Every other operation: a leader sends all contributions of its host.
//!
//! All leaders combine the same numbers in the same order, so results are equal bit for bit on all ranks and in all runs.
//!
//! - `HOSTS-1` a leader sends one share for each operation and takes one from each other host. It begins the next operation
//!   after that, so no more than two shares of a host wait.
//! - `HOSTS-2` a rank that fails brings its failure, and a leader that finds an error brings it as its host's share. So all
//!   ranks take part in every operation, and get the same error.

mod brought;
mod exchange;
mod leader;
mod rank;
mod replay;
#[cfg(all(test, not(miri)))]
mod tests;

pub use exchange::{HostExchange, HostPlaces};
pub use rank::HostsRank;
