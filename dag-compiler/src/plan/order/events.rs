//! OrderEvents: groups of operations that happen at one moment of the global order.
//!
//! - the COMPUTE of a task with the READs that only wait for a buffer, and with its WRITE unless that WRITE is a
//!   rendezvous;
//! - a WRITE that is a rendezvous, with the READs that meet it;
//! - the COLLECTIVEs of one collective, with their READs; the WRITE of each rank is an event of its own.

use super::Sites;
use crate::ir::{EdgeKind, GraphIr, OpKind, OperationGraph};
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

/// A dependence between events: `from` comes before `to`.
pub(super) struct Dependence {
    pub(super) from: u32,
    pub(super) to: u32,
    /// The time between the end of `from` and the earliest begin of `to`, in nanoseconds.
    pub(super) after_ns: u64,
}

/// The events of a graph.
pub(super) struct OrderEvents {
    pub(super) events: Vec<OrderEvent>,
    pub(super) edges: Vec<Dependence>,
}

/// The assignment of operations to events, while it is made.
struct Grouping<'a> {
    sites: &'a Sites,
    events: Vec<OrderEvent>,
    /// By operation: its event; `u32::MAX` if the event is not known yet.
    of: Vec<u32>,
}

impl Grouping<'_> {
    fn event(&mut self, gang: bool, ns: u64) -> u32 {
        self.events.push(OrderEvent {
            gang,
            ns,
            ..OrderEvent::default()
        });
        self.events.len() as u32 - 1
    }

    fn join(&mut self, operation: u32, event: u32) -> Option<()> {
        *self.of.get_mut(operation as usize)? = event;
        let (_, lane) = *self.sites.places.get(operation as usize)?;
        self.events.get_mut(event as usize)?.join(operation, lane);
        Some(())
    }
}

impl OrderEvents {
    /// Groups the operations of a graph; `None` for edges between operations that do not exist.
    pub(super) fn of(graph: &GraphIr, operations: &OperationGraph, sites: &Sites) -> Option<Self> {
        let count = operations.operations.len();
        let mut met = vec![false; count];
        for edge in operations
            .edges
            .iter()
            .filter(|edge| edge.kind == EdgeKind::Rendezvous)
        {
            *met.get_mut(edge.from as usize)? = true;
            *met.get_mut(edge.to as usize)? = true;
        }
        let mut group = Grouping {
            sites,
            events: Vec::with_capacity(count / 3 + 1),
            of: vec![u32::MAX; count],
        };
        let ns = |operation: u32| {
            let task = operations.operations.get(operation as usize).map(|it| it.task);
            task.and_then(|task| graph.task(task)).map_or(0, cost::work_ns)
        };
        for ranks in &operations.collectives {
            let event = group.event(true, ranks.iter().map(|rank| ns(*rank)).max().unwrap_or_default());
            for rank in ranks {
                *group.of.get_mut(*rank as usize)? = event;
            }
        }
        let mut next = 0;
        for task in operations.operations.chunk_by(|one, next| one.task == next.task) {
            let first = next;
            next += task.len() as u32;
            let (work, write) = (next.checked_sub(2)?, next - 1);
            let collective = Some(*group.of.get(work as usize)?).filter(|event| *event != u32::MAX);
            let event = collective.unwrap_or_else(|| group.event(false, ns(work)));
            for read in first..work {
                if !*met.get(read as usize)? {
                    group.join(read, event)?;
                }
            }
            group.join(work, event)?;
            let meets = *met.get(write as usize)?;
            let event = if meets || collective.is_some() {
                group.event(meets, 0)
            } else {
                event
            };
            group.join(write, event)?;
        }
        for edge in operations
            .edges
            .iter()
            .filter(|edge| edge.kind == EdgeKind::Rendezvous)
        {
            group.join(edge.to, *group.of.get(edge.from as usize)?)?;
        }
        let Grouping { mut events, of, .. } = group;
        // The READs of all ranks come before the parts of all ranks, because the parts are one moment.
        for event in events.iter_mut().take(operations.collectives.len()) {
            event.operations.sort_by_key(|it| {
                let kind = operations.operations.get(*it as usize).map(|it| it.kind);
                !matches!(kind, Some(OpKind::Read { .. }))
            });
        }
        let mut edges = Vec::with_capacity(operations.edges.len());
        for edge in &operations.edges {
            let (from, to) = (*of.get(edge.from as usize)?, *of.get(edge.to as usize)?);
            if from != to {
                let (here, there) = (
                    *sites.places.get(edge.from as usize)?,
                    *sites.places.get(edge.to as usize)?,
                );
                let after_ns = if edge.kind == EdgeKind::Data {
                    cost::hop_between(here, there)
                } else {
                    0
                };
                edges.push(Dependence { from, to, after_ns });
            }
        }
        Some(OrderEvents { events, edges })
    }
}
