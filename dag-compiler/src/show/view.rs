//! The data for drawing a plan: lanes, boxes on their time line, and arrows between boxes; and the HTML page that draws it.

use std::collections::BTreeMap;

use selvedge_core::{ActorId, IdMap, IdSet, LaneId};
use serde::Serialize;

use crate::ir::{ActorIr, ArgIr, ChannelId, ChannelKind, ChannelPlan, GraphIr, Plan, TaskId, ValueId};
use crate::prove::forecast::forecast;
use crate::prove::throughput::bound;
use crate::run::trace::Event;

/// A lane, drawn as a row.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) place: String,
    pub(super) actors: Vec<String>,
}

/// A task, drawn as a box.
#[derive(Serialize)]
pub(super) struct Task {
    pub(super) label: String,
    pub(super) actor: String,
    /// The position of the actor among all actors, which selects the colour.
    #[serde(skip)]
    pub(super) colour: usize,
    pub(super) method: String,
    pub(super) bound_at: String,
    pub(super) row: usize,
    pub(super) start_us: f64,
    pub(super) end_us: f64,
    pub(super) measured: bool,
    pub(super) reads: Vec<PortView>,
    pub(super) writes: Vec<PortView>,
    /// The operations of the task, in the order of its lane.
    pub(super) operations: Vec<String>,
}

/// An end of a channel at a task.
#[derive(Serialize)]
pub(super) struct PortView {
    pub(super) value: String,
    pub(super) type_name: String,
    pub(super) channel: String,
    pub(super) slots: u32,
    pub(super) slot_bytes: u64,
}

/// An arrow between two boxes.
#[derive(Serialize)]
pub(super) struct Arrow {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) across: bool,
}

/// A measured operation.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) task: u32,
    pub(super) row: usize,
    pub(super) operation: String,
    pub(super) execution: u64,
    pub(super) start_us: f64,
    pub(super) end_us: f64,
}

/// The data of a drawn plan.
#[derive(Serialize)]
pub(super) struct View {
    pub(super) graph: String,
    /// True if all durations are known. Otherwise the times are only positions in the order.
    pub(super) is_measured: bool,
    pub(super) makespan_us: f64,
    /// The shortest time from one execution to the next, in microseconds.
    pub(super) period_us: Option<f64>,
    pub(super) rows: Vec<Row>,
    /// The tasks, by task id.
    pub(super) tasks: Vec<Task>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) notes: Vec<String>,
    pub(super) measured: Vec<Measured>,
}

pub(super) fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl View {
    pub(super) fn of(plan: &Plan, events: &[Event]) -> Self {
        let forecast = forecast(plan).unwrap_or_default();
        let mut rows = Vec::new();
        let mut row_of: IdMap<u32, usize> = IdMap::new();
        for lane in &plan.lanes {
            let actors = || plan.ir.actors_on(lane.address.lane);
            row_of.insert(lane.address.lane.0, rows.len());
            rows.push(Row {
                name: format!("lane {}", lane.address.lane.0),
                place: plan.ir.place_of(lane.address.lane),
                actors: actors().map(|actor| actor.name.clone()).collect(),
            });
        }
        let channels = Channels::of(plan);
        let actors = plan.ir.actors_by_id();
        let mut tasks: Vec<Task> = (0..plan.ir.tasks.len() as u32)
            .filter_map(|id| task(plan, TaskId(id), &actors, &row_of, &channels))
            .collect();
        choose_colours(&mut tasks, &rows);
        for step in &forecast.steps {
            if let Some(task) = tasks.get_mut(step.operation.task.index()) {
                task.operations.push(step.operation.kind.to_string());
                if step.operation.kind.is_work() {
                    (task.start_us, task.end_us) = (micros(step.start_ns), micros(step.end_ns));
                }
            }
        }
        View {
            graph: plan.graph.clone(),
            is_measured: plan.ir.is_measured(),
            makespan_us: micros(forecast.makespan_ns),
            period_us: bound(plan).map(|bound| bound.period_ns / 1e3),
            rows,
            arrows: arrows(plan),
            measured: measured(&tasks, events),
            tasks,
            notes: plan.notes.clone(),
        }
    }
}

/// Gives the tasks of each actor a colour: the position of the actor among those of all rows.
fn choose_colours(tasks: &mut [Task], rows: &[Row]) {
    let mut colours: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, actor) in rows.iter().flat_map(|row| &row.actors).enumerate() {
        colours.entry(actor).or_insert(position);
    }
    for task in tasks {
        task.colour = colours.get(task.actor.as_str()).copied().unwrap_or_default();
    }
}

/// Returns the events of the tasks, with times from the first event on.
fn measured(tasks: &[Task], events: &[Event]) -> Vec<Measured> {
    let first = events.iter().map(|event| event.start_ns).min();
    let since = |ns: u64| micros(ns.saturating_sub(first.unwrap_or_default()));
    let measured = |event: &Event| {
        Some(Measured {
            task: event.task_id.0,
            row: tasks.get(event.task_id.index())?.row,
            operation: event.operation.clone(),
            execution: event.execution,
            start_us: since(event.start_ns),
            end_us: since(event.end_ns),
        })
    };
    events.iter().filter_map(measured).collect()
}

fn port(plan: &Plan, value: ValueId, channel: &ChannelPlan) -> PortView {
    let kind = match channel.kind {
        ChannelKind::Local => "within the lane",
        ChannelKind::Ring => "between threads, by pointer",
        ChannelKind::Shared => "shared memory",
        ChannelKind::Mirror => "from another host",
    };
    PortView {
        value: plan.ir.value_name(value),
        type_name: plan
            .ir
            .value(value)
            .map(|value| value.type_name.clone().into_owned())
            .unwrap_or_default(),
        channel: kind.to_owned(),
        slots: channel.slots,
        slot_bytes: channel.slot_bytes,
    }
}

/// The channels of a plan, by their ends.
struct Channels<'a> {
    /// The channel through which a lane reads a value.
    read: IdMap<(LaneId, ValueId), &'a ChannelPlan>,
    /// The channels that a task writes.
    made: IdMap<TaskId, Vec<&'a ChannelPlan>>,
}

impl<'a> Channels<'a> {
    fn of(plan: &'a Plan) -> Self {
        let read = plan.lanes.iter().flat_map(|lane| {
            let channel = |of: ChannelId| plan.channels.get(of.0 as usize);
            let values = lane.values.iter();
            values.filter_map(move |it| Some(((lane.address.lane, it.value), channel(it.channel)?)))
        });
        let mut channels = Channels {
            read: read.collect(),
            made: IdMap::new(),
        };
        for channel in &plan.channels {
            if let Some(maker) = plan.ir.maker(channel.value) {
                channels.made.push_to(maker, channel);
            }
        }
        channels
    }
}

fn task(
    plan: &Plan,
    id: TaskId,
    actors: &IdMap<ActorId, &ActorIr>,
    row_of: &IdMap<u32, usize>,
    channels: &Channels<'_>,
) -> Option<Task> {
    let task = plan.ir.task(id)?;
    let actor = actors.get(&task.actor)?;
    let read = |(_, value): (u32, ValueId)| {
        let channel = channels.read.get(&(actor.lane, value))?;
        Some(port(plan, value, channel))
    };
    let made = channels.made.get(&id).map_or(&[][..], Vec::as_slice);
    let constants = task
        .args
        .iter()
        .filter(|arg| matches!(arg, ArgIr::Constant(_)))
        .count();
    let mut reads: Vec<PortView> = GraphIr::reads(task).filter_map(read).collect();
    reads.extend((0..constants).map(|_| PortView {
        value: "constant".to_owned(),
        type_name: String::new(),
        channel: "in the program".to_owned(),
        slots: 0,
        slot_bytes: 0,
    }));
    Some(Task {
        label: task.label.clone(),
        actor: actor.name.clone(),
        colour: 0,
        method: task.method_name.clone().into_owned(),
        bound_at: task.bound_at.to_string(),
        row: row_of.get(&actor.lane.0).copied()?,
        start_us: 0.0,
        end_us: 0.0,
        measured: task.duration_ns.is_some(),
        reads,
        writes: made
            .iter()
            .map(|channel| port(plan, channel.value, channel))
            .collect(),
        operations: Vec::new(),
    })
}

/// Returns one arrow from each task to each task that reads one of its values.
fn arrows(plan: &Plan) -> Vec<Arrow> {
    let places = plan.ir.places();
    let mut seen = IdSet::new();
    let mut arrows = Vec::new();
    for (to, task) in (0u32..).zip(&plan.ir.tasks) {
        for (_, value) in GraphIr::reads(task) {
            let Some(from) = plan.ir.maker(value) else {
                continue;
            };
            if !seen.insert((from, to)) {
                continue;
            }
            let lane = |actor| places.get(&actor).copied();
            let across = plan.ir.task(from).and_then(|from| lane(from.actor)) != lane(task.actor);
            arrows.push(Arrow {
                from: from.0,
                to,
                across,
            });
        }
    }
    arrows
}

/// The page, with a placeholder for its data.
const PAGE: &str = include_str!("page.html");

/// The placeholder for the data.
const PLACE: &str = "/*DATA*/null";

impl Plan {
    /// Returns the plan as one HTML page that works offline: rows of lanes, boxes of tasks, arrows of values. A click
    /// shows the values that a task reads and writes. The events of [`Graph::trace`](crate::Graph::trace) are drawn
    /// under the planned time line.
    pub fn to_html(&self, events: &[Event]) -> String {
        let data = serde_json::to_string(&View::of(self, events)).unwrap_or_else(|_| "null".to_owned());
        // Inside a script element, no text may look like the closing tag.
        PAGE.replacen(PLACE, &data.replace('<', "\\u003c"), 1)
    }
}
