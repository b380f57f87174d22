//! A finished plan as a marked graph: steps, the events that they form, and the waits between them.
//!
//! Every step of every lane is a node; the submission and the collection of the outputs are nodes too. Steps that
//! happen at one moment are one event. An edge `from → to` with `tokens` means that `to` in execution i waits for
//! `from` in execution i - tokens.

mod build;

use std::ops::Range;

use petgraph::graph::DiGraph;

use crate::ir::{ChannelKind, CollectiveId, OpKind, Operation, Plan, ValueId, Writer};
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
    /// By node: the node that stands for its event.
    event: Vec<u32>,
    pub(super) edges: Vec<MarkedEdge>,
    /// The nodes of each lane, in order; on the driver's lane the collection is the last. The completion of a posted
    /// collective is a node on no lane.
    pub(super) lanes: Vec<Range<u32>>,
    submission: u32,
}

/// The events of a marked graph and the edges between them that have no token. A node that does not stand for its event
/// has no edges. The weight of an edge is its position in [`MarkedGraph::edges`].
pub(super) type Waits = DiGraph<(), u32>;

impl MarkedGraph {
    /// The node that stands for the event of `node`.
    pub(super) fn event_of(&self, node: u32) -> u32 {
        self.event.get(node as usize).copied().unwrap_or(node)
    }

    /// The nodes that stand for an event.
    pub(super) fn events(&self) -> impl Iterator<Item = u32> {
        let events = (0u32..).zip(&self.event);
        events
            .filter(|(node, event)| node == *event)
            .map(|(node, _)| node)
    }

    /// The edges without a token between different events; steps of one event do not wait for each other.
    pub(super) fn waits(&self) -> Waits {
        let mut waits = Waits::with_capacity(self.nodes.len(), self.edges.len());
        for _ in &self.nodes {
            waits.add_node(());
        }
        for (index, edge) in (0u32..).zip(&self.edges) {
            let (from, to) = (self.event_of(edge.from), self.event_of(edge.to));
            if edge.tokens == 0 && from != to {
                waits.add_edge(from.into(), to.into(), index);
            }
        }
        waits
    }

    /// The edge that is the weight of an edge of [`waits`](Self::waits).
    pub(super) fn edge(&self, index: u32) -> Option<&MarkedEdge> {
        self.edges.get(index as usize)
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
