//! The global order, projected onto lanes.

use std::collections::BTreeMap;

use selvedge_core::{ActorId, LaneId, ProcessId};

use crate::ir::{GraphIr, LaneSchedule, OperationGraph, Schedule};

/// One schedule per lane, each in the global order; the driver's lane first, also when it has nothing to do.
pub fn schedule(graph: &GraphIr, operations: &OperationGraph, order: &[u32]) -> Schedule {
    let place: BTreeMap<ActorId, (LaneId, ProcessId)> = graph
        .actors
        .iter()
        .map(|actor| (actor.id, (actor.lane, actor.process)))
        .collect();
    let mut lanes: BTreeMap<LaneId, LaneSchedule> = BTreeMap::new();
    let empty = |lane, process| LaneSchedule {
        lane,
        process,
        operations: Vec::new(),
    };
    lanes.insert(LaneId(0), empty(LaneId(0), ProcessId(0)));
    for index in order {
        let Some(operation) = operations.operations.get(*index as usize) else {
            continue;
        };
        let actor = graph.task(operation.task).map(|task| task.actor);
        let Some((lane, process)) = actor.and_then(|actor| place.get(&actor)).copied() else {
            continue;
        };
        lanes
            .entry(lane)
            .or_insert_with(|| empty(lane, process))
            .operations
            .push(*operation);
    }
    Schedule {
        lanes: lanes.into_values().collect(),
    }
}
