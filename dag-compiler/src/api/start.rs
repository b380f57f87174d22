//! Compile and start: the only way from a [`Runtime`] to a running [`Graph`].

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use selvedge_channels::{AnyOutlet, ChannelError, PayloadType, SpinBudget};
use selvedge_core::{LaneId, Lease, LeaseError, ProcessId, Runtime, ValueIx, deadline_after};

use crate::api::graph::Graph;
use crate::api::options::Options;
use crate::bind::collective::refused;
use crate::bind::ports::submit::InputPort;
use crate::bind::ports::{Inputs, Outputs};
use crate::bind::{BoundGraph, RuntimeParts, bind_graph};
use crate::diagnostic::{Code, Diagnostic};
use crate::error::CompileError;
use crate::ir::{ChannelKind, ChannelPlan, GraphIr, Origin, Plan, SourceLocation, ValueId};
use crate::load::{Built, Index, KIND, LoadError, LoadSite, Shipment, create_segment, programs};
use crate::plan::compile::plan;
use crate::run::actor_set::Inline;
use crate::run::control::Control;
use crate::run::driver::Driver;
use crate::run::engine::Engine;
use crate::run::lane::{LaneLoop, LaneStep, OutputPort};
use crate::run::layout::Layout;
use crate::run::report::TaskInfo;
use crate::show::inspect;

/// Compiles graphs on a runtime.
pub trait Compile {
    /// Compiles a graph with default [`Options`]. `bind` is an ordinary function from the graph's input edges to its
    /// output edges; it runs once.
    ///
    /// # Errors
    /// [`CompileError`] with one diagnostic per mistake. It prints like an error of the Rust compiler.
    #[track_caller]
    fn compile<I: Inputs, O: Outputs>(
        &self,
        bind: impl FnOnce(I) -> O,
    ) -> Result<Graph<I::Value, O::Value>, CompileError> {
        self.compile_with(Options::new(), bind)
    }

    /// Compiles a graph with the given options.
    ///
    /// # Errors
    /// The errors of [`compile`](Self::compile).
    #[track_caller]
    fn compile_with<I: Inputs, O: Outputs>(
        &self,
        options: Options,
        bind: impl FnOnce(I) -> O,
    ) -> Result<Graph<I::Value, O::Value>, CompileError>;
}

impl Compile for Runtime {
    #[track_caller]
    fn compile_with<I: Inputs, O: Outputs>(
        &self,
        options: Options,
        bind: impl FnOnce(I) -> O,
    ) -> Result<Graph<I::Value, O::Value>, CompileError> {
        let location = SourceLocation::from(Location::caller());
        let options =
            inspect::options(options).map_err(|wrong| refuse(Code::InvalidOption, wrong, &location))?;
        if let Some(wrong) = options.out_of_bounds() {
            return Err(refuse(Code::InvalidOption, wrong, &location));
        }
        let bound = bind_graph::<I, O>(
            options.name_value(),
            options.inputs_value(),
            options.transport_value(),
            location.clone(),
            bind,
        );
        if !bound.mistakes.is_empty() {
            let error = CompileError::all(bound.mistakes);
            inspect::inspect(&Err(error.clone()));
            return Err(error);
        }
        let BoundGraph { mut ir, recipe, .. } = bound;
        foreign(self, &ir, &recipe)?;
        for actor in &mut ir.actors {
            actor.commutes = options.is_commuting(actor.id);
        }
        let leaves = ir.outputs.len();
        let engine = plan_and_start(self, options, ir, Arc::new(recipe))?;
        Ok(Graph::new(engine, (I::write, I::send, I::fits), O::take, leaves))
    }
}

/// Plans a bound graph and starts it.
pub(crate) fn plan_and_start(
    runtime: &Runtime,
    options: Options,
    ir: GraphIr,
    recipe: Arc<RuntimeParts>,
) -> Result<Arc<Engine>, CompileError> {
    let location = ir.compiled_at.clone();
    let planned = plan(ir, options.settings()).and_then(|plan| match refused(&plan) {
        Some(refused) => Err(CompileError::from(refused)),
        None => Ok(plan),
    });
    inspect::inspect(&planned);
    let mut plan = planned?;
    plan.settings.waiting = options.waiting(&plan);
    start(runtime, options, plan, recipe, &location)
}

fn refuse(code: Code, message: impl Into<String>, location: &SourceLocation) -> CompileError {
    CompileError::from(Diagnostic::new(code, message, location.clone()))
}

/// Refuses actors of other runtimes, each at the line where it was first bound.
fn foreign(runtime: &Runtime, ir: &GraphIr, recipe: &RuntimeParts) -> Result<(), CompileError> {
    let foreign = recipe.actors.iter().filter(|actor| !actor.same_runtime(runtime));
    let mistakes: Vec<Diagnostic> = foreign
        .map(|actor| {
            let task = ir.tasks.iter().find(|task| task.actor == actor.id());
            let location = task.map_or(&ir.compiled_at, |task| &task.bound_at);
            let known = ir.actors.iter().find(|known| known.id == actor.id());
            let name = known.map_or(actor.name(), |known| &known.name);
            let message = format!("actor `{name}` belongs to another runtime");
            Diagnostic::new(Code::ForeignActor, message, location.clone())
        })
        .collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(CompileError::all(mistakes))
}

fn lease_error(error: LeaseError, timeout: Duration, location: &SourceLocation) -> CompileError {
    let code = match &error {
        LeaseError::Busy { .. } => Code::ActorBusy,
        LeaseError::Dead(_) => Code::ActorDead,
        LeaseError::Foreign { .. } => Code::ForeignActor,
        _ => Code::LoadFailed,
    };
    let mut message = error.to_string();
    if let LeaseError::Silent { .. } | LeaseError::Restarting { .. } = error {
        message = format!("{message}: `Options::compile_timeout` is {timeout:?}");
    }
    refuse(code, message, location)
}

fn load_error(error: &LoadError, location: &SourceLocation) -> CompileError {
    let code = match error {
        LoadError::TooLarge | LoadError::Segment(_) | LoadError::Channel(ChannelError::Segment(_)) => {
            Code::OutOfMemory
        }
        LoadError::Inconsistent(_) | LoadError::Bug(_) => Code::Internal,
        _ => Code::LoadFailed,
    };
    refuse(code, error.to_string(), location)
}

/// Leases the actors, builds the channels, and gives every lane its program.
fn start(
    runtime: &Runtime,
    options: Options,
    plan: Plan,
    recipe: Arc<RuntimeParts>,
    location: &SourceLocation,
) -> Result<Arc<Engine>, CompileError> {
    let timeout = options.compile_timeout_value();
    let deadline = deadline_after(timeout);
    let lease = runtime
        .lease(&plan.graph, &recipe.actors, deadline)
        .map_err(|error| lease_error(error, timeout, location))?;
    let parts = prepare(&plan, &recipe).map_err(|error| load_error(&error, location))?;
    let Prepared {
        layout,
        segment,
        control,
        lanes,
        mut driver_lane,
        inputs,
        free_ports,
    } = parts;
    // An inline async method awaits on the thread that waits for its result, so the time limit of that thread applies.
    driver_lane.driver = driver_lane.driver.limited(options.timeout_value());
    if let Err(error) = start_workers(&plan, &segment, &lease, deadline) {
        lease.ending();
        control.stop();
        return Err(lease_error(error, timeout, location));
    }
    let programs = programs(&plan, lanes);
    let bell = driver_lane.bell.clone();
    let waiting = driver_lane.waiting;
    let info = TaskInfo {
        task: "the graph's input".into(),
        actor: "driver".into(),
        placement: "driver".into(),
        bound_at: location.clone(),
    };
    let limits = (plan.settings.max_inflight as usize, options.max_buffered_value());
    let crew = Inline::new(lease.inline_actors(), options.timeout_value());
    let driver = Driver::new(inputs, info, driver_lane, crew, free_ports, limits);
    if let Err(error) = lease.start_local(programs) {
        lease.ending();
        control.stop();
        return Err(lease_error(error, timeout, location));
    }
    let plan = Arc::new(plan);
    let engine = Engine::new(
        plan,
        options,
        control,
        layout,
        segment,
        lease,
        recipe,
        (bell, SpinBudget::new(waiting)),
        driver,
    );
    let weak: Weak<Engine> = Arc::downgrade(&engine);
    let ended = weak.clone();
    engine.lease.on_death(Box::new(move |death| {
        if let Some(engine) = weak.upgrade() {
            engine.died(death);
        }
    }));
    engine.lease.on_end(Box::new(move || {
        if let Some(engine) = ended.upgrade() {
            engine.lane_ended();
        }
    }));
    engine.lane_ended();
    Ok(engine)
}

/// The parts of a graph that this process needs before anything runs.
pub(crate) struct Prepared {
    pub(crate) layout: Layout,
    pub(crate) segment: selvedge_channels::Segment,
    pub(crate) control: Control,
    pub(crate) lanes: Vec<LaneLoop>,
    pub(crate) driver_lane: LaneLoop,
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) free_ports: Vec<usize>,
}

pub(crate) fn prepare(plan: &Plan, recipe: &RuntimeParts) -> Result<Prepared, LoadError> {
    let layout = Layout::of(plan).ok_or(LoadError::TooLarge)?;
    let segment = create_segment(plan, &layout)?;
    let control = Control::new(&segment, &layout)?;
    let payload = |value: ValueId| -> Option<PayloadType> { recipe.payloads.get(value.0 as usize).copied() };
    let site = LoadSite {
        plan,
        layout: &layout,
        segment: &segment,
        control: &control,
        process: ProcessId::DRIVER,
        payload: &payload,
        index: Index::of(plan),
    };
    let Built {
        mut lanes,
        mut inputs,
    } = site.lanes()?;
    let position = lanes.iter().position(|lane| lane.lane == LaneId::DRIVER);
    let mut driver_lane = lanes.swap_remove(position.ok_or(LoadError::Inconsistent("no driver lane"))?);
    let free_ports = attach_ports(plan, recipe, &mut driver_lane)?;
    let inputs = input_ports(plan, recipe, &mut inputs);
    Ok(Prepared {
        layout,
        segment,
        control,
        lanes,
        driver_lane,
        inputs,
        free_ports,
    })
}

/// Returns the outlets of each leaf of the graph's input: its whole, its parts by number, and the signal of its
/// arrival.
fn input_ports(
    plan: &Plan,
    recipe: &RuntimeParts,
    outlets: &mut BTreeMap<ValueId, Box<dyn AnyOutlet>>,
) -> Vec<InputPort> {
    let mut ports: Vec<InputPort> = plan
        .ir
        .inputs
        .iter()
        .map(|whole| InputPort {
            whole: outlets.remove(whole),
            parts: Vec::new(),
            splitter: recipe.splitters.get(whole).copied(),
            done: None,
            signal: plan.ir.value(*whole).is_some_and(|value| value.signal),
        })
        .collect();
    for (index, value) in plan.ir.values.iter().enumerate() {
        let Origin::Input(leaf) = value.origin else {
            continue;
        };
        let Some(port) = ports.get_mut(leaf as usize) else {
            continue;
        };
        let id = ValueId(index as u32);
        if value.signal && !plan.ir.inputs.contains(&id) {
            port.done = outlets.remove(&id);
        }
        if let Some(part) = value.part {
            let part = usize::from(part);
            if port.parts.len() <= part {
                port.parts.resize_with(part + 1, || None);
            }
            if let Some(place) = port.parts.get_mut(part) {
                *place = outlets.remove(&id);
            }
        }
    }
    ports
}

/// Returns the task that made a value, or the driver for an input.
fn maker(plan: &Plan, value: ValueId) -> TaskInfo {
    let task = plan.ir.maker(value).and_then(|task| plan.ir.task(task));
    let actor = task.and_then(|task| plan.ir.actor(task.actor));
    let name = |text: Option<&String>| text.map_or_else(|| "driver".to_owned(), String::clone);
    TaskInfo {
        task: task.map_or_else(|| "the graph's input".to_owned(), |task| task.label.clone()),
        actor: name(actor.map(|actor| &actor.name)),
        placement: name(actor.map(|actor| &actor.placement)),
        bound_at: task.map_or_else(|| plan.ir.compiled_at.clone(), |task| task.bound_at.clone()),
    }
}

/// Whether a channel has only one reader, and taking a value from it runs no user code.
fn moves(channel: &ChannelPlan, recipe: &RuntimeParts) -> bool {
    let as_it_is = match channel.kind {
        ChannelKind::Local => false,
        ChannelKind::Ring => true,
        ChannelKind::Shared => {
            let payload = recipe.payloads.get(channel.value.index());
            payload.is_some_and(PayloadType::is_plain)
        }
    };
    as_it_is && channel.readers.len() == 1
}

/// Adds the graph's outputs to the driver's lane and returns the free ones. An output is free if its channel is not
/// local to the driver's lane and no task of that lane reads it. Every other output becomes a step at the end of the
/// lane's program, so that inline tasks and outputs keep the same pace.
fn attach_ports(plan: &Plan, recipe: &RuntimeParts, lane: &mut LaneLoop) -> Result<Vec<usize>, LoadError> {
    let inconsistent = LoadError::Inconsistent("an output that the driver's lane does not read");
    let Some(program) = plan.lanes.iter().find(|program| program.lane == LaneId::DRIVER) else {
        return Err(inconsistent);
    };
    let mut free = Vec::new();
    for (index, value) in program.values.iter().enumerate() {
        let leaves: Vec<usize> = plan
            .ir
            .outputs
            .iter()
            .enumerate()
            .filter(|(_, output)| **output == value.value)
            .map(|(leaf, _)| leaf)
            .collect();
        if leaves.is_empty() {
            continue;
        }
        let shared = value.reads as usize > leaves.len();
        let channel = plan.channels.get(value.channel.0 as usize);
        let local = channel.is_some_and(|channel| channel.kind == ChannelKind::Local);
        let port = lane.ports.len();
        let info = maker(plan, value.value);
        lane.ports.push(OutputPort {
            info,
            value: ValueIx(index),
            leaves,
            moves: value.reads == 1 && channel.is_some_and(|channel| moves(channel, recipe)),
            collected: 0,
        });
        if shared || local {
            lane.steps.push(LaneStep::Collect(port));
            continue;
        }
        free.push(port);
        // A result is written for an execution that has begun, and at most `max_inflight` executions have uncollected
        // results. So the writer never waits for this slot.
        if channel.is_some_and(|channel| channel.slots >= plan.settings.max_inflight)
            && let Some(value) = lane.values.get_mut(ValueIx(index))
        {
            value.never_waited_for();
        }
    }
    let room = plan.settings.max_inflight as usize + 1;
    lane.leaves = recipe.leaves.iter().map(|leaf| leaf(room)).collect();
    Ok(free)
}

fn start_workers(
    plan: &Plan,
    segment: &selvedge_channels::Segment,
    lease: &Lease,
    deadline: Instant,
) -> Result<(), LeaseError> {
    let mut processes: Vec<ProcessId> = plan
        .lanes
        .iter()
        .map(|lane| lane.process)
        .filter(|process| *process != ProcessId::DRIVER)
        .collect();
    processes.sort_unstable();
    processes.dedup();
    let mut loading = Vec::with_capacity(processes.len());
    for process in processes {
        let Some(id) = segment.id() else { continue };
        let shipment = Shipment {
            process,
            segment: id,
            plan: plan.clone(),
        };
        let bytes = postcard::to_allocvec(&shipment).unwrap_or_default();
        loading.push(lease.load_worker(process, KIND, bytes, deadline)?);
    }
    loading.into_iter().try_for_each(|it| it.wait(deadline))
}
