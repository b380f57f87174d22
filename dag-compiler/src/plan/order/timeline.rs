//! The planned time line: events placed one by one, each as early as it can begin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::visit::{DfsPostOrder, EdgeRef};

use super::events::{OrderEvent, OrderEvents};
use super::{Order, Priority};
use crate::ir::{OperationGraph, TaskId};

/// A lane with the events placed on it so far.
#[derive(Default)]
struct Lane {
    free_ns: u64,
    /// Events that can begin when the lane is free, best first.
    ready: BinaryHeap<Reverse<(Priority, u32)>>,
    /// Events that can begin only later, earliest first.
    coming: BinaryHeap<Reverse<(u64, u32)>>,
    /// The one candidate that counts for this lane; the lane's other candidates are out of date.
    announced: Option<(u64, Priority)>,
}

/// A candidate for the next place: its begin; whether it is work, since a gang goes before work; its priority; and the
/// number of the gang's event, or of the lane whose best event is meant.
type Candidate = (u64, bool, Priority, u32);

struct Timeline<'a> {
    events: &'a OrderEvents,
    overlap: bool,
    priorities: Vec<Priority>,
    /// By event: the time when everything that it waits for has arrived.
    ready_ns: Vec<u64>,
    lanes: Vec<Lane>,
    candidates: BinaryHeap<Reverse<Candidate>>,
    order: Order,
}

/// Places all events; `None` if some of them wait for each other.
pub(super) fn run(
    operations: &OperationGraph,
    events: &OrderEvents,
    lanes: usize,
    overlap: bool,
) -> Option<Order> {
    let count = operations.operations.len();
    let mut timeline = Timeline {
        events,
        overlap,
        priorities: priorities(operations, events)?,
        ready_ns: vec![0; events.node_count()],
        lanes: (0..lanes).map(|_| Lane::default()).collect(),
        candidates: BinaryHeap::new(),
        order: Order {
            operations: Vec::with_capacity(count),
            start_ns: vec![0; count],
            end_ns: vec![0; count],
            steps: 0,
        },
    };
    timeline.place_all()?;
    (timeline.order.operations.len() == count).then_some(timeline.order)
}

impl Timeline<'_> {
    /// Places every event after all events that it waits for. Events of a cycle are not placed.
    fn place_all(&mut self) -> Option<()> {
        let mut waiting_for = vec![0u32; self.events.node_count()];
        for edge in self.events.raw_edges() {
            *waiting_for.get_mut(edge.target().index())? += 1;
        }
        for (event, count) in (0u32..).zip(&waiting_for) {
            if *count == 0 {
                self.offer(event)?;
            }
        }
        while let Some(Reverse(candidate)) = self.candidates.pop() {
            self.order.steps += 1;
            let Some((event, end)) = self.place(candidate)? else {
                continue;
            };
            for edge in self.events.edges(event.into()) {
                self.order.steps += 1;
                let to = edge.target().index();
                let ready = self.ready_ns.get_mut(to)?;
                *ready = (*ready).max(end.saturating_add(*edge.weight()));
                let left = waiting_for.get_mut(to)?;
                *left -= 1;
                if *left == 0 {
                    self.offer(to as u32)?;
                }
            }
        }
        Some(())
    }

    /// Makes an event available for placement; all of its predecessors have been placed.
    fn offer(&mut self, event: u32) -> Option<()> {
        let what = self.events.node_weight(event.into())?;
        if what.gang {
            let start = self.gang_start(event)?;
            self.candidates.push(Reverse((
                start,
                false,
                *self.priorities.get(event as usize)?,
                event,
            )));
            return Some(());
        }
        let number = what.lanes().next()?;
        let ready = *self.ready_ns.get(event as usize)?;
        let lane = self.lanes.get_mut(number as usize)?;
        lane.coming.push(Reverse((ready, event)));
        self.announce(number)
    }

    /// The time when a gang can begin: if it leaves its lanes free, as soon as it is ready.
    fn gang_start(&self, event: u32) -> Option<u64> {
        let ready = *self.ready_ns.get(event as usize)?;
        if self.overlap {
            return Some(ready);
        }
        let lanes = self.events.node_weight(event.into())?.lanes();
        let free = lanes
            .filter_map(|lane| self.lanes.get(lane as usize))
            .map(|lane| lane.free_ns);
        Some(free.max().unwrap_or_default().max(ready))
    }

    /// Moves the events that a lane could begin now from `coming` to `ready`.
    fn settle(&mut self, number: u32) -> Option<()> {
        let lane = self.lanes.get_mut(number as usize)?;
        while let Some(Reverse((ready, event))) = lane.coming.peek().copied() {
            if ready > lane.free_ns {
                break;
            }
            lane.coming.pop();
            self.order.steps += 1;
            lane.ready
                .push(Reverse((*self.priorities.get(event as usize)?, event)));
        }
        Some(())
    }

    /// Makes a lane's best event a candidate, unless the lane has a candidate that goes no later.
    fn announce(&mut self, number: u32) -> Option<()> {
        self.settle(number)?;
        let lane = self.lanes.get_mut(number as usize)?;
        let ready = lane
            .ready
            .peek()
            .map(|Reverse((priority, _))| (lane.free_ns, *priority));
        let first = || {
            let Reverse((ready, event)) = lane.coming.peek()?;
            Some((*ready, *self.priorities.get(*event as usize)?))
        };
        if let Some((start, priority)) = ready.or_else(first)
            && lane.announced.is_none_or(|before| (start, priority) < before)
        {
            lane.announced = Some((start, priority));
            self.candidates.push(Reverse((start, true, priority, number)));
        }
        Some(())
    }

    /// Places a candidate; returns the event and its end, or `Some(None)` if the candidate is out of date.
    fn place(&mut self, (start, work, priority, number): Candidate) -> Option<Option<(u32, u64)>> {
        if !work {
            let now = self.gang_start(number)?;
            if now > start {
                self.candidates.push(Reverse((now, false, priority, number)));
                return Some(None);
            }
            return self.record(number, start).map(|end| Some((number, end)));
        }
        let lane = self.lanes.get_mut(number as usize)?;
        if lane.announced != Some((start, priority)) {
            return Some(None);
        }
        lane.announced = None;
        if lane.free_ns > start {
            // A gang has taken the lane in the meantime.
            self.announce(number)?;
            return Some(None);
        }
        if lane.ready.is_empty() {
            // The lane waits for the first event that becomes ready, and for all that become ready at the same time.
            lane.free_ns = start;
            self.settle(number)?;
        }
        let lane = self.lanes.get_mut(number as usize)?;
        let Some(Reverse((_, event))) = lane.ready.pop() else {
            return Some(None);
        };
        let start = lane.free_ns;
        let end = self.record(event, start)?;
        self.announce(number)?;
        Some(Some((event, end)))
    }

    /// Writes an event into the order; returns the end of the event.
    fn record(&mut self, event: u32, start: u64) -> Option<u64> {
        let what = self.events.node_weight(event.into())?;
        let end = start.saturating_add(what.ns);
        for operation in &what.operations {
            self.order.operations.push(*operation);
            *self.order.start_ns.get_mut(*operation as usize)? = start;
            *self.order.end_ns.get_mut(*operation as usize)? = end;
        }
        if !(what.gang && self.overlap) {
            for lane in what.lanes() {
                self.lanes.get_mut(lane as usize)?.free_ns = end;
            }
        }
        Some(end)
    }
}

/// The priority of each event, with the critical path behind it: the longest path to the end of the graph, found from
/// the back.
fn priorities(operations: &OperationGraph, events: &OrderEvents) -> Option<Vec<Priority>> {
    let mut critical = vec![0u64; events.node_count()];
    let mut walk = DfsPostOrder::empty(events);
    for root in events.node_indices() {
        walk.move_to(root);
        while let Some(event) = walk.next(events) {
            let behind = events.edges(event).filter_map(|edge| {
                let next = critical.get(edge.target().index())?;
                Some(edge.weight().saturating_add(*next))
            });
            let longest = behind.max().unwrap_or_default();
            *critical.get_mut(event.index())? = longest.saturating_add(events.node_weight(event)?.ns);
        }
    }
    let priority = |(event, critical_ns): (&OrderEvent, u64)| {
        let operation = event.operations.iter().copied().min().unwrap_or(u32::MAX);
        let first = operations.operations.get(operation as usize);
        Priority {
            critical_ns: Reverse(critical_ns),
            task: first.map_or(TaskId(u32::MAX), |it| it.task),
            operation,
        }
    };
    Some(events.node_weights().zip(critical).map(priority).collect())
}
