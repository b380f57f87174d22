//! The event ring: one 32-byte event per operation, newest over oldest, one ring per lane (TASK-15).
//!
//! Off by default (`Options::trace`), and then it costs one test of a length. Times are nanoseconds of
//! `CLOCK_MONOTONIC`, which all processes of a host share.

use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};
use selvedge_channels::Region;
use serde::{Deserialize, Serialize};

use crate::ir::{OpKind, Plan, TaskId};
use crate::run::layout::Layout;

/// Size of one event in the segment.
pub(crate) const TRACE_EVENT_BYTES: usize = 32;

/// One operation of one execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The actor's name.
    pub actor: String,
    /// The method's name.
    pub method: String,
    /// The task's label.
    pub task: String,
    /// The task's index in [`GraphIr::tasks`](crate::ir::GraphIr::tasks).
    pub task_id: TaskId,
    /// Position among all binds of the actor.
    pub bind_index: u32,
    /// `READ`, `COMPUTE` or `WRITE`.
    pub operation: String,
    /// Number of the execution.
    pub execution: u64,
    /// Start, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// End, in nanoseconds of the monotonic clock.
    pub end_ns: u64,
}

/// A lane's end of its event ring.
pub(crate) struct Recorder {
    ring: Option<Region>,
    events: usize,
    next: usize,
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

const fn code(kind: OpKind) -> u64 {
    match kind {
        OpKind::Read { .. } => 1,
        OpKind::Compute | OpKind::Collective => 2,
        OpKind::Write => 3,
    }
}

impl Recorder {
    pub(crate) fn new(ring: Region) -> Self {
        let events = ring.len_bytes() / TRACE_EVENT_BYTES;
        Recorder {
            ring: (events > 0).then_some(ring),
            events,
            next: 0,
        }
    }

    /// Start of an operation; 0 when tracing is off.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        if self.ring.is_some() { now_ns() } else { 0 }
    }

    /// Records an operation that began at `start`.
    #[inline]
    pub(crate) fn record(&mut self, task: TaskId, kind: OpKind, execution: u64, start: u64) {
        let Some(ring) = &self.ring else { return };
        let base = self.next * TRACE_EVENT_BYTES;
        let words = [execution, start, now_ns(), u64::from(task.0) << 8 | code(kind)];
        for (index, word) in words.into_iter().enumerate() {
            if let Ok(cell) = ring.atomic_u64(base + index * 8) {
                // SYNC trace-event: the last word is stored with release, `read` loads it with acquire.
                let order = if index == 3 {
                    Ordering::Release
                } else {
                    Ordering::Relaxed
                };
                cell.store(word, order);
            }
        }
        self.next = (self.next + 1) % self.events;
    }
}

/// All events still in the rings, by start time. Events being overwritten meanwhile may be torn, so the ring is
/// best read when the graph is idle.
pub(crate) fn read(
    plan: &Plan,
    layout: &Layout,
    region_of: impl Fn(usize, usize) -> Option<Region>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for spans in layout.lanes.values() {
        let Some(ring) = region_of(spans.trace.offset, spans.trace.len) else {
            continue;
        };
        for index in 0..spans.trace.len / TRACE_EVENT_BYTES {
            events.extend(read_event(plan, &ring, index * TRACE_EVENT_BYTES));
        }
    }
    events.sort_by_key(|event| (event.start_ns, event.end_ns));
    events
}

fn read_event(plan: &Plan, ring: &Region, base: usize) -> Option<Event> {
    let word = |index: usize, order| Some(ring.atomic_u64(base + index * 8).ok()?.load(order));
    let last = word(3, Ordering::Acquire)?;
    let operation = match last & 0xff {
        1 => "READ",
        2 => "COMPUTE",
        3 => "WRITE",
        _ => return None,
    };
    let task_id = TaskId((last >> 8) as u32);
    let task = plan.ir.task(task_id)?;
    let actor = plan.ir.actors.iter().find(|actor| actor.id == task.actor)?;
    Some(Event {
        actor: actor.name.clone(),
        method: task.method_name.clone(),
        task: task.label.clone(),
        task_id,
        bind_index: task.bind_index,
        operation: operation.to_owned(),
        execution: word(0, Ordering::Relaxed)?,
        start_ns: word(1, Ordering::Relaxed)?,
        end_ns: word(2, Ordering::Relaxed)?,
    })
}
