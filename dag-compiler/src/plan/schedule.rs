//! Scheduling: projects the global order onto lanes.
//!
//! With overlap, a READ that takes part in a rendezvous only posts the receive, so it may stand earlier than the
//! transfer. It moves ahead of work that, on the planned time line, still runs when its writer begins. The READ cannot
//! depend on such work, because everything that the writer waits for has ended when the writer begins. A COLLECTIVE
//! only posts the rank's part, so it stands right behind the work that makes its input: the other ranks need not wait
//! for this lane's other work. READs, WRITEs and COLLECTIVEs that take part in transfers keep their order on the lane,
//! because devices run them in that order.

use selvedge_core::{ActorId, Address, IdMap, LaneId};

use crate::ir::{
    EdgeKind, GraphIr, LaneSchedule, OpKind, Operation, OperationGraph, Schedule, TaskId, TaskIr,
};
use crate::plan::order::Order;

/// Returns one schedule per lane, each a projection of the global order. With `overlap`, receives and collectives stand
/// earlier. The driver's lane comes first, even if it has nothing to do.
pub fn schedule(graph: &GraphIr, operations: &OperationGraph, order: &Order, overlap: bool) -> Schedule {
    let places = graph.places();
    let mut original = vec![0; operations.operations.len()];
    let mut lanes = IdMap::new();
    lanes.insert(LaneId::DRIVER, (Address::DRIVER, Vec::new()));
    for index in &order.operations {
        let operation = operations.operations.get(*index as usize);
        let actor = operation
            .and_then(|it| graph.task(it.task))
            .map(|task| task.actor);
        if let Some(address) = actor.and_then(|actor| places.get(&actor)).copied() {
            if !lanes.contains_key(&address.lane) {
                lanes.insert(address.lane, (address, Vec::new()));
            }
            let Some((_, list)) = lanes.get_mut(&address.lane) else {
                continue;
            };
            if let Some(original) = original.get_mut(*index as usize) {
                *original = list.len() as u32;
            }
            list.push(*index);
        }
    }
    if overlap {
        let hoist = Hoist::of(graph, operations, order);
        lanes.values_mut().for_each(|(_, lane)| hoist.lane(lane));
    }
    let named = |index: u32| operations.operations.get(index as usize).copied();
    let place = |index: &u32| original.get(*index as usize).copied();
    let lane = |(address, list): (Address, Vec<u32>)| LaneSchedule {
        address,
        original: list.iter().filter_map(place).collect(),
        operations: list.into_iter().filter_map(named).collect(),
    };
    Schedule {
        lanes: lanes.into_values().map(lane).collect(),
    }
}

/// The operations that may be posted earlier, and the work that they may pass.
struct Hoist<'a> {
    graph: &'a GraphIr,
    places: IdMap<ActorId, Address>,
    operations: &'a [Operation],
    order: &'a Order,
    /// The operations that take part in transfers. For a READ, the time when the writer's work begins; for a WRITE or a
    /// COLLECTIVE, 0.
    transfers: IdMap<u32, u64>,
}

impl<'a> Hoist<'a> {
    fn of(graph: &'a GraphIr, operations: &'a OperationGraph, order: &'a Order) -> Self {
        let mut transfers = IdMap::new();
        for edge in operations
            .edges
            .iter()
            .filter(|edge| edge.kind == EdgeKind::Rendezvous)
        {
            // A task's work stands right before its WRITE.
            let work = edge.from.saturating_sub(1) as usize;
            let begins = order.start_ns.get(work).copied().unwrap_or_default();
            transfers.insert(edge.to, begins);
            transfers.insert(edge.from, 0);
        }
        transfers.extend(
            operations
                .collectives
                .iter()
                .flatten()
                .map(|operation| (*operation, 0)),
        );
        Hoist {
            graph,
            places: graph.places(),
            operations: &operations.operations,
            order,
            transfers,
        }
    }

    fn lane(&self, list: &mut [u32]) {
        if self.transfers.is_empty() {
            return;
        }
        for at in 1..list.len() {
            let operation = list.get(at).copied();
            if let Some(task) = operation.and_then(|it| self.posted(it)) {
                self.post(list, at, task);
            } else if let Some(begins) = operation.and_then(|it| self.receive(it)) {
                let ahead = list.get(..at).unwrap_or_default().iter().rev();
                let passed = ahead.take_while(|before| self.yields(**before, begins)).count();
                if let Some(moved) = list.get_mut(at - passed..=at) {
                    moved.rotate_right(1);
                }
            }
        }
    }

    /// Returns the task of a COLLECTIVE; `None` for other operations.
    fn posted(&self, operation: u32) -> Option<TaskId> {
        let operation = self.operations.get(operation as usize)?;
        (operation.kind == OpKind::Collective).then_some(operation.task)
    }

    /// Returns the tasks that make the inputs of a task, if its own lane runs all of them. `None` otherwise, because a
    /// READ of any other value may wait.
    fn made_here(&self, task: TaskId) -> Option<Vec<TaskId>> {
        let task = self.graph.task(task)?;
        let place = |task: &TaskIr| self.places.get(&task.actor).copied();
        let maker = |(_, value)| {
            let maker = self.graph.maker(value)?;
            (place(self.graph.task(maker)?) == place(task)).then_some(maker)
        };
        GraphIr::reads(task).map(maker).collect()
    }

    /// Moves the COLLECTIVE at `at`, and the READs of its task, ahead of work on which they do not depend.
    fn post(&self, list: &mut [u32], at: usize, task: TaskId) {
        let Some(needed) = self.made_here(task) else {
            return;
        };
        let stays = |index: &u32| {
            let operation = self.operations.get(*index as usize);
            let own = operation.is_some_and(|it| it.task == task);
            let makes = operation.is_some_and(|it| it.kind == OpKind::Write && needed.contains(&it.task));
            makes || (!own && self.transfers.contains_key(index))
        };
        let first = list.get(..at).and_then(|ahead| ahead.iter().rposition(stays));
        let first = first.map_or(0, |before| before + 1);
        if let Some(passed) = list.get_mut(first..=at) {
            // The sort is stable, so the moved and the passed operations keep their order.
            passed.sort_by_key(|index| {
                self.operations
                    .get(*index as usize)
                    .is_none_or(|it| it.task != task)
            });
        }
    }

    /// Returns the time when the writer's work begins, for a READ that takes part in a transfer.
    fn receive(&self, operation: u32) -> Option<u64> {
        let read = matches!(self.operations.get(operation as usize)?.kind, OpKind::Read { .. });
        self.transfers.get(&operation).copied().filter(|_| read)
    }

    /// Whether a receive whose writer begins at `begins` may be posted before this operation.
    fn yields(&self, operation: u32, begins: u64) -> bool {
        let ends = self
            .order
            .end_ns
            .get(operation as usize)
            .copied()
            .unwrap_or_default();
        !self.transfers.contains_key(&operation) && ends > begins
    }
}
