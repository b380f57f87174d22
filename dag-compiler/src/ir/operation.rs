//! Operations, the graph of operations, and the schedules of lanes.

use std::fmt;

use selvedge_core::{Address, IdKey};
use serde::{Deserialize, Serialize};

use super::TaskId;

/// The kinds of operations of which a task consists. There is one READ per input *edge*, so a local value never moves
/// together with a remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OpKind {
    /// Receives the value of one argument.
    Read {
        /// The position of the argument.
        arg: u32,
    },
    /// Calls the method.
    Compute,
    /// Takes part in a collective. COLLECTIVE stands in the place of COMPUTE.
    Collective,
    /// Publishes the result on every output channel.
    Write,
}

impl OpKind {
    /// Whether the operation is the task's work: COMPUTE or COLLECTIVE.
    pub fn is_work(self) -> bool {
        matches!(self, OpKind::Compute | OpKind::Collective)
    }
}

/// One operation of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Operation {
    /// The task.
    pub task: TaskId,
    /// The kind of the operation.
    pub kind: OpKind,
}

impl IdKey for OpKind {
    type Number = u128;

    const BITS: u32 = 1 + u32::BITS;

    fn number(self) -> u128 {
        let behind_reads = 1 << u32::BITS;
        match self {
            OpKind::Read { arg } => arg.into(),
            OpKind::Compute => behind_reads,
            OpKind::Collective => behind_reads + 1,
            OpKind::Write => behind_reads + 2,
        }
    }
}

selvedge_core::id_key!(Operation as (TaskId, OpKind): |operation| (operation.task, operation.kind));

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpKind::Read { arg } => write!(f, "READ {arg}"),
            OpKind::Compute => f.write_str("COMPUTE"),
            OpKind::Collective => f.write_str("COLLECTIVE"),
            OpKind::Write => f.write_str("WRITE"),
        }
    }
}

/// The reason why one operation comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeKind {
    /// From READ to COMPUTE, or from COMPUTE to WRITE, of one task.
    Program,
    /// From one COMPUTE of an actor to its next, in bind order.
    Control,
    /// From the WRITE of the producer to the READ of the consumer, through a buffer.
    Data,
    /// From a WRITE to a READ that are one event.
    Rendezvous,
}

/// An edge between two operations, given by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEdge {
    /// Index of the earlier operation.
    pub from: u32,
    /// Index of the later operation.
    pub to: u32,
    /// The reason for the order.
    pub kind: EdgeKind,
}

/// All operations of a graph and the order constraints between them. The graph's inputs and outputs have no operations,
/// and neither have the parts of a tuple.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationGraph {
    /// The operations, task by task: READs, then COMPUTE or COLLECTIVE, then WRITE.
    pub operations: Vec<Operation>,
    /// The edges, each once.
    pub edges: Vec<OperationEdge>,
    /// The COLLECTIVEs of each collective, by its number. All COLLECTIVEs of one collective are one event.
    pub collectives: Vec<Vec<u32>>,
}

/// The operations that one lane runs in every execution, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSchedule {
    /// The lane, with its process and host.
    pub address: Address,
    /// The operations, in order.
    pub operations: Vec<Operation>,
    /// For each operation, its position on the lane in the global order. It differs from the operation's index only if
    /// overlap has moved the operation, or another one past it.
    pub original: Vec<u32>,
}

/// One schedule per lane, the driver's first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The schedules, by lane id.
    pub lanes: Vec<LaneSchedule>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_ordered_as_their_numbers() {
        let reads = [0, 7, u32::MAX].map(|arg| OpKind::Read { arg });
        let others = [OpKind::Compute, OpKind::Collective, OpKind::Write];
        let kinds = [reads, others].concat();
        let of_task = |task| kinds.iter().map(move |kind| Operation { task, kind: *kind });
        let operations: Vec<_> = [0, 1, u32::MAX]
            .map(TaskId)
            .into_iter()
            .flat_map(of_task)
            .collect();
        assert!(operations.is_sorted_by(|one, next| one < next && one.number() < next.number()));
    }
}
