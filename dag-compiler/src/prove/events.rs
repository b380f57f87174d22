//! A finished plan as a marked graph: steps, the events that they form, and the waits between them.
//!
//! Every step of every lane is a node; the submission and the collection of the outputs are nodes too. Steps that
//! happen at one moment are one event. An edge `from → to` with `tokens` means that `to` in execution i waits for
//! `from` in execution i - tokens.

use std::collections::BTreeMap;
use std::ops::Range;

use selvedge_core::LaneId;

use crate::ir::{ChannelKind, CollectiveId, GraphIr, OpKind, Operation, Plan, ValueId, Writer};
use crate::plan::cost;

/// A step of a lane, or an end of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) party: Writer,
    /// The step; `None` for the submission and the collection.
    pub(super) operation: Option<Operation>,
    /// The value that a READ reads, or that a COLLECTIVE takes first.
    pub(super) value: Option<ValueId>,
    /// The collective that the node completes, if the node is the completion of a posted collective.
    pub(super) collective: Option<CollectiveId>,
}

/// The reason why one step waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The steps stand in this order on a lane.
    Lane,
    /// A value has to arrive, by this kind of channel.
    Value(ValueId, ChannelKind),
    /// Another party of a transfer or a collective has to arrive.
    Party(ValueId),
    /// A slot of this kind of channel has to be released.
    Slot(ValueId, ChannelKind),
    /// The transfers of a lane, which is given by its number, run in their order.
    Transfer(ValueId, usize),
    /// The number of unfinished executions is limited.
    Window,
}

impl Why {
    /// The time that a value takes across its channel, in nanoseconds; 0 for all other reasons.
    pub(super) fn hop_ns(self) -> u64 {
        match self {
            Why::Value(_, kind) => cost::hop_ns(kind),
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedEdge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) tokens: u32,
    pub(super) why: Why,
}

/// The marked graph of a plan.
pub(super) struct MarkedGraph {
    pub(super) nodes: Vec<Node>,
    /// By node: a node of the same event with a lower number, or the node itself. The first node of an event stands for
    /// the event.
    event: Vec<u32>,
    pub(super) edges: Vec<MarkedEdge>,
    /// The nodes of each lane, in order; on the driver's lane the collection is the last. The completion of a posted
    /// collective is a node on no lane.
    pub(super) lanes: Vec<Range<u32>>,
    submission: u32,
}

/// A value as one lane sees it.
#[derive(Default)]
struct Known {
    channel: u32,
    meets: bool,
    /// The first READ of the value on the lane.
    first: Option<u32>,
}

struct Building<'a> {
    plan: &'a Plan,
    events: MarkedGraph,
    /// By lane: its values, sorted by value.
    known: Vec<Vec<(ValueId, Known)>>,
    /// By task: its WRITE in `writes`, its work in `works`.
    writes: Vec<u32>,
    works: Vec<u32>,
    /// By task: a value of the task that is passed by rendezvous.
    met: Vec<Option<ValueId>>,
    /// The completions of collectives that are only posted.
    posted: BTreeMap<CollectiveId, u32>,
}

impl MarkedGraph {
    /// The graph of a well-formed plan.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut building = Building::nodes(plan);
        building.reads();
        building.collectives();
        building.collection();
        building.chains();
        let mut events = building.events;
        // The first node of an event has the lowest number, so one pass in order finds it for all nodes.
        for node in 0..events.event.len() as u32 {
            let first = events.event_of(node);
            if let Some(place) = events.event.get_mut(node as usize) {
                *place = first;
            }
        }
        events
    }

    /// The node that stands for the event of `node`.
    pub(super) fn event_of(&self, node: u32) -> u32 {
        let mut node = node;
        while let Some(earlier) = self.event.get(node as usize).copied().filter(|it| *it != node) {
            node = earlier;
        }
        node
    }

    /// The duration of each event, by the node that stands for the event. A collective that is only posted takes its
    /// time at its completion; its parts take none.
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

    /// Whether a node is a step of a lane or an end of the graph; the completion of a posted collective is neither.
    pub(super) fn is_step(&self, node: u32) -> bool {
        node <= self.submission
    }

    /// The node with this number.
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
            if lane.lane == LaneId::DRIVER {
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
            events: MarkedGraph {
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

    /// The entry of a value on a lane, which is given by its number.
    fn known(&self, lane: usize, value: ValueId) -> Option<&Known> {
        let known = self.known.get(lane)?;
        let place = known.binary_search_by_key(&value, |(it, _)| *it).ok()?;
        known.get(place).map(|(_, known)| known)
    }

    fn edge(&mut self, from: u32, to: u32, tokens: u32, why: Why) {
        self.events.edges.push(MarkedEdge {
            from,
            to,
            tokens,
            why,
        });
    }

    /// Makes two nodes one event; the lower number stands for both.
    fn merge(&mut self, one: u32, other: u32) {
        let (one, other) = (self.events.event_of(one), self.events.event_of(other));
        let (keep, gone) = (one.min(other), one.max(other));
        if let Some(place) = self.events.event.get_mut(gone as usize) {
            *place = keep;
        }
    }

    /// The node that writes a value.
    fn writer(&self, value: ValueId) -> u32 {
        match self.plan.ir.maker(value) {
            Some(task) => self.writes.get(task.index()).copied().unwrap_or(u32::MAX),
            None => self.events.submission,
        }
    }

    /// Adds the edges of every READ: for the value that it waits for, and for the release of its slot.
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
                    // The transfer begins when both sides have arrived; the work that needs the value waits for the end
                    // of the transfer.
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

    /// Connects the parts of each collective. They are one event; or, if parts are only posted, a completion waits for
    /// all of them, and every part's WRITE waits for the completion.
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

    /// Adds the edges of the outputs, and of the limit of unfinished executions.
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

    /// Adds the order of each lane, and the order in which its transfers run.
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

    /// The transfer that a step takes part in, as the node that stands for it, and the value that it moves.
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

/// The value that a READ reads, or that a COLLECTIVE takes first.
fn value_of(plan: &Plan, step: Operation) -> Option<ValueId> {
    match step.kind {
        OpKind::Collective => {
            let first = GraphIr::reads(plan.ir.task(step.task)?).next();
            first.map(|(_, value)| value)
        }
        _ => plan.ir.read_by(step),
    }
}
