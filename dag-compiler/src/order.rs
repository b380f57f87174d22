//! One global linear order of all operations.
//!
//! Kahn's algorithm with a heap: among the operations whose predecessors are all placed, the one of the earliest
//! task goes next. Without accelerators every lane so gets plain READ … COMPUTE WRITE in bind order (GRAPH-16), and
//! any projection of a linear order onto lanes is free of deadlock (GRAPH-23). O((V + E) log V), deterministic.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ir::{OperationGraph, TaskId};

/// What decides among ready operations: a total order (GRAPH-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// The task, in bind order.
    pub task: TaskId,
    /// The operation within the task.
    pub operation: u32,
}

/// The operations by index, in an order that respects every edge; `None` if the edges have a cycle.
pub fn order(graph: &OperationGraph) -> Option<Vec<u32>> {
    let count = graph.operations.len();
    let mut waiting_for = vec![0u32; count];
    let mut starts = vec![0usize; count + 1];
    for edge in &graph.edges {
        *waiting_for.get_mut(edge.to as usize)? += 1;
        *starts.get_mut(edge.from as usize + 1)? += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut successors = vec![0u32; graph.edges.len()];
    let mut next = starts.clone();
    for edge in &graph.edges {
        let place = next.get_mut(edge.from as usize)?;
        *successors.get_mut(*place)? = edge.to;
        *place += 1;
    }
    let key = |index: u32| -> Option<Reverse<Priority>> {
        let operation = graph.operations.get(index as usize)?;
        Some(Reverse(Priority {
            task: operation.task,
            operation: index,
        }))
    };
    let mut ready: BinaryHeap<Reverse<Priority>> = waiting_for
        .iter()
        .enumerate()
        .filter(|(_, count)| **count == 0)
        .filter_map(|(index, _)| key(index as u32))
        .collect();
    let mut placed = Vec::with_capacity(count);
    while let Some(Reverse(Priority { operation, .. })) = ready.pop() {
        placed.push(operation);
        let range = *starts.get(operation as usize)?..*starts.get(operation as usize + 1)?;
        for successor in successors.get(range)? {
            let left = waiting_for.get_mut(*successor as usize)?;
            *left -= 1;
            if *left == 0 {
                ready.push(key(*successor)?);
            }
        }
    }
    (placed.len() == count).then_some(placed)
}
