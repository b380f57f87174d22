//! Operations, their graph, and the schedules they are ordered into.

use std::fmt;

use selvedge_core::{LaneId, ProcessId};
use serde::{Deserialize, Serialize};

use super::TaskId;

/// What a task is made of. READ is one per input *edge*, so that a local value never moves with a remote
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OpKind {
    /// Brings the value of one argument.
    Read {
        /// Position of the argument.
        arg: u32,
    },
    /// Calls the method.
    Compute,
    /// Takes part in a collective; stands where COMPUTE stands in other tasks.
    Collective,
    /// Publishes the result on every output channel.
    Write,
}

impl OpKind {
    /// Whether it is the task's work: COMPUTE or COLLECTIVE.
    pub fn is_work(self) -> bool {
        matches!(self, OpKind::Compute | OpKind::Collective)
    }
}

/// One operation of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Operation {
    /// The task.
    pub task: TaskId,
    /// What it does.
    pub kind: OpKind,
}

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

/// Why one operation comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeKind {
    /// READ, COMPUTE and WRITE of one task.
    Program,
    /// COMPUTEs of one actor, in bind order.
    Control,
    /// WRITE of the producer before READ of the consumer, through a buffer.
    Data,
    /// WRITE and READ are one event.
    Rendezvous,
}

/// An edge between two operations, by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEdge {
    /// Index of the earlier operation.
    pub from: u32,
    /// Index of the later one.
    pub to: u32,
    /// Why.
    pub kind: EdgeKind,
}

/// All operations of a graph and what must come before what. The graph's inputs and outputs have no operations,
/// nor have the parts of a tuple.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationGraph {
    /// The operations, by task: READs, COMPUTE, WRITE.
    pub operations: Vec<Operation>,
    /// The edges, each once.
    pub edges: Vec<OperationEdge>,
    /// The COLLECTIVEs that are one event, by number of the collective.
    pub collectives: Vec<Vec<u32>>,
}

/// What one lane does in every execution, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSchedule {
    /// The lane.
    pub lane: LaneId,
    /// Its process.
    pub process: ProcessId,
    /// Its operations.
    pub operations: Vec<Operation>,
    /// For each, its place on the lane in the global order: its own, unless overlap has moved it or what it passed.
    pub original: Vec<u32>,
}

/// One schedule per lane, the driver's first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The lanes, by id.
    pub lanes: Vec<LaneSchedule>,
}
