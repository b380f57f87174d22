//! Communicators by name: how a graph makes the ranks of its collectives, also those of a user's own backend.

use selvedge_channels::Doorbell;

use crate::communicator::{Capabilities, Communicator};
use crate::error::CommError;
use crate::shm::Group;

/// A rank that is to be made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Joining<'a> {
    /// Names the group: the same for all its ranks, and no other group's.
    pub group: u64,
    /// Which rank.
    pub rank: usize,
    /// All ranks' bells, by rank. Whoever does anything that may let another rank's `poll` go on rings that rank's.
    pub bells: &'a [Doorbell],
    /// Whether all ranks live in this process.
    pub in_process: bool,
    /// The same ranks as a group in the memory of the host, for who wants to agree there on what is done elsewhere. A rank of it
    /// can be taken once.
    pub host: Option<&'a Group>,
}

impl<'a> Joining<'a> {
    /// Rank `rank` of group `group`, which has as many ranks as there are `bells`.
    pub fn new(group: u64, rank: usize, bells: &'a [Doorbell], in_process: bool) -> Self {
        Joining {
            group,
            rank,
            bells,
            in_process,
            host: None,
        }
    }

    /// The same, with the ranks as a group in the memory of the host.
    #[must_use]
    pub fn over(self, host: &'a Group) -> Self {
        Joining {
            host: Some(host),
            ..self
        }
    }
}

/// A kind of communicator that graphs can be told to use by name.
///
/// `join` is called once for each rank, in the process where it lives, and must not wait for the others. What it makes is
/// driven by `launch` and `poll` alone, and dropped with the graph.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The name.
    pub name: &'static str,
    /// What it can do: graphs that ask for more are refused when they are compiled.
    pub capabilities: fn() -> Capabilities,
    /// Makes a rank.
    pub join: fn(&Joining<'_>) -> Result<Box<dyn Communicator>, CommError>,
}
