//! The checker: runs the schedules over counters instead of values, with bounded channels, and sees whether every
//! lane reaches the end.
//!
//! It shares no code with `order` and `schedule`. Lanes are deterministic and a step that can be taken stays
//! possible until it is taken, so one run decides for all interleavings. If a schedule is live with few slots it is
//! live with more, so two slots are tried first. O(operations · executions).

use std::collections::BTreeMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use selvedge_core::LaneId;

use crate::ir::{ChannelKind, GraphIr, OpKind, Operation, Origin, Plan, TaskId, ValueId, Writer};

/// Evidence that a plan was run to the end: what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Executions run.
    pub executions: u64,
    /// Operations run.
    pub operations: u64,
    /// Slots of each channel in that run.
    pub slots: u32,
}

/// One lane of a deadlock: what it is at, and for which lane it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The lane.
    pub lane: LaneId,
    /// The operation it cannot take.
    pub operation: Operation,
    /// The value it waits to read, or to have read.
    pub value: ValueId,
    /// The lane that would have to move.
    pub waits_for: LaneId,
}

/// A cycle of lanes that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The lanes of the cycle.
    pub cycle: Vec<Blocked>,
}

impl Deadlock {
    /// The cycle in words: task, operation, lane and value of each link.
    pub fn describe(&self, graph: &GraphIr) -> String {
        let link = |blocked: &Blocked| {
            let task = graph
                .task(blocked.operation.task)
                .map_or("?", |task| task.label.as_str());
            let value = graph.value_name(blocked.value);
            let (lane, other) = (blocked.lane.0, blocked.waits_for.0);
            format!(
                "lane {lane} is at {} of `{task}` and needs lane {other} for `{value}`",
                blocked.operation.kind
            )
        };
        self.cycle.iter().map(link).collect::<Vec<_>>().join("; ")
    }
}

/// Checks that no lane can wait for ever (GRAPH-24).
///
/// # Errors
/// [`Deadlock`] with the cycle.
pub fn prove(plan: &Plan) -> Result<Certificate, Deadlock> {
    let slots = plan.settings.slots;
    match run(plan, slots.min(2)) {
        Err(_) if slots > 2 => run(plan, slots),
        other => other,
    }
}

/// A channel as counters.
struct Counter {
    writer: Writer,
    /// Reading lanes with the reads they do in an execution, the outputs of the graph left out.
    readers: Vec<(LaneId, u32)>,
    written: u64,
    /// By reader: reads done in all.
    read: Vec<u64>,
    slots: u64,
}

impl Counter {
    fn consumed(&self, reader: usize) -> u64 {
        match (self.readers.get(reader), self.read.get(reader)) {
            // Read by outputs of the graph only: collected as it comes.
            (Some((_, 0)), _) | (None, _) | (_, None) => self.written,
            (Some((_, reads)), Some(done)) => done / u64::from(*reads),
        }
    }

    /// A reader that must move before message number `execution` fits.
    fn full_for(&self, execution: u64) -> Option<LaneId> {
        (0..self.readers.len())
            .find(|reader| execution >= self.consumed(*reader) + self.slots)
            .and_then(|reader| self.readers.get(reader))
            .map(|(lane, _)| *lane)
    }
}

struct Machine<'a> {
    plan: &'a Plan,
    channels: Vec<Counter>,
    /// For each value, the channels that carry it.
    carriers: Vec<Vec<usize>>,
    /// For each task, the values it makes.
    makes: BTreeMap<TaskId, Vec<ValueId>>,
    /// Where each lane is: execution and step.
    at: BTreeMap<LaneId, (u64, usize)>,
    executions: u64,
    done: u64,
}

fn run(plan: &Plan, slots: u32) -> Result<Certificate, Deadlock> {
    let mut machine = Machine::new(plan, slots);
    let mut runnable: Vec<usize> = (0..plan.lanes.len()).rev().collect();
    let index: BTreeMap<LaneId, usize> = plan
        .lanes
        .iter()
        .enumerate()
        .map(|(index, lane)| (lane.lane, index))
        .collect();
    let mut queued = vec![true; plan.lanes.len()];
    while let Some(lane) = runnable.pop() {
        if let Some(flag) = queued.get_mut(lane) {
            *flag = false;
        }
        for woken in machine.advance(lane) {
            if let Some(woken) = index.get(&woken)
                && let Some(flag) = queued.get_mut(*woken)
                && !*flag
            {
                *flag = true;
                runnable.push(*woken);
            }
        }
    }
    let blocked: Vec<Blocked> = (0..plan.lanes.len())
        .filter_map(|lane| machine.blocked(lane))
        .collect();
    if blocked.is_empty() {
        return Ok(Certificate {
            executions: machine.executions,
            operations: machine.done,
            slots,
        });
    }
    Err(Deadlock {
        cycle: cycle(blocked),
    })
}

/// The lanes that wait for each other; all blocked lanes where no cycle stands out.
fn cycle(blocked: Vec<Blocked>) -> Vec<Blocked> {
    let mut graph: DiGraph<usize, ()> = DiGraph::new();
    let nodes: BTreeMap<LaneId, _> = blocked
        .iter()
        .enumerate()
        .map(|(index, blocked)| (blocked.lane, graph.add_node(index)))
        .collect();
    for lane in &blocked {
        if let (Some(from), Some(to)) = (nodes.get(&lane.lane), nodes.get(&lane.waits_for)) {
            graph.add_edge(*from, *to, ());
        }
    }
    let is_cycle = |component: &Vec<_>| {
        component.len() > 1
            || component
                .first()
                .is_some_and(|node| graph.contains_edge(*node, *node))
    };
    let found = tarjan_scc(&graph).into_iter().find(is_cycle);
    let members: Vec<usize> = found.map_or_else(Vec::new, |component| {
        component
            .into_iter()
            .filter_map(|node| graph.node_weight(node).copied())
            .collect()
    });
    if members.is_empty() {
        return blocked;
    }
    blocked
        .into_iter()
        .enumerate()
        .filter(|(index, _)| members.contains(index))
        .map(|(_, lane)| lane)
        .collect()
}

impl<'a> Machine<'a> {
    fn new(plan: &'a Plan, slots: u32) -> Self {
        let mut carriers = vec![Vec::new(); plan.ir.values.len()];
        let mut inline_reads: BTreeMap<(ValueId, LaneId), u32> = BTreeMap::new();
        let lanes: BTreeMap<_, _> = plan
            .ir
            .actors
            .iter()
            .map(|actor| (actor.id, actor.lane))
            .collect();
        for task in &plan.ir.tasks {
            let Some(lane) = lanes.get(&task.actor) else {
                continue;
            };
            for (_, value) in GraphIr::reads(task) {
                *inline_reads.entry((value, *lane)).or_default() += 1;
            }
        }
        let mut channels = Vec::with_capacity(plan.channels.len());
        for (index, channel) in plan.channels.iter().enumerate() {
            if let Some(carriers) = carriers.get_mut(channel.value.index()) {
                carriers.push(index);
            }
            let reads = |lane: &LaneId| inline_reads.get(&(channel.value, *lane)).copied().unwrap_or(0);
            let readers: Vec<_> = channel.readers.iter().map(|lane| (*lane, reads(lane))).collect();
            let slots = if channel.kind == ChannelKind::Local {
                1
            } else {
                u64::from(slots)
            };
            let read = vec![0; readers.len()];
            channels.push(Counter {
                writer: channel.writer,
                readers,
                written: 0,
                read,
                slots,
            });
        }
        let mut makes: BTreeMap<TaskId, Vec<ValueId>> = BTreeMap::new();
        for (index, value) in plan.ir.values.iter().enumerate() {
            if let Origin::Task(task) = value.origin {
                makes.entry(task).or_default().push(ValueId(index as u32));
            }
        }
        let executions = u64::from(slots) + 2;
        let at = plan.lanes.iter().map(|lane| (lane.lane, (0, 0))).collect();
        let mut machine = Machine {
            plan,
            channels,
            carriers,
            makes,
            at,
            executions,
            done: 0,
        };
        machine.submit();
        machine
    }

    /// The inputs are written as fast as slots allow: whoever executes waits for room, never for a lane's step.
    fn submit(&mut self) {
        let executions = self.executions;
        for channel in self
            .channels
            .iter_mut()
            .filter(|channel| channel.writer == Writer::Submit)
        {
            while channel.written < executions && channel.full_for(channel.written).is_none() {
                channel.written += 1;
            }
        }
    }

    fn carriers(&self, value: ValueId) -> &[usize] {
        self.carriers.get(value.index()).map_or(&[], Vec::as_slice)
    }

    /// The end by which `lane` reads `value`.
    fn end(&self, value: ValueId, lane: LaneId) -> Option<(usize, usize)> {
        self.carriers(value).iter().find_map(|channel| {
            let readers = &self.channels.get(*channel)?.readers;
            Some((*channel, readers.iter().position(|(reader, _)| *reader == lane)?))
        })
    }

    fn value_of(&self, operation: Operation) -> Option<ValueId> {
        let OpKind::Read { arg } = operation.kind else {
            return None;
        };
        let task = self.plan.ir.task(operation.task)?;
        GraphIr::reads(task)
            .find(|(position, _)| *position == arg)
            .map(|(_, value)| value)
    }

    /// Why `operation` cannot be taken now: the value, and the lane that must move.
    fn obstacle(&self, lane: LaneId, operation: Operation, execution: u64) -> Option<(ValueId, LaneId)> {
        match operation.kind {
            OpKind::Compute => None,
            OpKind::Read { .. } => {
                let value = self.value_of(operation)?;
                let (channel, _) = self.end(value, lane)?;
                let channel = self.channels.get(channel)?;
                let writer = match channel.writer {
                    Writer::Lane(lane) => lane,
                    Writer::Submit => channel.full_for(channel.written)?,
                };
                (channel.written <= execution).then_some((value, writer))
            }
            OpKind::Write => self.makes.get(&operation.task)?.iter().find_map(|value| {
                self.carriers(*value)
                    .iter()
                    .find_map(|channel| Some((*value, self.channels.get(*channel)?.full_for(execution)?)))
            }),
        }
    }

    /// Runs a lane as far as it goes; returns the lanes that may be able to move now.
    fn advance(&mut self, index: usize) -> Vec<LaneId> {
        let mut woken = Vec::new();
        let plan = self.plan;
        let Some(program) = plan.lanes.get(index) else {
            return woken;
        };
        let Some((mut execution, mut step)) = self.at.get(&program.lane).copied() else {
            return woken;
        };
        while execution < self.executions {
            let Some(operation) = program.steps.get(step).copied() else {
                if program.steps.is_empty() {
                    execution = self.executions;
                }
                (execution, step) = (execution + 1, 0);
                continue;
            };
            if self.obstacle(program.lane, operation, execution).is_some() {
                break;
            }
            self.take(program.lane, operation, &mut woken);
            step += 1;
        }
        self.at.insert(program.lane, (execution, step));
        woken.retain(|lane| *lane != program.lane);
        woken
    }

    fn take(&mut self, lane: LaneId, operation: Operation, woken: &mut Vec<LaneId>) {
        self.done += 1;
        match operation.kind {
            OpKind::Read { .. } => {}
            // The task's reads are done when its method returns.
            OpKind::Compute => {
                let Some(task) = self.plan.ir.task(operation.task) else {
                    return;
                };
                for (_, value) in GraphIr::reads(task) {
                    let Some((channel, reader)) = self.end(value, lane) else {
                        continue;
                    };
                    let Some(channel) = self.channels.get_mut(channel) else {
                        continue;
                    };
                    if let Some(read) = channel.read.get_mut(reader) {
                        *read += 1;
                    }
                    match channel.writer {
                        Writer::Lane(writer) => woken.push(writer),
                        Writer::Submit => woken.extend(channel.readers.iter().map(|(lane, _)| *lane)),
                    }
                }
                self.submit();
            }
            OpKind::Write => {
                for value in self.makes.get(&operation.task).cloned().unwrap_or_default() {
                    for channel in self.carriers(value).to_vec() {
                        let Some(channel) = self.channels.get_mut(channel) else {
                            continue;
                        };
                        channel.written += 1;
                        woken.extend(channel.readers.iter().map(|(lane, _)| *lane));
                    }
                }
            }
        }
    }

    fn blocked(&self, index: usize) -> Option<Blocked> {
        let program = self.plan.lanes.get(index)?;
        let (execution, step) = *self.at.get(&program.lane)?;
        if execution >= self.executions {
            return None;
        }
        let operation = *program.steps.get(step)?;
        let (value, waits_for) = self.obstacle(program.lane, operation, execution)?;
        Some(Blocked {
            lane: program.lane,
            operation,
            value,
            waits_for,
        })
    }
}
