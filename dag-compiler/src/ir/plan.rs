//! The plan, which every process receives: the channels with their places, the program of each lane, the paths of device
//! tensors, and the collectives with the places of their ranks.

use std::fmt;

use selvedge_channels::Waiting;
use selvedge_collectives::Collective;
use selvedge_core::{ActorId, Address, HostId, ProcessId};
use serde::{Deserialize, Serialize};

use super::{GraphIr, Operation, TaskId, ValueId};

/// Index of a channel in [`Plan::channels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelId(pub u32);

/// The kind of a channel, which follows from the places of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// Within a lane: one slot, without synchronisation.
    Local,
    /// Within a process: values pass by pointer, not encoded.
    Ring,
    /// Between processes of a host: encoded values in shared memory.
    Shared,
    /// On another host than the writer's: shared memory there, into which a shuttle writes what it reads from the shared
    /// channel of the same value.
    Mirror,
}

/// The writer of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writer {
    /// The driver, which executes the graph.
    Submit,
    /// A task on a lane.
    Lane(Address),
}

impl Writer {
    /// The place of the writer.
    pub fn address(self) -> Address {
        match self {
            Writer::Submit => Address::DRIVER,
            Writer::Lane(address) => address,
        }
    }
}

/// A channel: one writer, its readers, and the memory between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPlan {
    /// The channel's id.
    pub id: ChannelId,
    /// The value that the channel carries.
    pub value: ValueId,
    /// The kind of the channel.
    pub kind: ChannelKind,
    /// The writer of the channel.
    pub writer: Writer,
    /// The lanes that read the channel.
    pub readers: Vec<Address>,
    /// The number of slots, which is the number of messages that may be in flight.
    pub slots: u32,
    /// Bytes of a slot before the channel grows; 0 unless the channel lies in shared memory.
    pub slot_bytes: u64,
    /// The largest payload that the channel accepts, in bytes; 0 unless the channel lies in shared memory.
    pub max_bytes: u64,
    /// The number of mirrors of the channel, each of which is one more reader; 0 unless the channel is shared.
    #[serde(default)]
    pub mirrors: u32,
}

impl ChannelPlan {
    /// The host in whose memory the channel lies.
    pub fn host(&self) -> HostId {
        let reader = match self.kind {
            ChannelKind::Mirror => self.readers.first(),
            _ => None,
        };
        reader.copied().unwrap_or(self.writer.address()).host
    }

    /// True for channels in shared memory, of values that are encoded.
    pub fn is_encoded(&self) -> bool {
        matches!(self.kind, ChannelKind::Shared | ChannelKind::Mirror)
    }
}

/// A value that a lane reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneValue {
    /// The value.
    pub value: ValueId,
    /// The channel that carries the value to the lane.
    pub channel: ChannelId,
    /// The lane's position among the channel's readers.
    pub reader: u16,
    /// The number of times that the lane reads the value in an execution, including outputs of the graph.
    pub reads: u32,
    /// True if the transfer is a rendezvous: the first of the lane's READs and the writer's WRITE are one event.
    pub meets: bool,
}

/// The program of one lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneProgram {
    /// The lane, with its process and host.
    pub address: Address,
    /// The values that the lane reads.
    pub values: Vec<LaneValue>,
    /// The operations that the lane runs, in order.
    pub steps: Vec<Operation>,
    /// For each step, its position before overlap moved receives and collectives ahead of work; for display.
    #[serde(default)]
    pub original: Vec<u32>,
}

/// The settings of a graph that its processes need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The largest number of unfinished executions.
    pub max_inflight: u32,
    /// The number of slots of a channel.
    pub slots: u32,
    /// True if the throughput bound has chosen the number of slots.
    pub auto_slots: bool,
    /// Bytes of a slot of a shared channel.
    pub slot_bytes: u64,
    /// The largest payload of a shared channel, in bytes.
    pub max_bytes: u64,
    /// The way in which lanes wait.
    pub waiting: Waiting,
    /// The number of events that each lane keeps; 0 disables tracing.
    pub trace_events: u32,
    /// True if a READ of a rendezvous only posts the receive, and COMPUTE waits for it.
    pub overlap: bool,
    /// The way in which lanes were chosen.
    pub lanes: Lanes,
    /// The number of cores that lanes may run on.
    pub cores: u32,
    /// The name of the backend of the graph's collectives; `None` for shared memory.
    #[serde(default)]
    pub communicator: Option<String>,
}

/// The way in which the lanes of a graph are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lanes {
    /// Keeps the lanes of the spawned actors: one lane for each actor, or the lane in which the actor was put.
    #[default]
    Spawned,
    /// Merges lanes of one process if there are more lanes than cores, or if known durations say that a hop costs more
    /// than parallel work gains.
    Auto,
}

/// A compiled graph. Equal graphs give equal plans, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The graph's name.
    pub graph: String,
    /// The settings of the graph.
    pub settings: Settings,
    /// The bound graph.
    pub ir: GraphIr,
    /// The channels, by id.
    pub channels: Vec<ChannelPlan>,
    /// The groups of ranks.
    #[serde(default)]
    pub communicators: Vec<CommunicatorPlan>,
    /// The path of device tensors from their writer to each reader.
    #[serde(default)]
    pub tensor_paths: Vec<TensorPathPlan>,
    /// The programs of the lanes. The driver's lane is always present and comes first.
    pub lanes: Vec<LaneProgram>,
    /// The decisions of the compiler and their reasons, for display.
    pub notes: Vec<String>,
}

/// The path by which the device tensors in a value travel to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TensorPath {
    /// The value has no device tensors: all of it travels in host memory.
    Host,
    /// By pointer and event, without a copy.
    Pointer,
    /// Through slots in device memory that both processes have mapped.
    Slots,
    /// By a device-to-device copy.
    Copy,
    /// Through slots on the writer's device, and by a copy from there to the reader's device.
    SlotsAndCopy,
    /// By NCCL, which both endpoints call.
    Nccl,
}

impl fmt::Display for TensorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TensorPath::Host => "with the value",
            TensorPath::Pointer => "by pointer and event",
            TensorPath::Slots => "through slots on the device",
            TensorPath::Copy => "by a copy from device to device",
            TensorPath::SlotsAndCopy => "through slots on the writer's device and a copy to the reader's",
            TensorPath::Nccl => "by NCCL",
        })
    }
}

/// The path of one value to one reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorPathPlan {
    /// The value.
    pub value: ValueId,
    /// The actor whose tasks read the value; `None` for the driver, which reads outputs.
    pub reader: Option<ActorId>,
    /// The path of the value's device tensors.
    pub path: TensorPath,
    /// The reason for the choice.
    pub why: String,
}

/// The place of one end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// True for the driver, which writes inputs and reads outputs; false for an actor.
    pub driver: bool,
    /// The host of the endpoint.
    pub host: HostId,
    /// The process of the endpoint.
    pub process: ProcessId,
    /// The device on which the tensors of the endpoint lie, if a device was declared.
    pub device: Option<u32>,
}

impl Endpoint {
    /// The endpoint of the driver.
    pub const DRIVER: Endpoint = Endpoint {
        driver: true,
        host: HostId::DRIVER,
        process: ProcessId::DRIVER,
        device: None,
    };

    /// Returns the endpoint of an actor.
    pub fn actor(address: Address, device: Option<u32>) -> Self {
        Endpoint {
            driver: false,
            host: address.host,
            process: address.process,
            device,
        }
    }
}

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

impl CommunicatorPlan {
    /// The numbers of the ranks on a host, in order.
    pub fn ranks_on(&self, host: HostId) -> Vec<usize> {
        let there = self.ranks.iter().enumerate();
        let there = there.filter(|(_, rank)| rank.address.host == host);
        there.map(|(number, _)| number).collect()
    }

    /// The leaders: the first rank on each host, in order.
    pub fn leaders(&self) -> Vec<RankPlan> {
        let mut leaders: Vec<RankPlan> = Vec::new();
        for rank in &self.ranks {
            let host = rank.address.host;
            if leaders.iter().all(|leader| leader.address.host != host) {
                leaders.push(*rank);
            }
        }
        leaders
    }

    /// Whether the ranks are on more than one host.
    pub fn is_over_hosts(&self) -> bool {
        self.leaders().len() > 1
    }
}
