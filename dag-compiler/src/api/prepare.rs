//! The parts of a graph in the driver's process: its memory, its lanes, and the channel ends of its inputs and outputs.

use selvedge_channels::{AnyOutlet, PayloadType, Segment};
use selvedge_core::{ActorId, HostId, IdMap, IdSet, LaneId, ProcessId, Runtime, ValueIx};

use crate::bind::RuntimeParts;
use crate::bind::ports::InputPort;
use crate::ir::{ActorIr, ChannelKind, ChannelPlan, Origin, Plan, ValueId};
use crate::load::{
    Built, Index, LoadError, LoadSite, Referring, ShuttleEnds, bypasses, create_segment, set_berths,
};
use crate::run::control::Control;
use crate::run::hosts::Shares;
use crate::run::lane::{LaneLoop, LaneStep, OutputPort};
use crate::run::layout::Layout;
use crate::run::report::TaskInfo;

/// The parts of a graph that this process needs before anything runs.
pub(crate) struct Prepared {
    pub(crate) layout: Layout,
    pub(crate) segment: Segment,
    pub(crate) control: Control,
    pub(crate) lanes: Vec<LaneLoop>,
    pub(crate) driver_lane: LaneLoop,
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) free_ports: Vec<usize>,
    pub(crate) shuttles: ShuttleEnds,
}

/// Makes the memory, the lanes of this process, and the ends of the graph. Without a runtime, no waiter sleeps in a berth.
///
/// # Errors
/// The memory cannot be made, or the plan does not fit the graph.
pub(crate) fn prepare(
    plan: &Plan,
    recipe: &RuntimeParts,
    referring: Option<&Referring>,
    runtime: Option<&Runtime>,
) -> Result<Prepared, LoadError> {
    let layout = Layout::of(plan, HostId::DRIVER).ok_or(LoadError::TooLarge)?;
    let segment = create_segment(plan, &layout)?;
    let mut control = Control::new(&segment, &layout)?;
    let berth = runtime.and_then(|runtime| set_berths(&mut control, plan, ProcessId::DRIVER, runtime));
    let payload = |value: ValueId| -> Option<PayloadType> { recipe.payloads.get(value.0 as usize).copied() };
    let shares = Shares::of(plan, ProcessId::DRIVER, &control);
    let site = LoadSite {
        plan,
        layout: &layout,
        segment: &segment,
        control: &control,
        process: ProcessId::DRIVER,
        shares: &shares,
        berth: &berth,
        bypasses: bypasses(plan, ProcessId::DRIVER),
        payload: &payload,
        constants: &recipe.constants,
        referring,
        index: Index::of(plan),
    };
    let Built {
        mut lanes,
        mut inputs,
    } = site.lanes()?;
    let shuttles = site.shuttle_ends()?;
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
        shuttles,
    })
}

/// The values that may hold references and cross processes.
pub(crate) fn values_with_references(plan: &Plan, recipe: &RuntimeParts) -> IdSet<ValueId> {
    let shared = plan.channels.iter().filter(|it| it.is_encoded());
    let values = shared.map(|channel| channel.value);
    let has_references = |value: &ValueId| {
        let payload = recipe.payloads.get(value.index());
        payload.is_some_and(PayloadType::has_records)
    };
    values.filter(has_references).collect()
}

/// Returns the outlets of each leaf of the graph's input: its whole, its parts by number, and the signal of its
/// arrival.
fn input_ports(
    plan: &Plan,
    recipe: &RuntimeParts,
    outlets: &mut IdMap<ValueId, Box<dyn AnyOutlet>>,
) -> Vec<InputPort> {
    let port = |whole: &ValueId| InputPort {
        whole: outlets.remove(whole),
        parts: Vec::new(),
        splitter: recipe.splitters.get(whole).copied(),
        done: None,
        signal: plan.ir.value(*whole).is_some_and(|value| value.signal),
    };
    let mut ports: Vec<InputPort> = plan.ir.inputs.iter().map(port).collect();
    for (id, value) in (0u32..).map(ValueId).zip(&plan.ir.values) {
        let port = match value.origin {
            Origin::Input(leaf) => ports.get_mut(leaf as usize),
            Origin::Task(_) => None,
        };
        if let Some(port) = port {
            if value.signal && !plan.ir.is_input(id) {
                port.done = outlets.remove(&id);
            }
            if let Some(part) = value.part.map(usize::from) {
                let parts = port.parts.len().max(part + 1);
                port.parts.resize_with(parts, || None);
                if let Some(place) = port.parts.get_mut(part) {
                    *place = outlets.remove(&id);
                }
            }
        }
    }
    ports
}

/// Returns the task that made a value, or the driver for an input.
fn maker(plan: &Plan, actors: &IdMap<ActorId, &ActorIr>, value: ValueId) -> TaskInfo {
    let task = plan.ir.maker(value).and_then(|task| plan.ir.task(task));
    let actor = task.and_then(|task| actors.get(&task.actor));
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
        ChannelKind::Shared | ChannelKind::Mirror => {
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
    let program = plan
        .lanes
        .iter()
        .find(|program| program.address.lane == LaneId::DRIVER);
    let program = program.ok_or(LoadError::Inconsistent("no driver lane"))?;
    let mut leaves_of: IdMap<ValueId, Vec<usize>> = IdMap::new();
    for (leaf, output) in plan.ir.outputs.iter().enumerate() {
        leaves_of.push_to(*output, leaf);
    }
    let actors = plan.ir.actors_by_id();
    let mut free = Vec::new();
    for (index, value) in program.values.iter().enumerate() {
        let Some(leaves) = leaves_of.remove(&value.value) else {
            continue;
        };
        let missing = LoadError::Inconsistent("an output without a channel");
        let channel = plan.channels.get(value.channel.0 as usize).ok_or(missing)?;
        let read_by_task = value.reads as usize > leaves.len();
        let port = lane.ports.len();
        lane.ports.push(OutputPort {
            info: maker(plan, &actors, value.value),
            value: ValueIx(index),
            leaves,
            moves: value.reads == 1 && moves(channel, recipe),
            collected: 0,
        });
        if read_by_task || channel.kind == ChannelKind::Local {
            lane.steps.push(LaneStep::Collect(port));
            continue;
        }
        free.push(port);
        // A result is written for an execution that has begun, and at most `max_inflight` executions have uncollected
        // results. So the writer never waits for this slot.
        if channel.slots >= plan.settings.max_inflight
            && let Some(value) = lane.values.get_mut(ValueIx(index))
        {
            value.never_waited_for();
        }
    }
    let room = plan.settings.max_inflight as usize + 1;
    lane.leaves = recipe.leaves.iter().map(|leaf| leaf(room)).collect();
    Ok(free)
}
