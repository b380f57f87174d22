//! The event ring: records of 32 bytes, newest over oldest, one ring per lane (TASK-15).
//!
//! Off by default (`Options::trace`), and then it costs one test of a length. Records keep ticks of `clock`; the events
//! read from them are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share.
//!
//! An operation begins where the one before it on its lane ended, so the clock is read once an operation: a READ lasts
//! from there until its value has come.
//!
//! A record is four words: the execution, two of times, and what it is about (`Word`). Mostly that is one operation, which
//! began and ended then. A task that ran in one go is one record too: its second time holds how long its READs and its
//! COMPUTE took, 32 bits each, and its WRITE took none.

use std::sync::atomic::{Ordering, fence};

use selvedge_channels::Region;
use serde::{Deserialize, Serialize};

use crate::ir::{OpKind, Plan, TaskId};
use crate::run::clock::{Moment, ticks};
use crate::run::layout::Layout;

/// Size of one record in the segment.
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

/// What a record is about, as its last word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Read,
    Compute,
    Write,
    Collective,
    /// A task in one go: its READs, its COMPUTE and its WRITE.
    Run,
    /// The same, of which the WRITE has to wait.
    Computed,
}

/// The last word of a record: the task, then 8 bits of what. 0 is no record.
impl What {
    const fn of(kind: OpKind) -> What {
        match kind {
            OpKind::Read { .. } => What::Read,
            OpKind::Compute => What::Compute,
            OpKind::Write => What::Write,
            OpKind::Collective => What::Collective,
        }
    }

    #[inline]
    fn word(self, task: TaskId) -> u64 {
        let code = match self {
            What::Read => 1,
            What::Compute => 2,
            What::Write => 3,
            What::Collective => 4,
            What::Run => 5,
            What::Computed => 6,
        };
        u64::from(task.0) << 8 | code
    }

    fn from_word(word: u64) -> Option<(What, TaskId)> {
        let what = match word & 0xff {
            1 => What::Read,
            2 => What::Compute,
            3 => What::Write,
            4 => What::Collective,
            5 => What::Run,
            6 => What::Computed,
            _ => return None,
        };
        Some((what, TaskId((word >> 8) as u32)))
    }
}

/// A lane's end of its event ring.
pub(crate) struct Recorder {
    ring: Option<Region>,
    records: usize,
    next: usize,
    /// When the last operation ended.
    ended: u64,
}

impl Recorder {
    pub(crate) fn new(ring: Region) -> Self {
        let records = ring.len_bytes() / TRACE_EVENT_BYTES;
        Recorder {
            ring: (records > 0).then_some(ring),
            records,
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
            kinds.for_each(|kind| self.write(What::of(kind).word(task), execution, start, end));
        }
    }

    /// Records an operation that took no time.
    #[inline]
    pub(crate) fn record_at_once(&mut self, task: TaskId, kind: OpKind, execution: u64) {
        self.write(What::of(kind).word(task), execution, self.ended, self.ended);
    }

    /// Records a task that runs in one go: `reads` READs that ended when the clock was at `read`, its COMPUTE that ends now,
    /// and its WRITE, which follows at once.
    #[inline]
    pub(crate) fn record_run(&mut self, task: TaskId, reads: usize, execution: u64, read: u64) {
        self.record_run_until(task, reads, execution, read, ticks());
    }

    #[inline]
    fn record_run_until(&mut self, task: TaskId, reads: usize, execution: u64, read: u64, computed: u64) {
        let start = std::mem::replace(&mut self.ended, computed);
        // Counters of two cores may differ by a few ticks; no operation takes less than none.
        let (reading, computing) = (read.saturating_sub(start), computed.saturating_sub(read));
        if reading | computing <= u64::from(u32::MAX) {
            let took = reading | computing << 32;
            return self.write(What::Run.word(task), execution, start, took);
        }
        for _ in 0..reads {
            self.write(What::Read.word(task), execution, start, read);
        }
        self.write(What::Compute.word(task), execution, read, computed);
        self.write(What::Write.word(task), execution, computed, computed);
    }

    /// Takes back the WRITE that [`record_run`](Self::record_run) has just recorded.
    #[cold]
    pub(crate) fn retract_write(&mut self) {
        let Some(ring) = &self.ring else { return };
        let last = self.next.checked_sub(1).unwrap_or(self.records - 1);
        let Ok(word) = ring.atomic_u64(last * TRACE_EVENT_BYTES + 24) else {
            return;
        };
        let (word, next) = match What::from_word(word.load(Ordering::Relaxed)) {
            Some((What::Run, task)) => {
                word.store(What::Computed.word(task), Ordering::Release);
                return;
            }
            Some((What::Write, _)) => (word, last),
            _ => return,
        };
        word.store(0, Ordering::Release);
        self.next = next;
    }

    #[inline]
    fn write(&mut self, word: u64, execution: u64, first: u64, second: u64) {
        let Some(ring) = &self.ring else { return };
        if let Ok([number, from, to, last]) = ring.atomics::<4>(self.next * TRACE_EVENT_BYTES) {
            // SYNC trace-torn: pairs with the fence in `read_record`, which then finds no record, or sees that it has changed.
            last.store(0, Ordering::Relaxed);
            fence(Ordering::Release);
            number.store(execution, Ordering::Relaxed);
            from.store(first, Ordering::Relaxed);
            to.store(second, Ordering::Relaxed);
            // SYNC trace-event: stored with release, `read` loads it with acquire.
            last.store(word, Ordering::Release);
        }
        self.next += 1;
        if self.next == self.records {
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
            let Some((what, task, execution, times)) = read_record(&ring, index * TRACE_EVENT_BYTES) else {
                continue;
            };
            let Some(found) = plan.ir.task(task) else { continue };
            let Some(actor) = plan.ir.actor(found.actor) else {
                continue;
            };
            let operations = operations(what, found.args.len(), times).into_iter();
            events.extend(operations.map(|(operation, start, end)| Event {
                actor: actor.name.clone(),
                method: found.method_name.clone(),
                task: found.label.clone(),
                task_id: task,
                bind_index: found.bind_index,
                operation: operation.to_owned(),
                execution,
                start_ns: begin.ns_of(now, start),
                end_ns: begin.ns_of(now, end),
            }));
        }
    }
    events.sort_by_key(|event| (event.start_ns, event.end_ns));
    events
}

fn read_record(ring: &Region, base: usize) -> Option<(What, TaskId, u64, (u64, u64))> {
    let [execution, first, second, last] = ring.atomics::<4>(base).ok()?;
    let word = last.load(Ordering::Acquire);
    let (what, task) = What::from_word(word)?;
    let [execution, first, second] = [execution, first, second].map(|word| word.load(Ordering::Relaxed));
    // SYNC trace-torn.
    fence(Ordering::Acquire);
    if last.load(Ordering::Relaxed) != word {
        return None;
    }
    Some((what, task, execution, (first, second)))
}

/// The operations of a record of a task with so many arguments, and when each began and ended.
fn operations(what: What, reads: usize, (first, second): (u64, u64)) -> Vec<(&'static str, u64, u64)> {
    let one = |operation| vec![(operation, first, second)];
    match what {
        What::Read => one("READ"),
        What::Compute => one("COMPUTE"),
        What::Write => one("WRITE"),
        What::Collective => one("COLLECTIVE"),
        What::Run | What::Computed => {
            let read = first.saturating_add(second & u64::from(u32::MAX));
            let computed = read.saturating_add(second >> 32);
            let mut all = vec![("READ", first, read); reads];
            all.push(("COMPUTE", read, computed));
            if what == What::Run {
                all.push(("WRITE", computed, computed));
            }
            all
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use selvedge_channels::{Provider, Segment};

    use super::*;

    const TASK: TaskId = TaskId(7);
    type Operation = (&'static str, u64, u64);

    fn recorder(records: usize) -> (Recorder, Region) {
        let segment = Segment::create(Provider::Heap, records * TRACE_EVENT_BYTES).unwrap();
        let ring = segment.region(0, records * TRACE_EVENT_BYTES).unwrap();
        let mut recorder = Recorder::new(ring.clone());
        recorder.ended = 100;
        (recorder, ring)
    }

    /// What the ring's records say of a task of two arguments, which all are of `TASK`.
    fn read_all(ring: &Region) -> Vec<(u64, Vec<Operation>)> {
        let records = (0..ring.len_bytes() / TRACE_EVENT_BYTES)
            .filter_map(|index| read_record(ring, index * TRACE_EVENT_BYTES));
        records
            .map(|(what, task, execution, times)| {
                assert_eq!(task, TASK);
                (execution, operations(what, 2, times))
            })
            .collect()
    }

    #[test]
    fn a_task_in_one_go_is_one_record_of_all_its_operations() {
        let (mut recorder, ring) = recorder(4);
        recorder.record_run_until(TASK, 2, 5, 130, 170);
        recorder.record_run_until(TASK, 2, 6, 170, 180);
        let first = vec![
            ("READ", 100, 130),
            ("READ", 100, 130),
            ("COMPUTE", 130, 170),
            ("WRITE", 170, 170),
        ];
        let second = vec![
            ("READ", 170, 170),
            ("READ", 170, 170),
            ("COMPUTE", 170, 180),
            ("WRITE", 180, 180),
        ];
        assert_eq!(read_all(&ring), [(5, first), (6, second)]);
    }

    #[test]
    fn what_took_longer_than_32_bits_of_ticks_is_kept_exactly() {
        let long = 1 << 40;
        for (read, computed) in [(100 + long, 200 + long), (130, 130 + long)] {
            let (mut recorder, ring) = recorder(4);
            recorder.record_run_until(TASK, 2, 5, read, computed);
            let told: Vec<Operation> = read_all(&ring).into_iter().flat_map(|(_, all)| all).collect();
            let all = [
                ("READ", 100, read),
                ("READ", 100, read),
                ("COMPUTE", read, computed),
                ("WRITE", computed, computed),
            ];
            assert_eq!(told, all);
        }
    }

    #[test]
    fn a_write_that_has_to_wait_is_taken_back_and_recorded_when_it_is_done() {
        for took in [10, 1 << 40] {
            let (mut recorder, ring) = recorder(4);
            recorder.record_run_until(TASK, 2, 5, 100, 100 + took);
            recorder.retract_write();
            let told = |ring| {
                read_all(ring)
                    .into_iter()
                    .flat_map(|(_, all)| all)
                    .collect::<Vec<_>>()
            };
            assert_eq!(told(&ring).last(), Some(&("COMPUTE", 100, 100 + took)));
            recorder.record(TASK, std::iter::once(OpKind::Write), 5);
            assert_eq!(
                told(&ring).iter().filter(|(what, ..)| *what == "WRITE").count(),
                1
            );
            assert_eq!(told(&ring).len(), 4);
        }
    }

    #[test]
    fn at_the_end_of_the_ring_a_write_is_taken_back_too() {
        let (mut recorder, ring) = recorder(2);
        for execution in 0..2 {
            recorder.record_run_until(TASK, 2, execution, 100, 100);
        }
        recorder.retract_write();
        let told: Vec<usize> = read_all(&ring).iter().map(|(_, all)| all.len()).collect();
        assert_eq!(told, [4, 3]);
    }
}
