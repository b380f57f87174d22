//! What every process is sent: channels with their places, and each lane's program.

use selvedge_channels::Waiting;
use selvedge_core::{LaneId, ProcessId};
use serde::{Deserialize, Serialize};

use super::{CommunicatorPlan, GraphIr, Operation, RoadPlan, ValueId};

/// Index of a channel in [`Plan::channels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelId(pub u32);

/// What carries a value, chosen from placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// Within a lane: a slot, no synchronisation.
    Local,
    /// Within a process: the value moves by pointer.
    Ring,
    /// Between processes of a host: bytes in shared memory.
    Shared,
}

/// Who writes a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writer {
    /// Whoever executes the graph.
    Submit,
    /// A task of a lane.
    Lane(LaneId),
}

/// One writer, its readers, and the memory between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPlan {
    /// Its id.
    pub id: ChannelId,
    /// The value it carries.
    pub value: ValueId,
    /// What it is.
    pub kind: ChannelKind,
    /// Who writes it.
    pub writer: Writer,
    /// The writer's process.
    pub writer_process: ProcessId,
    /// The lanes that read it.
    pub readers: Vec<LaneId>,
    /// Messages that may be under way.
    pub slots: u32,
    /// Bytes of a slot before the channel grows; shared channels only.
    pub slot_bytes: u64,
    /// The largest payload ever; shared channels only.
    pub max_bytes: u64,
}

/// A value that a lane reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneValue {
    /// The value.
    pub value: ValueId,
    /// The channel it comes by.
    pub channel: ChannelId,
    /// The lane's position among the channel's readers.
    pub reader: u16,
    /// How often the lane reads it in an execution, outputs of the graph included.
    pub reads: u32,
    /// The transfer is a rendezvous: the first of the lane's READs and the writer's WRITE are one event.
    pub meets: bool,
}

/// One lane's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneProgram {
    /// The lane.
    pub lane: LaneId,
    /// Its process.
    pub process: ProcessId,
    /// What it reads.
    pub values: Vec<LaneValue>,
    /// What it does, in order.
    pub steps: Vec<Operation>,
    /// For each step, its place before overlap moved receives and collectives ahead of work; for people.
    #[serde(default)]
    pub original: Vec<u32>,
}

/// The numbers of a graph that its processes need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Unfinished executions at most.
    pub max_inflight: u32,
    /// Slots of a channel.
    pub slots: u32,
    /// Slots were chosen by the throughput bound.
    pub auto_slots: bool,
    /// Bytes of a slot of a shared channel.
    pub slot_bytes: u64,
    /// The largest payload of a shared channel.
    pub max_bytes: u64,
    /// How lanes wait.
    pub waiting: Waiting,
    /// Events kept per lane; 0 is off.
    pub trace_events: u32,
    /// A READ of a rendezvous only posts the receive; COMPUTE waits for it.
    pub overlap: bool,
    /// How lanes were chosen.
    pub lanes: Lanes,
    /// Cores that lanes may run on.
    pub cores: u32,
    /// The backend of the graph's collectives, by name; over shared memory where there is none.
    #[serde(default)]
    pub communicator: Option<String>,
}

/// How the lanes of a graph are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lanes {
    /// As the actors were spawned: one lane for each, or the lane it was put in.
    #[default]
    Spawned,
    /// Lanes of one process are merged where there are more of them than cores, or where measured durations say that a
    /// hop costs more than working side by side gains.
    Auto,
}

/// A compiled graph. Equal graphs give equal plans, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The graph's name.
    pub graph: String,
    /// Its numbers.
    pub settings: Settings,
    /// What was bound.
    pub ir: GraphIr,
    /// Its channels, by id.
    pub channels: Vec<ChannelPlan>,
    /// Its groups of ranks.
    #[serde(default)]
    pub communicators: Vec<CommunicatorPlan>,
    /// How tensors of devices get from who makes them to who reads them.
    #[serde(default)]
    pub roads: Vec<RoadPlan>,
    /// Its lanes, the driver's (lane 0) first and always there.
    pub lanes: Vec<LaneProgram>,
    /// What was decided on the way, and why; for people.
    pub notes: Vec<String>,
}
