//! Tasks become operations: READ per input edge, COMPUTE, WRITE, and what must come before what.
//!
//! O(tasks + edges).

use std::collections::BTreeMap;

use selvedge_core::ActorId;

use crate::ir::{EdgeKind, GraphIr, OpKind, Operation, OperationEdge, OperationGraph, Origin, TaskId};

/// Lowers a graph (GRAPH-01 to GRAPH-07).
pub fn lower(graph: &GraphIr) -> OperationGraph {
    let mut lowered = OperationGraph::default();
    let mut writes: Vec<u32> = Vec::with_capacity(graph.tasks.len());
    let mut last_compute: BTreeMap<ActorId, u32> = BTreeMap::new();
    for (index, task) in graph.tasks.iter().enumerate() {
        let id = TaskId(index as u32);
        let first = lowered.operations.len() as u32;
        let reads: Vec<_> = GraphIr::reads(task).collect();
        let (compute, write) = (first + reads.len() as u32, first + reads.len() as u32 + 1);
        for (offset, (arg, value)) in reads.into_iter().enumerate() {
            let read = first + offset as u32;
            lowered.operations.push(Operation {
                task: id,
                kind: OpKind::Read { arg },
            });
            if let Some(Origin::Task(producer)) = graph.value(value).map(|value| value.origin)
                && let Some(from) = writes.get(producer.index())
            {
                lowered.edges.push(OperationEdge {
                    from: *from,
                    to: read,
                    kind: EdgeKind::Data,
                });
            }
            lowered.edges.push(OperationEdge {
                from: read,
                to: compute,
                kind: EdgeKind::Program,
            });
        }
        lowered.operations.push(Operation {
            task: id,
            kind: OpKind::Compute,
        });
        lowered.operations.push(Operation {
            task: id,
            kind: OpKind::Write,
        });
        lowered.edges.push(OperationEdge {
            from: compute,
            to: write,
            kind: EdgeKind::Program,
        });
        if let Some(before) = last_compute.insert(task.actor, compute) {
            lowered.edges.push(OperationEdge {
                from: before,
                to: compute,
                kind: EdgeKind::Control,
            });
        }
        writes.push(write);
    }
    lowered
}
