//! Operations that several tasks do together, and who does them.

use selvedge_collectives::Collective;
use selvedge_core::{ActorId, LaneId, ProcessId};
use serde::{Deserialize, Serialize};

use super::TaskId;

/// A collective operation of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveIr {
    /// What is done.
    pub operation: Collective,
    /// The task of each rank.
    pub tasks: Vec<TaskId>,
}

/// Where a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlan {
    /// Whose tasks are the rank's parts.
    pub actor: ActorId,
    /// The lane that runs them.
    pub lane: LaneId,
    /// Its process.
    pub process: ProcessId,
}

/// A group of ranks: one for each list of actors that do collectives together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorPlan {
    /// The ranks, in order.
    pub ranks: Vec<RankPlan>,
}
