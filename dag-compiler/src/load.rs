//! Loading: from a plan to the channel ends and lanes of one process.
//!
//! The driver lays out the graph's segment, formats the shared channels, and sends the plan and the segment's id to
//! each worker. Every process, the driver's included, then builds its own lanes with the same function.

mod devices;
mod ranks;

use std::any::Any;
use std::collections::BTreeMap;

use selvedge_channels::{
    AnyOutlet, AnyValue, ChannelError, Doorbell, Inlet, PayloadType, Provider, Routes, Segment, SegmentError,
    SegmentId, SharedReader, SharedWriter, Waiting, format,
};
use selvedge_collectives::{CommError, Group};
use selvedge_core::{
    ActorEntry, ActorId, AsyncDriver, LaneId, ListLevel, LoadedPrograms, MethodEntry, ProcessId, Program,
    find_actor, gather,
};
use serde::{Deserialize, Serialize};

use self::ranks::LaneRanks;
use crate::ir::{
    self, ArgIr, ChannelId, ChannelKind, ChannelPlan, GraphIr, LaneProgram, OpKind, Operation, Origin, Plan,
    TaskId, TaskIr, ValueId, Writer,
};
use crate::run::control::{Control, GraphState, region};
use crate::run::lane::{GatherRun, HopRun, LaneCursor, LaneLoop, LaneStep, STEPS, TaskRun};
use crate::run::layout::{Layout, Span, shared_spec};
use crate::run::report::TaskInfo;
use crate::run::trace::Recorder;

/// The kind under which worker processes find this loader.
pub(crate) const KIND: &str = "selvedge.graph";

/// The minimum number of slots of a ring from the driver to lanes.
const SLOTS_IN: usize = 8;

/// The minimum number of slots of a ring from a lane to the driver.
const SLOTS_OUT: usize = 16;

/// The size in bytes above which a value is not worth more slots than the plan asks for.
const SMALL_BYTES: usize = 1024;

/// The message that a worker process receives: its process id, the graph's segment, and the plan.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shipment {
    pub(crate) process: ProcessId,
    pub(crate) segment: SegmentId,
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
    Decode(#[from] postcard::Error),
    #[error(transparent)]
    Group(#[from] CommError),
    #[error("{0}")]
    UnknownActor(String),
    #[error("`{0}` is contributed to a collective: make it known with `selvedge::contributes!`")]
    UnknownType(&'static str),
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] selvedge_channels::device::DeviceError),
    #[error("the plan is inconsistent: {0}")]
    Inconsistent(&'static str),
}

/// Whether values of a type may carry tensors of a device.
pub(crate) fn carries_tensors(payload: &PayloadType) -> bool {
    #[cfg(feature = "cuda")]
    if CARRIERS.iter().any(|of| of() == *payload) {
        return true;
    }
    payload.carries_tensors()
}

/// User-defined types whose values carry tensors of a device.
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // `linkme` places the slice in a section of the binary
#[linkme::distributed_slice]
pub static CARRIERS: [fn() -> PayloadType];

#[linkme::distributed_slice(selvedge_core::LOADERS)]
static LOADER: selvedge_core::ProgramLoader = selvedge_core::ProgramLoader {
    kind: KIND,
    load: load_shipment,
};

fn load_shipment(bytes: &[u8]) -> Result<LoadedPrograms, String> {
    let load = || -> Result<LoadedPrograms, LoadError> {
        let shipment: Shipment = postcard::from_bytes(bytes)?;
        let segment = Segment::open(&shipment.segment)?;
        let layout = Layout::of(&shipment.plan).ok_or(LoadError::TooLarge)?;
        let control = Control::new(&segment, &layout)?;
        let payload = |value| registered_payload(&shipment.plan, value);
        let site = LoadSite {
            plan: &shipment.plan,
            layout: &layout,
            segment: &segment,
            control: &control,
            process: shipment.process,
            payload: &payload,
            index: Index::of(&shipment.plan),
        };
        Ok(programs(&shipment.plan, site.lanes()?.lanes))
    };
    load().map_err(|error| error.to_string())
}

/// The number of slots of a ring. If the planned slots suffice for all executions in flight, a ring of small values
/// between the driver and the lanes gets more of them. Its writer then checks the readers' cursors only once in many
/// executions; each check fetches a cache line that the readers have just written. The number of results in flight
/// stays within `max_inflight` all the same. The number of inputs may exceed it: an execution may end before all lanes
/// have read its input, because a task of another lane has failed.
fn ring_slots(plan: &Plan, channel: &ChannelPlan, payload: &PayloadType) -> usize {
    let enough = channel.slots >= plan.settings.max_inflight && payload.len_bytes() <= SMALL_BYTES;
    let least = match channel.writer {
        Writer::Submit if enough => SLOTS_IN,
        _ if enough && channel.readers == [LaneId::DRIVER] => SLOTS_OUT,
        _ => 1,
    };
    (channel.slots as usize).max(least)
}

/// The programs of a process's lanes, including those of lanes that only lend their actors to another lane.
pub(crate) fn programs(plan: &Plan, lanes: Vec<LaneLoop>) -> LoadedPrograms {
    let mut programs = LoadedPrograms::new();
    for lane in lanes {
        let mut guests: BTreeMap<LaneId, Vec<ActorId>> = BTreeMap::new();
        for actor in plan
            .ir
            .actors_on(lane.lane)
            .filter(|actor| actor.home != lane.lane)
        {
            guests.entry(actor.home).or_default().push(actor.id);
        }
        let (control, bell) = (lane.control.clone(), lane.bell.clone());
        let ended = Box::new(move || control.state() != GraphState::Running);
        let host = (lane.lane, Box::new(lane) as Box<dyn Program>);
        programs.extend(gather(host, guests.into_iter().collect(), bell, ended));
    }
    programs
}

/// Creates the segment of a plan, laid out and formatted.
pub(crate) fn create_segment(plan: &Plan, layout: &Layout) -> Result<Segment, LoadError> {
    let across = plan.lanes.iter().any(|lane| lane.process != ProcessId(0));
    let provider = if across { Provider::Memfd } else { Provider::Heap };
    let segment = Segment::create(provider, layout.len_bytes)?;
    for channel in &plan.channels {
        if let Some(span) = layout.channels.get(&channel.id) {
            format(&region(&segment, *span)?, &shared_spec(channel))?;
        }
    }
    Control::new(&segment, layout)?.set_key();
    for (communicator, span) in plan.communicators.iter().zip(&layout.communicators) {
        let region = region(&segment, *span)?;
        let bells = communicator.ranks.iter().map(|_| Doorbell::heap()).collect();
        Group::at(region, bells, Provider::Heap, true)?;
    }
    Ok(segment)
}

fn entry_of(plan: &Plan, task: TaskId) -> Option<(&'static ActorEntry, u16)> {
    let task = plan.ir.tasks.get(task.0 as usize)?;
    let actor = plan.ir.actors.iter().find(|actor| actor.id == task.actor)?;
    Some((find_actor(&actor.type_name).ok()?, task.method))
}

/// The value that a rank of a collective contributes; the result has the same type.
fn contributed(plan: &Plan, task: TaskId) -> Option<ValueId> {
    let task = plan.ir.task(task).filter(|task| task.collective.is_some())?;
    GraphIr::reads(task).next().map(|(_, value)| value)
}

/// The payload type of a value, from the link-time registry: found through its producer, else through a consumer.
fn registered_payload(plan: &Plan, value: ValueId) -> Option<PayloadType> {
    let ir = plan.ir.values.get(value.0 as usize)?;
    if ir.signal {
        return Some(PayloadType::of::<()>());
    }
    if let Origin::Task(task) = ir.origin {
        if let Some(brought) = contributed(plan, task) {
            return registered_payload(plan, brought);
        }
        let (entry, method) = entry_of(plan, task)?;
        let method = entry.methods.get(usize::from(method))?;
        return match ir.part {
            None => Some((method.result)()),
            Some(part) => (method.parts)().get(usize::from(part)).copied(),
        };
    }
    plan.ir.tasks.iter().enumerate().find_map(|(index, task)| {
        let position = task.args.iter().position(|arg| *arg == ArgIr::Value(value))?;
        let (entry, method) = entry_of(plan, TaskId(index as u32))?;
        argument_type(task, entry.methods.get(usize::from(method))?, position)
    })
}

/// The type of argument number `position` of a task: the type of a parameter, or of an element of a list parameter.
fn argument_type(task: &TaskIr, method: &MethodEntry, position: usize) -> Option<PayloadType> {
    if task.groups.is_empty() {
        return Some((method.params.get(position)?.payload)());
    }
    let mut left = position;
    for (group, param) in task.groups.iter().zip(method.params) {
        if let Some(depth) = depth_of(group, &mut left) {
            let levels = (param.lists)();
            let element = |depth: usize| levels.get(depth).map(|level| level.element);
            return depth
                .checked_sub(1)
                .map_or_else(|| Some((param.payload)()), element);
        }
    }
    None
}

/// The number of lists around argument number `left` of this group, counted from 0. If the group has fewer arguments,
/// returns `None` and subtracts their number from `left`.
fn depth_of(group: &ir::ArgGroup, left: &mut usize) -> Option<usize> {
    match group {
        ir::ArgGroup::One if *left == 0 => Some(0),
        ir::ArgGroup::One => {
            *left -= 1;
            None
        }
        ir::ArgGroup::List(members) => members
            .iter()
            .find_map(|member| depth_of(member, left))
            .map(|depth| depth + 1),
    }
}

/// One process's view of a plan.
pub(crate) struct LoadSite<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) layout: &'a Layout,
    pub(crate) segment: &'a Segment,
    pub(crate) control: &'a Control,
    pub(crate) process: ProcessId,
    pub(crate) payload: &'a dyn Fn(ValueId) -> Option<PayloadType>,
    pub(crate) index: Index,
}

/// Lookup tables that replace searches, so that loading takes linear time.
pub(crate) struct Index {
    /// By value: its channel of each kind.
    channels: Vec<[Option<ChannelId>; 3]>,
    /// By task: the first value that it makes.
    makes: Vec<Option<ValueId>>,
    /// By value: the next value of the same task.
    next: Vec<Option<ValueId>>,
    actors: BTreeMap<ActorId, usize>,
}

impl Index {
    pub(crate) fn of(plan: &Plan) -> Self {
        let values = plan.ir.values.len();
        let mut channels = vec![[None; 3]; values];
        for channel in &plan.channels {
            let of_value = channels.get_mut(channel.value.index());
            if let Some(place) = of_value.and_then(|kinds| kinds.get_mut(channel.kind as usize)) {
                *place = Some(channel.id);
            }
        }
        let (mut makes, mut next) = (vec![None; plan.ir.tasks.len()], vec![None; values]);
        for (index, (value, next)) in plan.ir.values.iter().zip(&mut next).enumerate().rev() {
            if let Origin::Task(task) = value.origin
                && let Some(first) = makes.get_mut(task.index())
            {
                *next = first.replace(ValueId(index as u32));
            }
        }
        let actors = plan
            .ir
            .actors
            .iter()
            .enumerate()
            .map(|(index, actor)| (actor.id, index))
            .collect();
        Index {
            channels,
            makes,
            next,
            actors,
        }
    }

    /// The values that a task makes.
    fn made_by(&self, task: TaskId) -> impl Iterator<Item = ValueId> {
        let first = self.makes.get(task.index()).copied().flatten();
        std::iter::successors(first, |value| self.next.get(value.index()).copied().flatten())
    }
}

/// The lanes of a process and, in the driver's process, the outlets of the graph's inputs.
pub(crate) struct Built {
    pub(crate) lanes: Vec<LaneLoop>,
    pub(crate) inputs: BTreeMap<ValueId, Box<dyn AnyOutlet>>,
}

/// The ends of an in-process ring that have not been taken yet.
#[derive(Default)]
struct RingEnds {
    writer: Option<Box<dyn Any + Send>>,
    readers: Vec<Option<Box<dyn Any + Send>>>,
}

/// The ring ends of each channel, by channel number.
type Rings = Vec<RingEnds>;

/// The positions of tasks and values in the lane that is being built, so far.
struct Places {
    /// By task: its position among the lane's tasks.
    tasks: Vec<Option<usize>>,
    /// By value: its position among the lane's values.
    values: Vec<Option<usize>>,
}

impl Places {
    fn of(ir: &GraphIr) -> Self {
        Places {
            tasks: vec![None; ir.tasks.len()],
            values: vec![None; ir.values.len()],
        }
    }

    fn value(&self, value: ValueId) -> Option<usize> {
        self.values.get(value.index()).copied().flatten()
    }

    /// Clears the entries of a lane, in time proportional to the length of the lane.
    fn leave(&mut self, program: &LaneProgram) {
        for step in &program.steps {
            if let Some(place) = self.tasks.get_mut(step.task.index()) {
                *place = None;
            }
        }
        for value in &program.values {
            if let Some(place) = self.values.get_mut(value.value.index()) {
                *place = None;
            }
        }
    }
}

impl LoadSite<'_> {
    /// Builds every lane of this process.
    pub(crate) fn lanes(&self) -> Result<Built, LoadError> {
        let mut rings = self.rings()?;
        let groups = self.groups()?;
        let mut places = Places::of(&self.plan.ir);
        let mut lanes = Vec::new();
        for program in self.plan.lanes.iter().filter(|lane| lane.process == self.process) {
            lanes.push(self.lane(program, &mut places, &mut rings, &groups)?);
            places.leave(program);
        }
        let mut inputs = BTreeMap::new();
        if self.process == ProcessId(0) {
            for value in self.written_by(Writer::Submit) {
                inputs.insert(value, self.outlet(value, None, &mut rings)?);
            }
        }
        Ok(Built { lanes, inputs })
    }

    fn written_by(&self, writer: Writer) -> Vec<ValueId> {
        let mut values: Vec<ValueId> = self
            .plan
            .channels
            .iter()
            .filter(|channel| channel.writer == writer)
            .map(|channel| channel.value)
            .collect();
        values.dedup();
        values
    }

    fn channels(&self, value: ValueId) -> impl Iterator<Item = &ChannelPlan> {
        let kinds = self.index.channels.get(value.index()).into_iter().flatten();
        kinds
            .flatten()
            .filter_map(|id| self.plan.channels.get(id.0 as usize))
    }

    fn bell(&self, lane: LaneId) -> Result<selvedge_channels::Doorbell, LoadError> {
        self.control
            .bell(lane)
            .cloned()
            .ok_or(LoadError::Inconsistent("a lane without a doorbell"))
    }

    fn writer_bell(&self, channel: &ChannelPlan) -> Result<selvedge_channels::Doorbell, LoadError> {
        match channel.writer {
            Writer::Submit => self.bell(LaneId(0)),
            Writer::Lane(lane) => self.bell(lane),
        }
    }

    fn reader_bells(&self, channel: &ChannelPlan) -> Result<Vec<selvedge_channels::Doorbell>, LoadError> {
        channel.readers.iter().map(|lane| self.bell(*lane)).collect()
    }

    fn payload(&self, value: ValueId) -> Result<PayloadType, LoadError> {
        let payload = (self.payload)(value).ok_or(LoadError::Inconsistent("a value of unknown type"))?;
        #[cfg(feature = "cuda")]
        if let Some(carrier) = CARRIERS.iter().map(|of| of()).find(|of| *of == payload) {
            return Ok(carrier);
        }
        Ok(payload)
    }

    fn rings(&self) -> Result<Rings, LoadError> {
        let mut rings = Rings::new();
        rings.resize_with(self.plan.channels.len(), RingEnds::default);
        let here = |channel: &&ChannelPlan| {
            channel.kind == ChannelKind::Ring && channel.writer_process == self.process
        };
        for channel in self.plan.channels.iter().filter(here) {
            let payload = self.payload(channel.value)?;
            let bells = self.reader_bells(channel)?;
            let slots = ring_slots(self.plan, channel, &payload);
            let (writer, readers) = payload.ring(slots, self.writer_bell(channel)?, bells)?;
            if let Some(ends) = rings.get_mut(channel.id.0 as usize) {
                ends.writer = Some(writer);
                ends.readers = readers.into_iter().map(Some).collect();
            }
        }
        Ok(rings)
    }

    fn region(&self, span: &Span) -> Result<selvedge_channels::Region, LoadError> {
        Ok(region(self.segment, *span)?)
    }

    fn shared_region(&self, channel: ChannelId) -> Result<selvedge_channels::Region, LoadError> {
        let span = self
            .layout
            .channels
            .get(&channel)
            .ok_or(LoadError::Inconsistent("a channel without memory"))?;
        self.region(span)
    }

    fn inlet(&self, program: &LaneProgram, index: usize, rings: &mut Rings) -> Result<Inlet, LoadError> {
        let missing = LoadError::Inconsistent("a reader without a channel");
        let Some(value) = program.values.get(index) else {
            return Err(missing);
        };
        let Some(channel) = self.plan.channels.get(value.channel.0 as usize) else {
            return Err(missing);
        };
        match channel.kind {
            ChannelKind::Local => Ok(Inlet::Local),
            ChannelKind::Ring => {
                let ends = rings.get_mut(channel.id.0 as usize);
                let reader = ends.and_then(|ends| ends.readers.get_mut(usize::from(value.reader))?.take());
                reader.map(Inlet::Ring).ok_or(missing)
            }
            ChannelKind::Shared => {
                let region = self.shared_region(channel.id)?;
                let bell = self.writer_bell(channel)?;
                let reader =
                    SharedReader::attach(region, &shared_spec(channel), u32::from(value.reader), bell)?;
                Ok(Inlet::Shared(reader))
            }
        }
    }

    /// The outlet of a value; `local` is the position of the value in the writer's own lane.
    fn outlet(
        &self,
        value: ValueId,
        local: Option<usize>,
        rings: &mut Rings,
    ) -> Result<Box<dyn AnyOutlet>, LoadError> {
        let mut routes = Routes {
            local: None,
            ring: None,
            shared: None,
        };
        for channel in self.channels(value) {
            match channel.kind {
                ChannelKind::Local => routes.local = local,
                ChannelKind::Ring => {
                    routes.ring = rings
                        .get_mut(channel.id.0 as usize)
                        .and_then(|ends| ends.writer.take())
                }
                ChannelKind::Shared => {
                    let region = self.shared_region(channel.id)?;
                    let (bell, readers) = (self.writer_bell(channel)?, self.reader_bells(channel)?);
                    routes.shared = Some(SharedWriter::attach(
                        region,
                        &shared_spec(channel),
                        bell,
                        readers,
                    )?);
                }
            }
        }
        let mut outlet = self.payload(value)?.outlet(routes)?;
        if let Some(terms) = self.terms(value) {
            outlet.agree(terms);
        }
        Ok(outlet)
    }

    fn lane(
        &self,
        program: &LaneProgram,
        places: &mut Places,
        rings: &mut Rings,
        groups: &[Group],
    ) -> Result<LaneLoop, LoadError> {
        let mut values: Vec<Box<dyn AnyValue>> = Vec::with_capacity(program.values.len());
        for (index, value) in program.values.iter().enumerate() {
            let inlet = self.inlet(program, index, rings)?;
            values.push(self.payload(value.value)?.value(inlet, value.reads)?);
            self.brought_on_the_way(program, value.value, values.last_mut())?;
            if let Some(place) = places.values.get_mut(value.value.index()) {
                *place = Some(index);
            }
        }
        let works = program.steps.iter().filter(|step| step.kind.is_work());
        let mut tasks: Vec<TaskRun> = Vec::with_capacity(works.count());
        let mut ranks = LaneRanks::default();
        for operation in &program.steps {
            let place = places.tasks.get_mut(operation.task.index());
            let place = place.ok_or(LoadError::Inconsistent("an unknown task"))?;
            if place.is_none() {
                *place = Some(tasks.len());
                let mut task = self.task(operation.task, places, &mut values, rings)?;
                if let Some(ir) = self.plan.ir.task(operation.task) {
                    task.collective = self.collective(ir, groups, &mut ranks)?;
                }
                tasks.push(task);
            }
        }
        let spans = self
            .layout
            .lanes
            .get(&program.lane)
            .ok_or(LoadError::Inconsistent("a lane without memory"))?;
        let progress = self.control.progress_line(program.lane);
        let steps = merged(steps(&program.steps, &places.tasks), &tasks);
        stretch(&steps, &mut tasks);
        Ok(LaneLoop {
            lane: program.lane,
            values,
            ranks: ranks.runs,
            steps,
            tasks,
            ports: Vec::new(),
            leaves: Vec::new(),
            control: self.control.clone(),
            bell: self.bell(program.lane)?,
            progress: progress.ok_or(LoadError::Inconsistent("a lane without a progress line"))?,
            waiting: waiting(self.plan),
            spins: false,
            recorder: Recorder::new(self.region(&spans.trace)?),
            driver: self.driver(program.lane)?,
            state: LaneCursor::default(),
        })
    }

    /// The driver of a lane's async methods.
    fn driver(&self, lane: LaneId) -> Result<AsyncDriver, LoadError> {
        let wanted = self.control.wanted(lane);
        let wanted = wanted.ok_or(LoadError::Inconsistent("a lane without a progress line"))?;
        Ok(AsyncDriver::with_wanted(Box::new(wanted)))
    }

    fn task(
        &self,
        id: TaskId,
        places: &Places,
        values: &mut Vec<Box<dyn AnyValue>>,
        rings: &mut Rings,
    ) -> Result<TaskRun, LoadError> {
        let task = self
            .plan
            .ir
            .tasks
            .get(id.0 as usize)
            .ok_or(LoadError::Inconsistent("an unknown task"))?;
        let actor = self
            .index
            .actors
            .get(&task.actor)
            .and_then(|index| self.plan.ir.actors.get(*index));
        let actor = actor.ok_or(LoadError::Inconsistent("a task without an actor"))?;
        let entry =
            find_actor(&actor.type_name).map_err(|error| LoadError::UnknownActor(error.to_string()))?;
        let method = match task.collective {
            Some(_) => None,
            None => Some(entry.methods.get(usize::from(task.method)))
                .map(|method| method.ok_or(LoadError::Inconsistent("an unknown method")))
                .transpose()?,
        };
        let mut args = Vec::with_capacity(task.args.len());
        for (position, arg) in task.args.iter().enumerate() {
            args.push(match arg {
                ArgIr::Value(value) => places
                    .value(*value)
                    .ok_or(LoadError::Inconsistent("an argument that its lane does not read"))?,
                ArgIr::Constant(bytes) => {
                    let payload = method.and_then(|method| argument_type(task, method, position));
                    let payload = payload.ok_or(LoadError::Inconsistent("too many arguments"))?;
                    values.push(payload.constant(bytes)?);
                    values.len() - 1
                }
            });
        }
        let (params, gathers) = match method {
            Some(method) => lists(task, method, &args, values)?,
            None => (args.clone(), Vec::new()),
        };
        let brings = self.brings(task, actor, &args, values)?;
        let results = 1 + method.map_or(0, |method| (method.parts)().len());
        let mut outlets: Vec<Option<Box<dyn AnyOutlet>>> = Vec::with_capacity(results + 1);
        outlets.resize_with(results + 1, || None);
        for made in self.index.made_by(id) {
            if self.channels(made).next().is_none() {
                continue;
            }
            let value = self.plan.ir.value(made);
            let place = match value.and_then(|value| value.part) {
                _ if value.is_some_and(|value| value.signal) => results,
                None => 0,
                Some(part) => usize::from(part) + 1,
            };
            let slot = outlets
                .get_mut(place)
                .ok_or(LoadError::Inconsistent("a part that the result has not"))?;
            *slot = Some(self.outlet(made, places.value(made), rings)?);
        }
        let info = TaskInfo {
            task: task.label.clone(),
            actor: actor.name.clone(),
            placement: actor.placement.clone(),
            bound_at: task.bound_at.clone(),
        };
        let mut wanted = outlets
            .iter()
            .enumerate()
            .filter_map(|(index, outlet)| Some((index, outlet.as_ref()?.only_moves())));
        let sole = match (wanted.next(), wanted.next()) {
            (Some((index, true)), None) => Some(index),
            _ => None,
        };
        let mut run = TaskRun {
            id,
            actor: task.actor,
            seat: 0,
            method: task.method,
            info,
            args,
            params,
            gathers,
            brings,
            outlets,
            results,
            sole,
            hop: None,
            fault: None,
            gave_up: false,
            collective: None,
        };
        run.hop = HopRun::of(&run, method);
        Ok(run)
    }
}

/// The positions of a task's parameters among the lane's values, and the lists among them, inner lists first.
fn lists(
    task: &TaskIr,
    method: &MethodEntry,
    args: &[usize],
    values: &mut Vec<Box<dyn AnyValue>>,
) -> Result<(Vec<usize>, Vec<GatherRun>), LoadError> {
    let mut gathers = Vec::new();
    if task.groups.is_empty() {
        return Ok((args.to_vec(), gathers));
    }
    let mut args = args.iter().copied();
    let mut params = Vec::with_capacity(task.groups.len());
    for (group, param) in task.groups.iter().zip(method.params) {
        params.push(parameter(
            group,
            &(param.lists)(),
            &mut args,
            values,
            &mut gathers,
        )?);
    }
    Ok((params, gathers))
}

fn parameter(
    group: &ir::ArgGroup,
    levels: &[ListLevel],
    args: &mut dyn Iterator<Item = usize>,
    values: &mut Vec<Box<dyn AnyValue>>,
    gathers: &mut Vec<GatherRun>,
) -> Result<usize, LoadError> {
    let members = match group {
        ir::ArgGroup::One => return args.next().ok_or(LoadError::Inconsistent("too few arguments")),
        ir::ArgGroup::List(members) => members,
    };
    let (level, inner) = levels
        .split_first()
        .ok_or(LoadError::Inconsistent("a list for what is none"))?;
    let mut found = Vec::with_capacity(members.len());
    for member in members {
        found.push(parameter(member, inner, args, values, gathers)?);
    }
    let into = values.len();
    values.push(level.list.value(Inlet::Local, 1)?);
    gathers.push(GatherRun {
        gather: level.gather,
        members: found,
        into,
    });
    Ok(into)
}

/// The way in which this graph's lanes wait.
pub(crate) fn waiting(plan: &Plan) -> Waiting {
    plan.settings.waiting
}

/// Converts a lane's operations to steps. All READs of a task become one wait right before its work: channels have
/// slots, so no writer waits for a READ, and a later wait holds up less.
fn steps(operations: &[Operation], tasks: &[Option<usize>]) -> Vec<LaneStep> {
    let mut steps: Vec<LaneStep> = Vec::with_capacity(operations.len());
    for operation in operations {
        let Some(task) = tasks.get(operation.task.index()).copied().flatten() else {
            continue;
        };
        match operation.kind {
            OpKind::Read { .. } => {}
            OpKind::Compute => steps.extend([LaneStep::Await(task), LaneStep::Compute(task)]),
            OpKind::Collective => steps.extend([LaneStep::Await(task), LaneStep::Post(task)]),
            OpKind::Write => steps.push(LaneStep::Write(task)),
        }
    }
    steps
}

/// Replaces the first step of each plain task by [`LaneStep::Run`], which stands for all three. A task is plain if its
/// three steps follow each other, and it has a method, no arguments to prepare (lists, or tensors to copy to a device),
/// and one outlet, to which publishing runs no user code. The other two steps stay behind it for the slow path.
fn merged(mut steps: Vec<LaneStep>, tasks: &[TaskRun]) -> Vec<LaneStep> {
    let plain = |index: usize| {
        tasks.get(index).is_some_and(|task| {
            let prepared = !task.gathers.is_empty() || !task.brings.is_empty();
            task.sole.is_some() && !prepared && task.collective.is_none()
        })
    };
    for first in 0..steps.len() {
        let Some(
            &[
                LaneStep::Await(task),
                LaneStep::Compute(second),
                LaneStep::Write(third),
            ],
        ) = steps.get(first..first + 3)
        else {
            continue;
        };
        if task == second
            && task == third
            && plain(task)
            && let Some(step) = steps.get_mut(first)
        {
            *step = LaneStep::Run(task);
        }
    }
    steps
}

/// Sets the stretch of each hop: the number of hops, from this one on, that follow each other in the program and among
/// the tasks.
fn stretch(steps: &[LaneStep], tasks: &mut [TaskRun]) {
    for (first, step) in steps.iter().enumerate().rev() {
        let LaneStep::Run(index) = *step else { continue };
        let follows = matches!(steps.get(first + STEPS), Some(LaneStep::Run(next)) if *next == index + 1);
        let hop = tasks.get(index).and_then(|task| task.hop);
        let next = tasks.get_mut(index + 1).and_then(|next| next.hop.as_mut());
        let after = next.filter(|_| follows).map_or(0, |next| next.come_after(hop));
        if let Some(hop) = tasks.get_mut(index).and_then(|task| task.hop.as_mut()) {
            hop.stretch = 1 + after;
        }
    }
}
