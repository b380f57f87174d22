//! Events: groups of operations that happen at one moment of the global order.
//!
//! - the COMPUTE of a task with the READs that only wait for a buffer, and with its WRITE unless that WRITE is a
//!   rendezvous;
//! - a WRITE that is a rendezvous, with the READs that meet it;
//! - the COLLECTIVEs of one collective, with their READs; the WRITE of each rank is an event of its own.

use petgraph::graph::DiGraph;

use super::Sites;
use crate::ir::{EdgeKind, GraphIr, OpKind, OperationEdge, OperationGraph};
use crate::plan::cost;

/// One event.
#[derive(Default)]
pub(super) struct OrderEvent {
    /// True for a transfer or a collective: several lanes take part at once.
    pub(super) gang: bool,
    /// The event's operations, in the order in which they stand.
    pub(super) operations: Vec<u32>,
    /// The number of the first operation's lane.
    lane: Option<u32>,
    /// The numbers of the other lanes that take part.
    others: Vec<u32>,
    /// The duration of the event, in nanoseconds.
    pub(super) ns: u64,
}

impl OrderEvent {
    /// The numbers of the lanes that take part.
    pub(super) fn lanes(&self) -> impl Iterator<Item = u32> {
        self.lane.into_iter().chain(self.others.iter().copied())
    }

    fn join(&mut self, operation: u32, lane: u32) {
        self.operations.push(operation);
        if *self.lane.get_or_insert(lane) != lane && !self.others.contains(&lane) {
            self.others.push(lane);
        }
    }
}

/// The events of a graph. An edge leads from an event to one that comes later; its weight is the time between the end of
/// the first and the earliest begin of the second, in nanoseconds.
pub(super) type OrderEvents = DiGraph<OrderEvent, u64>;

/// Groups the operations of a graph; `None` for edges between operations that do not exist.
pub(super) fn events(graph: &GraphIr, operations: &OperationGraph, sites: &Sites) -> Option<OrderEvents> {
    let count = operations.operations.len();
    let mut grouping = Grouping {
        graph,
        operations,
        sites,
        events: OrderEvents::with_capacity(count / 3 + 1, operations.edges.len()),
        of: vec![u32::MAX; count],
        met: vec![false; count],
    };
    grouping.collectives()?;
    grouping.tasks()?;
    grouping.transfers()?;
    grouping.parts_together();
    grouping.edges()?;
    Some(grouping.events)
}

/// The assignment of operations to events, while it is made.
struct Grouping<'a> {
    graph: &'a GraphIr,
    operations: &'a OperationGraph,
    sites: &'a Sites,
    events: OrderEvents,
    /// By operation: its event; `u32::MAX` if the event is not known yet.
    of: Vec<u32>,
    /// By operation: whether it takes part in a rendezvous.
    met: Vec<bool>,
}

impl<'a> Grouping<'a> {
    fn event(&mut self, gang: bool, ns: u64) -> u32 {
        let event = OrderEvent {
            gang,
            ns,
            ..OrderEvent::default()
        };
        self.events.add_node(event).index() as u32
    }

    fn join(&mut self, operation: u32, event: u32) -> Option<()> {
        *self.of.get_mut(operation as usize)? = event;
        let (_, lane) = *self.sites.places.get(operation as usize)?;
        self.events.node_weight_mut(event.into())?.join(operation, lane);
        Some(())
    }

    /// The assumed duration of an operation's work.
    fn ns(&self, operation: u32) -> u64 {
        let operation = self.operations.operations.get(operation as usize);
        let task = operation.and_then(|it| self.graph.task(it.task));
        task.map_or(0, cost::work_ns)
    }

    /// Makes an event of each collective.
    fn collectives(&mut self) -> Option<()> {
        for ranks in &self.operations.collectives {
            let longest = ranks.iter().map(|rank| self.ns(*rank)).max();
            let event = self.event(true, longest.unwrap_or_default());
            for rank in ranks {
                *self.of.get_mut(*rank as usize)? = event;
            }
        }
        Some(())
    }

    fn rendezvous(&self) -> impl Iterator<Item = &'a OperationEdge> + use<'a> {
        let edges = self.operations.edges.iter();
        edges.filter(|edge| edge.kind == EdgeKind::Rendezvous)
    }

    /// Assigns the operations of every task, except the READs of transfers.
    fn tasks(&mut self) -> Option<()> {
        for edge in self.rendezvous() {
            *self.met.get_mut(edge.from as usize)? = true;
            *self.met.get_mut(edge.to as usize)? = true;
        }
        let mut next = 0;
        let operations = &self.operations.operations;
        for task in operations.chunk_by(|one, next| one.task == next.task) {
            let first = next;
            next += task.len() as u32;
            let (work, write) = (next.checked_sub(2)?, next - 1);
            let collective = Some(*self.of.get(work as usize)?).filter(|event| *event != u32::MAX);
            let event = collective.unwrap_or_else(|| self.event(false, self.ns(work)));
            for read in first..work {
                if !*self.met.get(read as usize)? {
                    self.join(read, event)?;
                }
            }
            self.join(work, event)?;
            let meets = *self.met.get(write as usize)?;
            let alone = meets || collective.is_some();
            let event = if alone { self.event(meets, 0) } else { event };
            self.join(write, event)?;
        }
        Some(())
    }

    /// Assigns the READs of transfers to the events of their WRITEs.
    fn transfers(&mut self) -> Option<()> {
        for edge in self.rendezvous() {
            self.join(edge.to, *self.of.get(edge.from as usize)?)?;
        }
        Some(())
    }

    /// Puts the READs of all ranks before the parts of all ranks, because the parts are one moment.
    fn parts_together(&mut self) {
        let kinds = &self.operations.operations;
        let collectives = self.operations.collectives.len();
        for event in self.events.node_weights_mut().take(collectives) {
            event.operations.sort_by_key(|it| {
                let kind = kinds.get(*it as usize).map(|it| it.kind);
                !matches!(kind, Some(OpKind::Read { .. }))
            });
        }
    }

    fn edges(&mut self) -> Option<()> {
        for edge in &self.operations.edges {
            let (from, to) = (edge.from as usize, edge.to as usize);
            let (one, other) = (*self.of.get(from)?, *self.of.get(to)?);
            if one != other {
                let places = (*self.sites.places.get(from)?, *self.sites.places.get(to)?);
                let data = edge.kind == EdgeKind::Data;
                let after_ns = if data {
                    cost::hop_between(places.0, places.1)
                } else {
                    0
                };
                self.events
                    .try_add_edge(one.into(), other.into(), after_ns)
                    .ok()?;
            }
        }
        Some(())
    }
}
