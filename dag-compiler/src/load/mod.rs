//! Loading: from a plan to the channel ends and lanes of one process.
//!
//! The driver lays out the graph's segment, formats the shared channels, and sends the plan and the segment's id to
//! each worker. Every process, the driver's included, then builds its own lanes with the same function.

mod devices;
mod ends;
mod index;
mod joint;
mod lane;
mod ranks;
mod task;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
mod types;

use std::sync::Arc;

use selvedge_channels::{
    AnyOutlet, ChannelError, Doorbell, PayloadType, Provider, Segment, SegmentError, SegmentId, format,
};
use selvedge_collectives::{CommError, Group};
use selvedge_core::{
    ActorId, Correspondence, CorrespondenceId, EdgePeers, EdgeReferences, IdMap, IdSet, LaneId,
    LoadedPrograms, NoRuntime, ProcessId, Program, Runtime, gather,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::index::Index;
use self::index::Places;
pub(crate) use self::joint::{Bypasses, ShuttleEnds, bypasses, joint, set_berths};
#[cfg(feature = "cuda")]
pub use self::types::CARRIERS;
use self::types::RegisteredPayloads;
pub(crate) use self::types::{argument_types, carries_tensors};
use crate::bind::constant::Constant;
use crate::ir::{Plan, TaskId, ValueId, Writer};
use crate::run::control::{Control, GraphState, region};
use crate::run::hosts::{JointBerth, Shares};
use crate::run::lane::LaneLoop;
use crate::run::layout::{Layout, shared_spec};
use crate::run::table::NoSuchItem;

/// The kind under which worker processes find this loader.
pub(crate) const KIND: &str = "selvedge.graph";

/// The message that a worker process receives: its process id, the processes of the graph, the values that may hold
/// references, the graph's segment on the host, and the plan.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shipment {
    pub(crate) process: ProcessId,
    pub(crate) peers: EdgePeers,
    pub(crate) referring: Vec<ValueId>,
    /// `None` for the steward of a host, which makes the segment.
    pub(crate) segment: Option<SegmentId>,
    /// The letters between the processes of a graph over several hosts.
    pub(crate) correspondence: Option<CorrespondenceId>,
    pub(crate) plan: Plan,
}

/// The reasons why a process could not build its lanes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LoadError {
    #[error("the plan does not fit the address space")]
    TooLarge,
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error("the plan could not be read: {0}")]
    Decode(postcard::Error),
    #[error(transparent)]
    Group(#[from] CommError),
    #[error("{0}")]
    UnknownActor(String),
    #[error("`{0}` is contributed to a collective: make it known with `selvedge::contributes!`")]
    UnknownType(&'static str),
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] selvedge_channels::device::DeviceError),
    #[error("an edge that may hold references ends in {0}, which has ended: compile the graph again")]
    NoProcess(String),
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    #[error("the system has no thread for the edges to other hosts: {0}")]
    NoThread(std::io::Error),
    #[error("the plan is inconsistent: {0}")]
    Inconsistent(&'static str),
    #[error(transparent)]
    Bug(#[from] NoSuchItem),
}

impl From<postcard::Error> for LoadError {
    fn from(error: postcard::Error) -> Self {
        LoadError::Decode(error)
    }
}

#[linkme::distributed_slice(selvedge_core::LOADERS)]
static LOADER: selvedge_core::ProgramLoader = selvedge_core::ProgramLoader {
    kind: KIND,
    load: load_shipment,
};

fn load_shipment(bytes: &[u8]) -> Result<LoadedPrograms, String> {
    let load = || -> Result<LoadedPrograms, LoadError> {
        let shipment: Shipment = postcard::from_bytes(bytes)?;
        let runtime = Runtime::current()?;
        let host = shipment.plan.host_of(shipment.process);
        let host = host.ok_or(LoadError::Inconsistent("a process without a lane"))?;
        let layout = Layout::of(&shipment.plan, host).ok_or(LoadError::TooLarge)?;
        let segment = match &shipment.segment {
            Some(segment) => Segment::open(segment)?,
            None => create_segment(&shipment.plan, &layout)?,
        };
        let mut control = Control::new(&segment, &layout)?;
        let berth = set_berths(&mut control, &shipment.plan, shipment.process, &runtime);
        let index = Index::of(&shipment.plan);
        let payloads = RegisteredPayloads::of(&shipment.plan, &index.actors);
        let payload = |value| payloads.get(value);
        let shares = Shares::of(&shipment.plan, shipment.process, &control);
        let referring = Referring {
            references: EdgeReferences::of(&runtime, shipment.peers),
            values: shipment.referring.into_iter().collect(),
        };
        let site = LoadSite {
            plan: &shipment.plan,
            layout: &layout,
            segment: &segment,
            control: &control,
            process: shipment.process,
            shares: &shares,
            berth: &berth,
            bypasses: bypasses(&shipment.plan, shipment.process),
            payload: &payload,
            constants: &IdMap::new(),
            referring: Some(&referring),
            index,
        };
        let lanes = site.lanes()?.lanes;
        let has_joint = layout.joints.contains_key(&shipment.process);
        if let Some(id) = shipment.correspondence.filter(|_| has_joint) {
            let peers = referring.references.peers().clone();
            let memory = shipment.segment.is_none().then(|| segment.clone());
            site.join_hosts(Correspondence::join(&runtime, id, peers), memory)?;
        }
        Ok(programs(&shipment.plan, lanes))
    };
    load().map_err(|error| error.to_string())
}

/// The programs of a process's lanes, including those of lanes that only lend their actors to another lane.
pub(crate) fn programs(plan: &Plan, lanes: Vec<LaneLoop>) -> LoadedPrograms {
    let mut programs = LoadedPrograms::new();
    for lane in lanes {
        let mut guests: IdMap<LaneId, Vec<ActorId>> = IdMap::new();
        for actor in plan
            .ir
            .actors_on(lane.lane)
            .filter(|actor| actor.home.lane != lane.lane)
        {
            guests.push_to(actor.home.lane, actor.id);
        }
        let (control, bell) = (lane.control.clone(), lane.bell.clone());
        let ended = Box::new(move || control.state() != GraphState::Running);
        let host = (lane.lane, Box::new(lane) as Box<dyn Program>);
        programs.extend(gather(host, guests.into_iter().collect(), bell, ended));
    }
    programs
}

/// The references of this process, and the values that may hold some and cross processes. The driver, which knows their
/// types, chooses the values: both ends of a channel have to agree.
pub(crate) struct Referring {
    pub(crate) references: EdgeReferences,
    pub(crate) values: IdSet<ValueId>,
}

/// One process's view of a plan.
pub(crate) struct LoadSite<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) layout: &'a Layout,
    pub(crate) segment: &'a Segment,
    pub(crate) control: &'a Control,
    pub(crate) process: ProcessId,
    pub(crate) shares: &'a Arc<Shares>,
    /// The berth of the joint, if the waiters of the process sleep in berths.
    pub(crate) berth: &'a Option<Arc<JointBerth>>,
    pub(crate) bypasses: Bypasses,
    pub(crate) payload: &'a dyn Fn(ValueId) -> Option<PayloadType>,
    /// The constants of this process, by task and position of the argument. All others are encoded in the plan.
    pub(crate) constants: &'a IdMap<(TaskId, u32), Constant>,
    pub(crate) referring: Option<&'a Referring>,
    pub(crate) index: Index,
}

/// The lanes of a process and, in the driver's process, the outlets of the graph's inputs.
pub(crate) struct Built {
    pub(crate) lanes: Vec<LaneLoop>,
    pub(crate) inputs: IdMap<ValueId, Box<dyn AnyOutlet>>,
}

impl LoadSite<'_> {
    /// Builds every lane of this process.
    pub(crate) fn lanes(&self) -> Result<Built, LoadError> {
        let mut rings = self.rings()?;
        let groups = self.groups()?;
        let mut places = Places::of(&self.plan.ir);
        let mut lanes = Vec::new();
        for program in self
            .plan
            .lanes
            .iter()
            .filter(|lane| lane.address.process == self.process)
        {
            lanes.push(self.lane(program, &mut places, &mut rings, &groups)?);
            places.leave(program);
        }
        let mut inputs = IdMap::new();
        if self.process == ProcessId::DRIVER {
            let channels = self.plan.channels.iter();
            let submitted = channels.filter(|channel| channel.writer == Writer::Submit);
            let mut values: Vec<_> = submitted.map(|channel| channel.value).collect();
            values.dedup();
            for value in values {
                inputs.insert(value, self.outlet(value, None, &mut rings)?);
            }
        }
        Ok(Built { lanes, inputs })
    }

    /// The error for a process that is not among the living ones of the graph, by the names of its actors.
    fn no_process(&self, process: ProcessId) -> LoadError {
        let there = self
            .plan
            .ir
            .actors
            .iter()
            .filter(|actor| actor.home.process == process);
        let actors: Vec<_> = there.map(|actor| format!("`{}`", actor.name)).collect();
        LoadError::NoProcess(match actors.is_empty() {
            true => "the process that runs the graph".to_owned(),
            false => format!("the worker process of {}", actors.join(", ")),
        })
    }
}

/// Creates the segment of a plan, laid out and formatted.
pub(crate) fn create_segment(plan: &Plan, layout: &Layout) -> Result<Segment, LoadError> {
    let across = plan
        .lanes
        .iter()
        .any(|lane| lane.address.process != ProcessId::DRIVER);
    let provider = if across { Provider::Memfd } else { Provider::Heap };
    let segment = Segment::create(provider, layout.len_bytes)?;
    for channel in &plan.channels {
        if let Some(span) = layout.channels.get(&channel.id) {
            format(&region(&segment, *span)?, &shared_spec(channel))?;
        }
    }
    Control::new(&segment, layout)?.set_key();
    for (number, communicator) in plan.communicators.iter().enumerate() {
        let Some(span) = layout.communicators.get(&number) else {
            continue;
        };
        let region = region(&segment, *span)?;
        let ranks = communicator.ranks_on(layout.host);
        let bells = ranks.iter().map(|_| Doorbell::heap()).collect();
        Group::at(region, bells, Provider::Heap, true)?;
    }
    Ok(segment)
}
