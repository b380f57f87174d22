//! Lowering: turns tasks into operations (READ per input edge, COMPUTE or COLLECTIVE, WRITE) with the order constraints
//! between them.
//!
//! O((tasks + edges) log actors).

use selvedge_core::{ActorId, IdMap, IdSet};

use super::rendezvous::RendezvousReads;
use crate::ir::{CollectiveId, EdgeKind, GraphIr, OpKind, Operation, OperationEdge, OperationGraph, TaskId};

/// Lowers a graph. The COMPUTEs of an actor keep bind order unless its methods commute. A COLLECTIVE is ordered only
/// after its inputs.
pub fn lower(graph: &GraphIr) -> OperationGraph {
    let mut lowered = OperationGraph::default();
    let mut writes: Vec<u32> = Vec::with_capacity(graph.tasks.len());
    let mut last_compute: IdMap<ActorId, u32> = IdMap::new();
    let mut ranks: IdMap<CollectiveId, Vec<u32>> = IdMap::new();
    let commuting = graph.actors.iter().filter(|actor| actor.commutes);
    let commuting: IdSet<ActorId> = commuting.map(|actor| actor.id).collect();
    let mut meetings = RendezvousReads::of(graph);
    for (index, task) in graph.tasks.iter().enumerate() {
        let id = TaskId(index as u32);
        let first = lowered.operations.len() as u32;
        for (arg, value) in GraphIr::reads(task) {
            let read = lowered.push(id, OpKind::Read { arg });
            if let Some(producer) = graph.maker(value)
                && let Some(from) = writes.get(producer.index())
            {
                let meets = meetings.begins(value, task);
                lowered.edge(
                    *from,
                    read,
                    if meets {
                        EdgeKind::Rendezvous
                    } else {
                        EdgeKind::Data
                    },
                );
            }
        }
        let kind = task.collective.map_or(OpKind::Compute, |_| OpKind::Collective);
        let work = lowered.push(id, kind);
        (first..work).for_each(|read| lowered.edge(read, work, EdgeKind::Program));
        let write = lowered.push(id, OpKind::Write);
        lowered.edge(work, write, EdgeKind::Program);
        if let Some(collective) = task.collective {
            ranks.push_to(collective, work);
        } else if !commuting.contains(&task.actor)
            && let Some(before) = last_compute.insert(task.actor, work)
        {
            lowered.edge(before, work, EdgeKind::Control);
        }
        writes.push(write);
    }
    lowered.collectives = ranks.into_values().collect();
    lowered
}

impl OperationGraph {
    fn push(&mut self, task: TaskId, kind: OpKind) -> u32 {
        self.operations.push(Operation { task, kind });
        self.operations.len() as u32 - 1
    }

    fn edge(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.edges.push(OperationEdge { from, to, kind });
    }
}
