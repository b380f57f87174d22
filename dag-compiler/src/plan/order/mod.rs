//! Ordering: one global linear order of all operations.
//!
//! List scheduling over a planned time line. The event that can begin earliest goes next; among those, the event with
//! the longest path behind it to the end of the graph (the critical path, from measured or declared durations); among
//! those, the event that was bound first. Every lane's projection of any linear order is free of deadlock, so durations
//! decide only how good the order is, never whether it is right. Deterministic, and O((V + E) log V): [`Order::steps`]
//! counts the operations that are done once for each V and E, each at the price of a heap access.
//!
//! - `ORDER-1` an event is placed after all events that it waits for, so the order is a linear extension.
//! - `ORDER-2` the operations of one event stand together: a rendezvous, or a collective, is one moment.

mod events;

mod timeline;

use std::cmp::Reverse;

use selvedge_core::{Address, IdMap};

use crate::ir::{GraphIr, OperationGraph, TaskId};

/// A total order among events that can begin at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// The time from the event's begin to the end of the graph, in nanoseconds; the longest goes first.
    pub critical_ns: Reverse<u64>,
    /// The task, in bind order.
    pub task: TaskId,
    /// The first of the event's operations.
    pub operation: u32,
}

/// A linear order, with the moments at which its operations are planned to begin and end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The indices of the operations, in this order.
    pub operations: Vec<u32>,
    /// The time when each operation begins, in nanoseconds from the submission, by operation index.
    pub start_ns: Vec<u64>,
    /// The time when each operation ends, in the same form.
    pub end_ns: Vec<u64>,
    /// The number of times that an event was taken from a heap or an edge was followed while the order was made. It is
    /// at most a few times the number of operations and edges, for any graph.
    pub steps: u64,
}

/// Orders all operations; `None` if their edges have a cycle. With `overlap` a transfer or a collective leaves its
/// lanes free.
pub fn order(graph: &GraphIr, operations: &OperationGraph, overlap: bool) -> Option<Order> {
    let sites = Sites::of(graph, operations);
    let events = events::events(graph, operations, &sites)?;
    timeline::run(operations, &events, sites.lanes, overlap)
}

/// The places where operations run, as small numbers.
struct Sites {
    /// By operation: its process and its lane.
    places: Vec<(u32, u32)>,
    lanes: usize,
}

impl Sites {
    fn of(graph: &GraphIr, operations: &OperationGraph) -> Self {
        let places = graph.places();
        let mut numbers: IdMap<Address, u32> = IdMap::new();
        for place in places.values() {
            let next = numbers.len() as u32;
            numbers.get_or_insert(*place, next);
        }
        let by_task: Vec<(u32, u32)> = graph
            .tasks
            .iter()
            .map(|task| {
                let place = places.get(&task.actor).copied().unwrap_or(Address::DRIVER);
                (place.process.0, numbers.get(&place).copied().unwrap_or_default())
            })
            .collect();
        let place = |task: TaskId| by_task.get(task.index()).copied().unwrap_or_default();
        Sites {
            places: operations.operations.iter().map(|it| place(it.task)).collect(),
            lanes: numbers.len().max(1),
        }
    }
}
