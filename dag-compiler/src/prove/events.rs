//! A finished plan as a marked graph: steps, the events they make up, and who waits for whom.
//!
//! Every step of every lane is a node, and so are the submission and the collection of the outputs. Steps that happen at
//! one moment are one event. An edge `from → to` with `tokens` says: what `to` does in execution i waits for what `from`
//! did in execution i - tokens.

use std::collections::BTreeMap;
use std::ops::Range;

use selvedge_core::LaneId;

use crate::cost;
use crate::ir::{ChannelKind, CollectiveId, GraphIr, OpKind, Operation, Plan, ValueId, Writer};

/// A step of a lane, or an end of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) party: Writer,
    /// `None` for the submission and the collection.
    pub(super) operation: Option<Operation>,
    /// What a READ reads, or a COLLECTIVE first takes.
    pub(super) value: Option<ValueId>,
    /// What the node completes, if it is the end of a posted collective.
    pub(super) collective: Option<CollectiveId>,
}

/// Why one step waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// They stand in this order on a lane.
    Lane,
    /// A value has to come, by this kind of channel.
    Value(ValueId, ChannelKind),
    /// Another party of a transfer or a collective has to be there.
    Party(ValueId),
    /// A slot of this kind of channel has to be given back.
    Slot(ValueId, ChannelKind),
    /// Transfers of a lane, by number, run in their order.
    Transfer(ValueId, usize),
    /// So many executions may be unfinished.
    Window,
}

impl Why {
    /// What it takes to get across.
    pub(super) fn hop_ns(self) -> u64 {
        match self {
            Why::Value(_, kind) => cost::hop_ns(kind),
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) tokens: u32,
    pub(super) why: Why,
}

/// The marked graph of a plan.
pub(super) struct Events {
    pub(super) nodes: Vec<Node>,
    /// By node, a node of the same event with a lower number, or itself: the first node stands for the event.
    event: Vec<u32>,
    pub(super) edges: Vec<Edge>,
    /// The nodes of each lane, in order, the collection last on the driver's. A collective that is only posted has a node
    /// on no lane.
    pub(super) lanes: Vec<Range<u32>>,
    submission: u32,
}

/// A value as a lane meets it.
#[derive(Default)]
struct Known {
    channel: u32,
    meets: bool,
    /// The first READ on the lane.
    first: Option<u32>,
}

struct Building<'a> {
    plan: &'a Plan,
    events: Events,
    /// By lane, sorted by value.
    known: Vec<Vec<(ValueId, Known)>>,
    /// By task: its WRITE and its work.
    writes: Vec<u32>,
    works: Vec<u32>,
    /// By task: a value of its that somebody meets.
    met: Vec<Option<ValueId>>,
    /// The nodes of collectives that are only posted.
    posted: BTreeMap<CollectiveId, u32>,
}

impl Events {
    /// The graph of a plan that is well-formed.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut building = Building::nodes(plan);
        building.reads();
        building.collectives();
        building.collection();
        building.chains();
        let mut events = building.events;
        // The first node of an event has the lowest number, so one pass in order finds it for all.
        for node in 0..events.event.len() as u32 {
            let first = events.event_of(node);
            if let Some(place) = events.event.get_mut(node as usize) {
                *place = first;
            }
        }
        events
    }

    /// The node that stands for a node's event.
    pub(super) fn event_of(&self, node: u32) -> u32 {
        let mut node = node;
        while let Some(earlier) = self.event.get(node as usize).copied().filter(|it| *it != node) {
            node = earlier;
        }
        node
    }

    /// How long each event lasts, by the node that stands for it. A collective that is only posted lasts where it
    /// completes; its parts take no time.
    pub(super) fn durations_ns(&self, plan: &Plan) -> Vec<u64> {
        let mut durations = vec![0; self.nodes.len()];
        for (number, node) in (0u32..).zip(&self.nodes) {
            let work = node.operation.filter(|it| {
                let posted = it.kind == OpKind::Collective && plan.settings.overlap && self.is_step(number);
                it.kind.is_work() && !posted
            });
            let ns = work
                .and_then(|work| plan.ir.task(work.task))
                .map_or(0, cost::work_ns);
            if let Some(longest) = durations.get_mut(self.event_of(number) as usize) {
                *longest = ns.max(*longest);
            }
        }
        durations
    }

    /// Whether a node is a step of a lane, or an end; a collective that is only posted is neither.
    pub(super) fn is_step(&self, node: u32) -> bool {
        node <= self.submission
    }

    /// The node.
    pub(super) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }
}

impl<'a> Building<'a> {
    fn nodes(plan: &'a Plan) -> Self {
        let tasks = plan.ir.tasks.len();
        let (mut nodes, mut lanes, mut known) = (Vec::new(), Vec::new(), Vec::new());
        let (mut writes, mut works) = (vec![u32::MAX; tasks], vec![u32::MAX; tasks]);
        for lane in &plan.lanes {
            let begin = nodes.len() as u32;
            let mut mine: Vec<(ValueId, Known)> = lane
                .values
                .iter()
                .map(|value| {
                    let known = Known {
                        channel: value.channel.0,
                        meets: value.meets,
                        first: None,
                    };
                    (value.value, known)
                })
                .collect();
            mine.sort_by_key(|(value, _)| *value);
            for step in &lane.steps {
                let node = nodes.len() as u32;
                let value = value_of(plan, *step);
                let place = match step.kind {
                    OpKind::Write => writes.get_mut(step.task.index()),
                    OpKind::Compute | OpKind::Collective => works.get_mut(step.task.index()),
                    OpKind::Read { .. } => {
                        let place =
                            value.and_then(|value| mine.binary_search_by_key(&value, |(it, _)| *it).ok());
                        if let Some((_, known)) = place.and_then(|place| mine.get_mut(place)) {
                            known.first.get_or_insert(node);
                        }
                        None
                    }
                };
                if let Some(place) = place {
                    *place = node;
                }
                nodes.push(Node {
                    party: Writer::Lane(lane.lane),
                    operation: Some(*step),
                    value,
                    collective: None,
                });
            }
            if lane.lane == LaneId(0) {
                nodes.push(Node {
                    party: Writer::Lane(lane.lane),
                    operation: None,
                    value: None,
                    collective: None,
                });
            }
            lanes.push(begin..nodes.len() as u32);
            known.push(mine);
        }
        let submission = nodes.len() as u32;
        nodes.push(Node {
            party: Writer::Submit,
            operation: None,
            value: None,
            collective: None,
        });
        let event = (0..nodes.len() as u32).collect();
        let edges = Vec::with_capacity(nodes.len() * 2);
        let mut met = vec![None; tasks];
        for value in plan
            .lanes
            .iter()
            .flat_map(|lane| &lane.values)
            .filter(|value| value.meets)
        {
            if let Some(task) = plan.ir.maker(value.value)
                && let Some(met) = met.get_mut(task.index())
            {
                *met = Some(value.value);
            }
        }
        Building {
            plan,
            events: Events {
                nodes,
                event,
                edges,
                lanes,
                submission,
            },
            known,
            writes,
            works,
            met,
            posted: BTreeMap::new(),
        }
    }

    /// What a lane, by number, knows of a value.
    fn known(&self, lane: usize, value: ValueId) -> Option<&Known> {
        let known = self.known.get(lane)?;
        let place = known.binary_search_by_key(&value, |(it, _)| *it).ok()?;
        known.get(place).map(|(_, known)| known)
    }

    fn edge(&mut self, from: u32, to: u32, tokens: u32, why: Why) {
        self.events.edges.push(Edge {
            from,
            to,
            tokens,
            why,
        });
    }

    /// Makes two nodes one event; the earlier number stands for both.
    fn merge(&mut self, one: u32, other: u32) {
        let (one, other) = (self.events.event_of(one), self.events.event_of(other));
        let (keep, gone) = (one.min(other), one.max(other));
        if let Some(place) = self.events.event.get_mut(gone as usize) {
            *place = keep;
        }
    }

    /// Who writes a value.
    fn writer(&self, value: ValueId) -> u32 {
        match self.plan.ir.maker(value) {
            Some(task) => self.writes.get(task.index()).copied().unwrap_or(u32::MAX),
            None => self.events.submission,
        }
    }

    /// Every READ, what it waits for, and when its slot is free again.
    fn reads(&mut self) {
        let overlap = self.plan.settings.overlap;
        for (number, lane) in self.plan.lanes.iter().enumerate() {
            let begin = self.events.lanes.get(number).map_or(0, |range| range.start);
            for (node, step) in (begin..).zip(&lane.steps) {
                let OpKind::Read { .. } = step.kind else { continue };
                let Some(value) = value_of(self.plan, *step) else {
                    continue;
                };
                let Some(known) = self.known(number, value) else {
                    continue;
                };
                let Some(channel) = self.plan.channels.get(known.channel as usize) else {
                    continue;
                };
                let (kind, slots) = (channel.kind, channel.slots);
                let (meets, first) = (known.meets, known.first);
                let work = self.works.get(step.task.index()).copied().unwrap_or(u32::MAX);
                let write = self.writer(value);
                if write == u32::MAX || work == u32::MAX {
                    continue;
                }
                match (meets && first == Some(node), overlap) {
                    // The transfer begins when both are there; whoever needs the value waits for its end.
                    (true, true) => {
                        self.edge(node, write, 0, Why::Party(value));
                        self.edge(write, work, 0, Why::Value(value, kind));
                    }
                    (true, false) => self.merge(write, node),
                    (false, _) => self.edge(write, node, 0, Why::Value(value, kind)),
                }
                self.edge(work, write, slots, Why::Slot(value, kind));
            }
        }
    }

    /// The parts of a collective: one event, or, where they are only posted, an event that waits for all of them and that
    /// every part's WRITE waits for.
    fn collectives(&mut self) {
        let plan = self.plan;
        let mut ranks: BTreeMap<CollectiveId, Vec<u32>> = BTreeMap::new();
        for (task, work) in plan.ir.tasks.iter().zip(&self.works) {
            if let Some(collective) = task.collective.filter(|_| *work != u32::MAX) {
                ranks.entry(collective).or_default().push(*work);
            }
        }
        for (collective, ranks) in ranks {
            let Some(first) = ranks.first().copied() else {
                continue;
            };
            if !plan.settings.overlap {
                ranks.iter().for_each(|rank| self.merge(first, *rank));
                continue;
            }
            let Some(node) = self.events.node(first).copied() else {
                continue;
            };
            let event = self.events.nodes.len() as u32;
            self.events.nodes.push(Node {
                collective: Some(collective),
                ..node
            });
            self.events.event.push(event);
            self.posted.insert(collective, event);
            for rank in ranks {
                let task = self
                    .events
                    .node(rank)
                    .and_then(|node| node.operation)
                    .map(|it| it.task);
                let value = node.value.unwrap_or(ValueId(u32::MAX));
                self.edge(rank, event, 0, Why::Party(value));
                if let Some(write) = task.and_then(|task| self.writes.get(task.index()).copied()) {
                    self.edge(event, write, 0, Why::Value(value, ChannelKind::Local));
                }
            }
        }
    }

    /// The outputs, and the window of unfinished executions.
    fn collection(&mut self) {
        let Some(last) = self
            .events
            .lanes
            .first()
            .and_then(|range| range.end.checked_sub(1))
        else {
            return;
        };
        for value in &self.plan.ir.outputs {
            let known = self.known(0, *value);
            let channel = known.and_then(|known| self.plan.channels.get(known.channel as usize));
            let Some(channel) = channel else { continue };
            let (kind, slots) = (channel.kind, channel.slots);
            let write = self.writer(*value);
            self.edge(write, last, 0, Why::Value(*value, kind));
            self.edge(last, write, slots, Why::Slot(*value, kind));
        }
        let submission = self.events.submission;
        self.edge(last, submission, self.plan.settings.max_inflight, Why::Window);
        self.edge(submission, submission, 1, Why::Lane);
    }

    /// The order of each lane, and the order in which its transfers run.
    fn chains(&mut self) {
        for (number, lane) in self.plan.lanes.iter().enumerate() {
            let Some(range) = self.events.lanes.get(number).cloned() else {
                continue;
            };
            if range.is_empty() {
                continue;
            }
            for node in range.start..range.end - 1 {
                self.edge(node, node + 1, 0, Why::Lane);
            }
            self.edge(range.end - 1, range.start, 1, Why::Lane);
            if self.plan.settings.overlap {
                self.transfers(number, range.start, &lane.steps);
            }
        }
    }

    fn transfers(&mut self, number: usize, begin: u32, steps: &[Operation]) {
        let mut last: Option<(u32, ValueId)> = None;
        for (node, step) in (begin..).zip(steps) {
            let Some((transfer, value)) = self.transfer(number, node, *step) else {
                continue;
            };
            if let Some((before, _)) = last
                && before != transfer
            {
                self.edge(before, transfer, 0, Why::Transfer(value, number));
            }
            last = Some((transfer, value));
        }
    }

    /// The transfer that a step takes part in, as the node that stands for it, and what it moves.
    fn transfer(&self, number: usize, node: u32, step: Operation) -> Option<(u32, ValueId)> {
        match step.kind {
            OpKind::Read { .. } => {
                let value = value_of(self.plan, step)?;
                let known = self.known(number, value)?;
                (known.meets && known.first == Some(node)).then(|| (self.writer(value), value))
            }
            OpKind::Write => Some((node, (*self.met.get(step.task.index())?)?)),
            OpKind::Collective => {
                let collective = self.plan.ir.task(step.task)?.collective?;
                Some((*self.posted.get(&collective)?, value_of(self.plan, step)?))
            }
            OpKind::Compute => None,
        }
    }
}

/// What a READ reads, or a COLLECTIVE first takes.
fn value_of(plan: &Plan, step: Operation) -> Option<ValueId> {
    match step.kind {
        OpKind::Collective => {
            let first = GraphIr::reads(plan.ir.task(step.task)?).next();
            first.map(|(_, value)| value)
        }
        _ => plan.ir.read_by(step),
    }
}
