//! The event ring: one 32-byte event per operation, newest over oldest, one ring per lane (TASK-15).
//!
//! Off by default (`Options::trace`), and then it costs one test of a length. Events keep ticks of `clock`; as read they
//! are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share.
//!
//! An operation begins where the one before it on its lane ended, so the clock is read once an operation: a READ lasts
//! from there until its value has come.

use std::sync::atomic::Ordering;

use selvedge_channels::Region;
use serde::{Deserialize, Serialize};

use crate::ir::{OpKind, Plan, TaskId};
use crate::run::clock::{Moment, ticks};
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
    /// When the last operation ended.
    ended: u64,
}

const fn code(kind: OpKind) -> u64 {
    match kind {
        OpKind::Read { .. } => 1,
        OpKind::Compute => 2,
        OpKind::Collective => 4,
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
            ended: ticks(),
        }
    }

    /// Whether events are kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// Records operations that end now, together: those of one task that are one wait.
    #[inline]
    pub(crate) fn record(&mut self, task: TaskId, kinds: impl Iterator<Item = OpKind>, execution: u64) {
        if self.ring.is_some() {
            let (start, end) = (self.ended, ticks());
            self.ended = end;
            kinds.for_each(|kind| self.write(task, kind, execution, start, end));
        }
    }

    /// Records an operation that took no time.
    #[inline]
    pub(crate) fn record_at_once(&mut self, task: TaskId, kind: OpKind, execution: u64) {
        self.write(task, kind, execution, self.ended, self.ended);
    }

    #[inline]
    fn write(&mut self, task: TaskId, kind: OpKind, execution: u64, start: u64, end: u64) {
        let Some(ring) = &self.ring else { return };
        if let Ok([first, second, third, last]) = ring.atomics::<4>(self.next * TRACE_EVENT_BYTES) {
            first.store(execution, Ordering::Relaxed);
            second.store(start, Ordering::Relaxed);
            third.store(end, Ordering::Relaxed);
            // SYNC trace-event: stored with release, `read` loads it with acquire.
            last.store(u64::from(task.0) << 8 | code(kind), Ordering::Release);
        }
        self.next += 1;
        if self.next == self.events {
            self.next = 0;
        }
    }
}

/// All events still in the rings, by start time. Events being overwritten meanwhile may be torn, so the ring is
/// best read when the graph is idle.
pub(crate) fn read(
    plan: &Plan,
    layout: &Layout,
    begin: Moment,
    region_of: impl Fn(usize, usize) -> Option<Region>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let now = Moment::now();
    for spans in layout.lanes.values() {
        let Some(ring) = region_of(spans.trace.offset, spans.trace.len) else {
            continue;
        };
        for index in 0..spans.trace.len / TRACE_EVENT_BYTES {
            let event = read_event(plan, &ring, index * TRACE_EVENT_BYTES);
            events.extend(event.map(|event| Event {
                start_ns: begin.ns_of(now, event.start_ns),
                end_ns: begin.ns_of(now, event.end_ns),
                ..event
            }));
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
        4 => "COLLECTIVE",
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
