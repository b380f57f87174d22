//! Collective operations of a graph and the ranks that take part in them.

use selvedge_collectives::Collective;
use selvedge_core::{ActorId, Address};
use serde::{Deserialize, Serialize};

use super::TaskId;

/// A collective operation of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveIr {
    /// The kind of the operation.
    pub operation: Collective,
    /// The task of each rank, in the order of ranks.
    pub tasks: Vec<TaskId>,
}

/// The place where a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlan {
    /// The actor whose tasks are the rank's parts.
    pub actor: ActorId,
    /// The lane that runs them.
    pub address: Address,
}

/// A group of ranks. There is one group for each list of actors that do collectives together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorPlan {
    /// The ranks, in order.
    pub ranks: Vec<RankPlan>,
}
