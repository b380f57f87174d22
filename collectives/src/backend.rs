//! Communicator backends: graphs create the ranks of their collectives by the name of a backend, which may be
//! user-defined.

use selvedge_channels::Doorbell;

use crate::communicator::{Capabilities, Communicator};
use crate::error::CommError;
use crate::shm::Group;

/// The parameters of a rank that is to be created.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Joining<'a> {
    /// The number of the group: equal for all its ranks, and different from that of any other group.
    pub group: u64,
    /// The number of the rank.
    pub rank: usize,
    /// The doorbells of all ranks, by rank. A rank whose action may let the `poll` of another rank go on rings that
    /// rank's bell.
    pub bells: &'a [Doorbell],
    /// Whether all ranks live in this process.
    pub in_process: bool,
    /// The ranks as a group in host memory, for backends that agree there on operations done elsewhere. Each rank of
    /// this group can be taken once.
    pub host: Option<&'a Group>,
}

impl<'a> Joining<'a> {
    /// Returns the parameters of rank `rank` in group `group`, which has one rank for each of the `bells`.
    pub fn new(group: u64, rank: usize, bells: &'a [Doorbell], in_process: bool) -> Self {
        Joining {
            group,
            rank,
            bells,
            in_process,
            host: None,
        }
    }

    /// Adds the group of the ranks in host memory.
    #[must_use]
    pub fn over(self, host: &'a Group) -> Self {
        Joining {
            host: Some(host),
            ..self
        }
    }
}

/// A kind of communicator, which graphs select by name.
///
/// `join` is called once for each rank, in the process where the rank lives, and must not wait for the other ranks. The
/// communicator that it creates is driven by `launch` and `poll` alone, and dropped with the graph.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// The name.
    pub name: &'static str,
    /// Returns the capabilities. A graph that needs more is refused when it is compiled.
    pub capabilities: fn() -> Capabilities,
    /// Creates a rank.
    pub join: fn(&Joining<'_>) -> Result<Box<dyn Communicator>, CommError>,
}

impl Backend {
    /// A kind of communicator of this name.
    #[must_use]
    pub const fn new(
        name: &'static str,
        capabilities: fn() -> Capabilities,
        join: fn(&Joining<'_>) -> Result<Box<dyn Communicator>, CommError>,
    ) -> Self {
        Backend {
            name,
            capabilities,
            join,
        }
    }
}
