//! One global linear order of all operations.
//!
//! List scheduling over a planned time line: whichever event can begin earliest goes next, among those the one with the
//! longest way to the end of the graph behind it (the critical path, from measured or declared durations), then the one
//! bound first. Every lane's projection of a linear order is free of deadlock, whatever the order, so time
//! decides only what is good, never what is right. Deterministic, and O((V + E) log V): [`Order::steps`] counts what is done
//! once for each V and E, each time at the price of a heap.
//!
//! - `ORDER-1` an event is placed after everything it waits for, so the order is a linear extension.
//! - `ORDER-2` operations of one event stand together: a rendezvous, or a collective, is one moment.

mod events;

mod timeline;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use selvedge_core::{LaneId, ProcessId};

use crate::ir::{GraphIr, OperationGraph, TaskId};
use events::Events;

/// What decides among events that can begin at the same moment: a total order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// Nanoseconds from the event's begin to the end of the graph; the longest goes first.
    pub critical_ns: Reverse<u64>,
    /// The task, in bind order.
    pub task: TaskId,
    /// The first of its operations.
    pub operation: u32,
}

/// A linear order, with the moments at which its operations are planned to begin and end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The operations by index.
    pub operations: Vec<u32>,
    /// When each operation begins, in nanoseconds from the submission, by index.
    pub start_ns: Vec<u64>,
    /// When each operation ends.
    pub end_ns: Vec<u64>,
    /// How often an event was taken from a heap or an edge followed while the order was made: at most a few times the number of
    /// operations and edges, whatever the graph.
    pub steps: u64,
}

/// Orders all operations; `None` if their edges have a cycle. With `overlap` a transfer or a collective leaves its lanes
/// free.
pub fn order(graph: &GraphIr, operations: &OperationGraph, overlap: bool) -> Option<Order> {
    let sites = Sites::of(graph, operations);
    let events = Events::of(graph, operations, &sites)?;
    timeline::run(operations, &events, sites.lanes, overlap)
}

/// Where each operation runs, in small numbers.
struct Sites {
    /// By operation: its process, its lane.
    places: Vec<(u32, u32)>,
    lanes: usize,
}

impl Sites {
    fn of(graph: &GraphIr, operations: &OperationGraph) -> Self {
        let places = graph.places();
        let mut numbers: BTreeMap<LaneId, u32> = BTreeMap::new();
        for (_, lane) in places.values() {
            let next = numbers.len() as u32;
            numbers.entry(*lane).or_insert(next);
        }
        let nowhere = (ProcessId(0), LaneId(0));
        let by_task: Vec<(u32, u32)> = graph
            .tasks
            .iter()
            .map(|task| {
                let (process, lane) = places.get(&task.actor).copied().unwrap_or(nowhere);
                (process.0, numbers.get(&lane).copied().unwrap_or_default())
            })
            .collect();
        let place = |task: TaskId| by_task.get(task.index()).copied().unwrap_or_default();
        Sites {
            places: operations.operations.iter().map(|it| place(it.task)).collect(),
            lanes: numbers.len().max(1),
        }
    }
}
