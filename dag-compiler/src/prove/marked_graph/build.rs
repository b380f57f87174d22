//! The construction of a marked graph from a well-formed plan.

use petgraph::unionfind::UnionFind;
use selvedge_core::{Address, IdMap};

use super::{MarkedEdge, MarkedGraph, Node, Why};
use crate::ir::{
    ChannelKind, ChannelPlan, CollectiveId, GraphIr, LaneValue, OpKind, Operation, Plan, ValueId, Writer,
};

/// A graph under construction. Its methods return `None` if the plan is not well-formed.
struct Building<'a> {
    plan: &'a Plan,
    graph: MarkedGraph,
    /// By task: the node of its WRITE and the node of its work.
    writes: Vec<u32>,
    works: Vec<u32>,
    /// The READs that take part in a rendezvous, each with its value, sorted by node.
    receives: Vec<(u32, ValueId)>,
    /// By task: a value of the task that is passed by rendezvous.
    met: Vec<Option<ValueId>>,
    /// The completions of collectives that are only posted.
    posted: IdMap<CollectiveId, u32>,
    /// Pairs of nodes that are one event.
    same: Vec<(u32, u32)>,
}

/// A value as the lane at hand reads it.
#[derive(Clone, Copy)]
struct Delivery {
    kind: ChannelKind,
    slots: u32,
    /// True until the READ that takes part in a rendezvous has been seen.
    meets: bool,
}

impl Delivery {
    fn of(value: &LaneValue, channel: &ChannelPlan) -> Self {
        Delivery {
            kind: channel.kind,
            slots: channel.slots,
            meets: value.meets,
        }
    }
}

impl MarkedGraph {
    /// The graph of a plan; `None` for a plan that is not well-formed.
    pub(in crate::prove) fn of(plan: &Plan) -> Option<Self> {
        let mut building = Building::nodes(plan)?;
        building.reads()?;
        building.collectives()?;
        building.collection()?;
        building.chains()?;
        let Building { mut graph, same, .. } = building;
        let mut events = UnionFind::<u32>::new(graph.nodes.len());
        for (one, other) in same {
            events.try_union(one, other).ok()?;
        }
        graph.event = events.into_labeling();
        let count = graph.nodes.len() as u32;
        let exists = |edge: &MarkedEdge| edge.from < count && edge.to < count;
        graph.edges.iter().all(exists).then_some(graph)
    }
}

impl<'a> Building<'a> {
    /// Makes a node for every step of every lane, for the collection, and for the submission.
    fn nodes(plan: &'a Plan) -> Option<Self> {
        let tasks = plan.ir.tasks.len();
        let steps: usize = plan.lanes.iter().map(|lane| lane.steps.len()).sum();
        let mut building = Building {
            plan,
            graph: MarkedGraph {
                nodes: Vec::with_capacity(steps + 2),
                event: Vec::new(),
                edges: Vec::with_capacity(steps * 2),
                lanes: Vec::with_capacity(plan.lanes.len()),
                submission: 0,
            },
            writes: vec![u32::MAX; tasks],
            works: vec![u32::MAX; tasks],
            receives: Vec::new(),
            met: Vec::new(),
            posted: IdMap::new(),
            same: Vec::new(),
        };
        for lane in &plan.lanes {
            let begin = building.graph.nodes.len() as u32;
            let party = Writer::Lane(lane.address);
            for step in &lane.steps {
                building.step(party, *step)?;
            }
            if lane.address == Address::DRIVER {
                building.graph.nodes.push(end(party));
            }
            let nodes = begin..building.graph.nodes.len() as u32;
            building.graph.lanes.push(nodes);
        }
        building.graph.submission = building.graph.nodes.len() as u32;
        building.graph.nodes.push(end(Writer::Submit));
        Some(building)
    }

    fn step(&mut self, party: Writer, step: Operation) -> Option<()> {
        let node = self.graph.nodes.len() as u32;
        match step.kind {
            OpKind::Read { .. } => {}
            OpKind::Compute | OpKind::Collective => *self.works.get_mut(step.task.index())? = node,
            OpKind::Write => *self.writes.get_mut(step.task.index())? = node,
        }
        self.graph.nodes.push(Node {
            operation: Some(step),
            value: value_of(self.plan, step),
            ..end(party)
        });
        Some(())
    }

    fn edge(&mut self, from: u32, to: u32, tokens: u32, why: Why) {
        let edge = MarkedEdge {
            from,
            to,
            tokens,
            why,
        };
        self.graph.edges.push(edge);
    }

    /// The node that writes a value.
    fn writer(&self, value: ValueId) -> Option<u32> {
        match self.plan.ir.maker(value) {
            Some(task) => self.writes.get(task.index()).copied(),
            None => Some(self.graph.submission),
        }
    }

    /// Adds the edges of every READ.
    fn reads(&mut self) -> Option<()> {
        let plan = self.plan;
        // By value. A lane reads only values that are listed for it, so entries of other lanes may stay.
        let mut deliveries: Vec<Option<Delivery>> = vec![None; plan.ir.values.len()];
        for (number, lane) in plan.lanes.iter().enumerate() {
            for value in &lane.values {
                let delivery = Delivery::of(value, plan.channels.get(value.channel.0 as usize)?);
                *deliveries.get_mut(value.value.index())? = Some(delivery);
            }
            let begin = self.graph.lanes.get(number)?.start;
            for (node, step) in (begin..).zip(&lane.steps) {
                if let OpKind::Read { .. } = step.kind {
                    let value = self.graph.node(node)?.value?;
                    let delivery = deliveries.get_mut(value.index())?.as_mut()?;
                    self.read(node, *self.works.get(step.task.index())?, value, delivery)?;
                }
            }
        }
        self.met = vec![None; plan.ir.tasks.len()];
        for (_, value) in &self.receives {
            let task = plan.ir.maker(*value)?;
            *self.met.get_mut(task.index())? = Some(*value);
        }
        Some(())
    }

    /// Adds the edges of a READ: for the value that it waits for, and for the release of its slot.
    fn read(&mut self, node: u32, work: u32, value: ValueId, delivery: &mut Delivery) -> Option<()> {
        let (kind, write) = (delivery.kind, self.writer(value)?);
        let meets = std::mem::take(&mut delivery.meets);
        if meets {
            self.receives.push((node, value));
        }
        match (meets, self.plan.settings.overlap) {
            // The transfer begins when both sides have arrived; the work that needs the value waits for the end of the
            // transfer.
            (true, true) => {
                self.edge(node, write, 0, Why::Party(value));
                self.edge(write, work, 0, Why::Value(value, kind));
            }
            (true, false) => self.same.push((write, node)),
            (false, _) => self.edge(write, node, 0, Why::Value(value, kind)),
        }
        self.edge(work, write, delivery.slots, Why::Slot(value, kind));
        Some(())
    }

    /// Connects the parts of each collective. They are one event; or, if parts are only posted, a completion waits for
    /// all of them, and every part's WRITE waits for the completion.
    fn collectives(&mut self) -> Option<()> {
        let mut ranks: IdMap<CollectiveId, Vec<(u32, u32)>> = IdMap::new();
        for (task, part) in self.plan.ir.tasks.iter().zip(self.works.iter().zip(&self.writes)) {
            if let Some(collective) = task.collective {
                ranks.push_to(collective, (*part.0, *part.1));
            }
        }
        for (collective, ranks) in ranks {
            let (first, _) = *ranks.first()?;
            if !self.plan.settings.overlap {
                self.same.extend(ranks.iter().map(|(work, _)| (first, *work)));
                continue;
            }
            let node = *self.graph.node(first)?;
            let completion = self.graph.nodes.len() as u32;
            self.graph.nodes.push(Node {
                collective: Some(collective),
                ..node
            });
            self.posted.insert(collective, completion);
            for (work, write) in ranks {
                self.edge(work, completion, 0, Why::Party(node.value?));
                self.edge(completion, write, 0, Why::Value(node.value?, ChannelKind::Local));
            }
        }
        Some(())
    }

    /// Adds the edges of the outputs, and of the limit of unfinished executions.
    fn collection(&mut self) -> Option<()> {
        let plan = self.plan;
        let last = self.graph.lanes.first()?.end.checked_sub(1)?;
        let driver: IdMap<ValueId, &LaneValue> = plan
            .lanes
            .first()?
            .values
            .iter()
            .map(|it| (it.value, it))
            .collect();
        for value in &plan.ir.outputs {
            let channel = plan.channels.get(driver.get(value)?.channel.0 as usize)?;
            let write = self.writer(*value)?;
            self.edge(write, last, 0, Why::Value(*value, channel.kind));
            self.edge(last, write, channel.slots, Why::Slot(*value, channel.kind));
        }
        let submission = self.graph.submission;
        self.edge(last, submission, plan.settings.max_inflight, Why::Window);
        self.edge(submission, submission, 1, Why::Lane);
        Some(())
    }

    /// Adds the order of each lane, and the order in which its transfers run.
    fn chains(&mut self) -> Option<()> {
        for (number, lane) in self.plan.lanes.iter().enumerate() {
            let nodes = self.graph.lanes.get(number)?.clone();
            if nodes.is_empty() {
                continue;
            }
            for node in nodes.start..nodes.end - 1 {
                self.edge(node, node + 1, 0, Why::Lane);
            }
            self.edge(nodes.end - 1, nodes.start, 1, Why::Lane);
            if self.plan.settings.overlap {
                self.transfers(number, nodes.start, &lane.steps)?;
            }
        }
        Some(())
    }

    fn transfers(&mut self, number: usize, begin: u32, steps: &[Operation]) -> Option<()> {
        let mut last: Option<u32> = None;
        for (node, step) in (begin..).zip(steps) {
            if let Some((transfer, value)) = self.transfer(node, *step)? {
                match last.replace(transfer) {
                    Some(before) if before != transfer => {
                        self.edge(before, transfer, 0, Why::Transfer(value, number));
                    }
                    _ => {}
                }
            }
        }
        Some(())
    }

    /// The transfer that a step takes part in, as the node that stands for it, and the value that it moves.
    fn transfer(&self, node: u32, step: Operation) -> Option<Option<(u32, ValueId)>> {
        Some(match step.kind {
            OpKind::Read { .. } => {
                let found = self.receives.binary_search_by_key(&node, |(node, _)| *node);
                match found.ok().and_then(|at| self.receives.get(at)) {
                    Some((_, value)) => Some((self.writer(*value)?, *value)),
                    None => None,
                }
            }
            OpKind::Write => self.met.get(step.task.index())?.map(|value| (node, value)),
            OpKind::Collective => {
                let collective = self.plan.ir.task(step.task)?.collective?;
                Some((*self.posted.get(&collective)?, self.graph.node(node)?.value?))
            }
            OpKind::Compute => None,
        })
    }
}

/// An end of the graph: a node without an operation.
fn end(party: Writer) -> Node {
    Node {
        party,
        operation: None,
        value: None,
        collective: None,
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
