//! The event ring: records of one cache line each, one ring per lane, where the newest record overwrites the oldest
//! (TASK-15).
//!
//! Off by default (`Options::trace`); then it costs a test of a pointer in a few places. Records store ticks of
//! `clock`; the events read from them are in nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share.
//!
//! An operation begins where the previous one on its lane ended, so the clock is read once per operation: a READ lasts
//! from there until its value has arrived. For a task that runs in one go the clock is read twice; in a stretch of
//! hops, it is read once for every hop but the first.
//!
//! A task that runs in one go has one record for all its operations. The record is *open* while the task runs: a thread
//! that has the result finds the record, and no thread waits for the clock, which is read again after the result is
//! published. So the COMPUTE includes the hand-over of the result: a copy into shared memory, or the wake-up of a
//! sleeping reader. If the lane spun for an input, the clock was read at the last poll before the input arrived, and
//! the COMPUTE begins at that reading, at most some hundred nanoseconds too early.

use std::sync::atomic::{Ordering, fence};

use selvedge_channels::Region;
use serde::{Deserialize, Serialize};

use crate::ir::{BindIndex, OpKind, Plan, TaskId};
use crate::run::clock::{ClockReading, ticks};
use crate::run::layout::Layout;

/// Words of one record: its kind and task (`What`), the execution, and three times.
const WORDS: usize = 5;

/// The value of one lap in a record's first word.
const LAP: u64 = 1 << 40;

/// The number of attempts to read a record that changes meanwhile. Within a lap a record changes once, when it is
/// closed.
const LOOKS: usize = 4;

/// Size of one record in the segment, in bytes.
const RECORD_BYTES: usize = 64;

/// The size in bytes of the ring of a lane that keeps `records` records; one more record is being written.
pub(crate) fn ring_bytes(records: usize) -> Option<usize> {
    match records {
        0 => Some(0),
        _ => records.checked_add(1)?.checked_mul(RECORD_BYTES),
    }
}

/// One operation of one execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The name of the actor.
    pub actor: String,
    /// The name of the method.
    pub method: String,
    /// The label of the task.
    pub task: String,
    /// The index of the task in [`GraphIr::tasks`](crate::ir::GraphIr::tasks).
    pub task_id: TaskId,
    /// The position of the task among all binds of the actor in this graph.
    pub bind_index: BindIndex,
    /// `READ`, `COMPUTE`, `COLLECTIVE` or `WRITE`.
    pub operation: String,
    /// The number of the execution.
    pub execution: u64,
    /// Start, in nanoseconds of the monotonic clock. A COMPUTE whose input the lane spun for may have begun some
    /// hundred nanoseconds later.
    pub start_ns: u64,
    /// End, in nanoseconds of the monotonic clock; for an operation in flight, the time when the trace was taken. A
    /// COMPUTE whose result is sent at once ends when the result is published, so its reader may have begun before.
    pub end_ns: u64,
    /// True if the operation has not ended, as far as is known. An open operation of a finished execution counts as
    /// ended when the trace is taken, although a task that a fault or a cancellation has left behind may go on.
    #[serde(default)]
    pub under_way: bool,
}

/// The kind of a record. A record's first word has 24 bits of the lap, 32 of the task and 8 of the kind; kind 0 means
/// no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Read,
    Compute,
    Write,
    Collective,
    /// A task in one go that has not ended, as far as is known: its READs and its COMPUTE.
    Open,
    /// A task in one go: its READs, its COMPUTE and its WRITE.
    Run,
    /// A task in one go whose WRITE has to wait: its READs and its COMPUTE.
    Computed,
}

/// The outcome of a task in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The result of the task has been written.
    Written,
    /// The WRITE of the task is still to be done.
    Computed,
}

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
    fn word(self, task: TaskId, lap: u64) -> u64 {
        let code = match self {
            What::Read => 1,
            What::Compute => 2,
            What::Write => 3,
            What::Collective => 4,
            What::Open => 5,
            What::Run => 6,
            What::Computed => 7,
        };
        lap | u64::from(task.0) << 8 | code
    }

    fn from_word(word: u64) -> Option<(What, TaskId)> {
        let what = match word & 0xff {
            1 => What::Read,
            2 => What::Compute,
            3 => What::Write,
            4 => What::Collective,
            5 => What::Open,
            6 => What::Run,
            7 => What::Computed,
            _ => return None,
        };
        Some((what, TaskId((word >> 8) as u32)))
    }
}

/// The times at which a record's operations began and ended, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    start: u64,
    /// The begin of the COMPUTE, if the record has several operations.
    read: u64,
    end: u64,
}

/// A lane's writing end of its event ring.
pub(crate) struct Recorder {
    ring: Option<Region>,
    records: usize,
    next: usize,
    /// The number of times that the ring has been filled, shifted to its place in a record's first word. So no record
    /// looks like the previous one at its place.
    lap: u64,
    /// The end of the last operation.
    ended: u64,
    /// The time of the last poll for a value that had not arrived; 0 if there was none since the last operation, or
    /// since the lane may have slept.
    looked: u64,
}

impl Recorder {
    pub(crate) fn new(ring: Region) -> Self {
        let records = ring.len_bytes() / RECORD_BYTES;
        Recorder {
            ring: (records > 0).then_some(ring),
            records,
            next: 0,
            lap: 0,
            ended: ticks(),
            looked: 0,
        }
    }

    /// Whether events are kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// Records that the lane polls for the input that it spins for.
    #[inline]
    pub(crate) fn looks(&mut self) {
        if self.is_on() {
            self.looked = ticks();
        }
    }

    /// Records that the input has not arrived, and that the lane may sleep or do something else before it polls again.
    #[inline]
    pub(crate) fn blocked(&mut self) {
        self.looked = 0;
    }

    /// Records operations of one task that end now together, because they were one wait.
    #[inline]
    pub(crate) fn record(&mut self, task: TaskId, kinds: impl Iterator<Item = OpKind>, execution: u64) {
        if self.is_on() {
            let (start, end) = (self.ended, ticks());
            self.ended = end;
            kinds.for_each(|kind| self.keep(What::of(kind), task, execution, start, end));
        }
    }

    /// Records an operation that took no time.
    #[inline]
    pub(crate) fn record_at_once(&mut self, task: TaskId, kind: OpKind, execution: u64) {
        self.keep(What::of(kind), task, execution, self.ended, self.ended);
    }

    /// Opens the record of a task whose READs are over and which runs in one go from here. `follows` is true if the
    /// task comes right after the last recorded one, in one stretch.
    #[inline]
    pub(crate) fn open(&mut self, task: TaskId, execution: u64, follows: bool) {
        let start = self.ended;
        let read = match std::mem::take(&mut self.looked) {
            _ if follows => start,
            0 => ticks(),
            looked => looked,
        };
        // Counters of two cores may differ by a few ticks; no operation may have a negative duration.
        self.ended = read.max(start);
        let (read, end) = (self.ended, self.ended);
        self.write(What::Open, task, execution, Times { start, read, end });
    }

    /// Closes the open record.
    #[inline]
    pub(crate) fn close(&mut self, task: TaskId, ended: Ended) {
        let what = match ended {
            Ended::Written => What::Run,
            Ended::Computed => What::Computed,
        };
        let Some(ring) = &self.ring else { return };
        self.ended = ticks().max(self.ended);
        if let Ok([word, .., end]) = ring.atomics::<WORDS>(self.next * RECORD_BYTES) {
            // A reader that sees this end before the word below ignores it.
            end.store(self.ended, Ordering::Relaxed);
            // SYNC trace-event: stored with release, as in `write`.
            word.store(what.word(task, self.lap), Ordering::Release);
        }
        self.pass();
    }

    #[inline]
    fn keep(&mut self, what: What, task: TaskId, execution: u64, start: u64, end: u64) {
        let read = end;
        self.write(what, task, execution, Times { start, read, end });
        self.pass();
    }

    #[inline]
    fn write(&mut self, what: What, task: TaskId, execution: u64, times: Times) {
        let Some(ring) = &self.ring else { return };
        if let Ok([about, number, start, read, end]) = ring.atomics::<WORDS>(self.next * RECORD_BYTES) {
            number.store(execution, Ordering::Relaxed);
            start.store(times.start, Ordering::Relaxed);
            read.store(times.read, Ordering::Relaxed);
            end.store(times.end, Ordering::Relaxed);
            // SYNC trace-event: stored with release; `read_record` loads the word with acquire.
            about.store(what.word(task, self.lap), Ordering::Release);
        }
    }

    /// Advances to the next record and marks it as empty until it is written, so that its cache line is in the cache of
    /// this core by then.
    #[inline]
    fn pass(&mut self) {
        let Some(ring) = &self.ring else { return };
        self.looked = 0;
        self.next += 1;
        if self.next == self.records {
            self.next = 0;
            self.lap = self.lap.wrapping_add(LAP);
        }
        if let Ok(word) = ring.atomic_u64(self.next * RECORD_BYTES) {
            word.store(0, Ordering::Relaxed);
            // SYNC trace-torn: all stores into this record from here on come after it was marked as empty. Pairs with
            // the fence in `read_record`, which then finds an empty record, or sees that the record has changed.
            fence(Ordering::Release);
        }
    }
}

/// All events that are still in the rings, by start time. The first `finished` executions have ended, as far as the
/// caller knows. Events that are being overwritten meanwhile may be missing, so the rings are best read while the graph
/// is idle.
pub(crate) fn read(
    plan: &Plan,
    layout: &Layout,
    begin: ClockReading,
    finished: u64,
    region_of: impl Fn(usize, usize) -> Option<Region>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let now = ClockReading::now();
    for spans in layout.lanes.values() {
        let Some(ring) = region_of(spans.trace.offset, spans.trace.len) else {
            continue;
        };
        for index in 0..spans.trace.len / RECORD_BYTES {
            let Some((what, task, execution, times)) = read_record(&ring, index * RECORD_BYTES) else {
                continue;
            };
            let Some(found) = plan.ir.task(task) else { continue };
            let Some(actor) = plan.ir.actor(found.actor) else {
                continue;
            };
            let (what, times, under_way) = so_far(what, times, execution < finished, now.ticks());
            let operations = operations(what, found.args.len(), times).into_iter();
            events.extend(operations.map(|(operation, start, end)| Event {
                under_way: under_way && operation == "COMPUTE",
                actor: actor.name.clone(),
                method: found.method_name.clone().into_owned(),
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

fn read_record(ring: &Region, base: usize) -> Option<(What, TaskId, u64, Times)> {
    let [about, execution, start, read, end] = ring.atomics::<WORDS>(base).ok()?;
    for _ in 0..LOOKS {
        let word = about.load(Ordering::Acquire);
        let (what, task) = What::from_word(word)?;
        let [execution, start, read, end] =
            [execution, start, read, end].map(|word| word.load(Ordering::Relaxed));
        // SYNC trace-torn: pairs with the fence in `pass`.
        fence(Ordering::Acquire);
        if about.load(Ordering::Relaxed) == word {
            return Some((what, task, execution, Times { start, read, end }));
        }
    }
    None
}

/// The kind and the times of a record as of `now`, and whether the record is in flight.
fn so_far(what: What, times: Times, finished: bool, now: u64) -> (What, Times, bool) {
    if what != What::Open {
        return (what, times, false);
    }
    // If the execution has finished, its lane has only to close the record, unless a fault or a cancellation has left
    // the task behind.
    let what = if finished { What::Run } else { What::Computed };
    let end = now.max(times.read);
    (what, Times { end, ..times }, !finished)
}

/// The operations in a record of a task with `reads` arguments, each with its begin and its end.
fn operations(what: What, reads: usize, times: Times) -> Vec<(&'static str, u64, u64)> {
    let Times { start, read, end } = times;
    let one = |operation| vec![(operation, start, end)];
    match what {
        What::Read => one("READ"),
        What::Compute => one("COMPUTE"),
        What::Write => one("WRITE"),
        What::Collective => one("COLLECTIVE"),
        What::Open | What::Run | What::Computed => {
            let mut all = vec![("READ", start, read); reads];
            all.push(("COMPUTE", read, end));
            if what == What::Run {
                all.push(("WRITE", end, end));
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
    use crate::run::control::region;
    use crate::run::layout::Span;

    const TASK: TaskId = TaskId(7);
    type TracedOperation = (&'static str, u64, u64);

    fn recorder(records: usize) -> (Recorder, Region) {
        let bytes = ring_bytes(records).unwrap();
        let segment = Segment::create(Provider::Heap, bytes).unwrap();
        let whole = Span {
            offset: 0,
            len: bytes,
        };
        let ring = region(&segment, whole).unwrap();
        (Recorder::new(ring.clone()), ring)
    }

    /// The operations in the ring's records, which are all of `TASK` with two arguments. Open records are read at the
    /// latest possible time.
    fn read_all(ring: &Region, finished: u64) -> Vec<(u64, Vec<TracedOperation>)> {
        let records =
            (0..ring.len_bytes() / RECORD_BYTES).filter_map(|index| read_record(ring, index * RECORD_BYTES));
        records
            .map(|(what, task, execution, times)| {
                assert_eq!(task, TASK);
                let (what, times, under_way) = so_far(what, times, execution < finished, u64::MAX);
                assert_eq!(under_way, what == What::Computed && times.end == u64::MAX);
                (execution, operations(what, 2, times))
            })
            .collect()
    }

    fn names(operations: &[TracedOperation]) -> Vec<&str> {
        operations.iter().map(|(name, ..)| *name).collect()
    }

    #[test]
    fn a_task_in_one_go_is_one_record_of_all_its_operations() {
        let (mut recorder, ring) = recorder(4);
        let begun = recorder.ended;
        recorder.open(TASK, 5, false);
        recorder.close(TASK, Ended::Written);
        let between = recorder.ended;
        recorder.open(TASK, 6, true);
        recorder.close(TASK, Ended::Written);
        let told = read_all(&ring, 0);
        let [(5, first), (6, second)] = told.as_slice() else {
            panic!("{told:?}");
        };
        for operations in [first, second] {
            assert_eq!(names(operations), ["READ", "READ", "COMPUTE", "WRITE"]);
        }
        let (read, computed) = (first[1].2, first[2].2);
        assert!(begun <= read && read <= computed && computed == between);
        assert_eq!((first[0], first[1].1), (first[1], begun));
        assert_eq!((first[2].1, first[3]), (read, ("WRITE", between, between)));
        // A task that follows at once reads no clock before it ends.
        let ended = recorder.ended;
        let expected = [
            ("READ", between, between),
            ("READ", between, between),
            ("COMPUTE", between, ended),
            ("WRITE", ended, ended),
        ];
        assert_eq!(second.as_slice(), expected);
    }

    #[test]
    fn a_value_that_was_looked_for_came_when_it_was_looked_last_if_nobody_slept_since() {
        let (mut recorder, ring) = recorder(4);
        recorder.looks();
        let looked = recorder.looked;
        recorder.open(TASK, 0, false);
        recorder.close(TASK, Ended::Written);
        recorder.looks();
        let stale = recorder.looked;
        recorder.blocked();
        let woken = ticks();
        recorder.open(TASK, 1, false);
        recorder.close(TASK, Ended::Written);
        let told = read_all(&ring, 0);
        assert_eq!(told[0].1[0].2, looked);
        assert!(told[1].1[0].2 >= woken && woken >= stale);
    }

    #[test]
    fn what_is_under_way_is_found_and_has_been_written_where_its_execution_has_ended() {
        let (mut recorder, ring) = recorder(4);
        recorder.open(TASK, 3, false);
        for (finished, expected) in [
            (3, &["READ", "READ", "COMPUTE"][..]),
            (4, &["READ", "READ", "COMPUTE", "WRITE"]),
        ] {
            let told = read_all(&ring, finished);
            assert_eq!(names(&told[0].1), expected);
            assert_eq!(told[0].1[2].2, u64::MAX, "until it is looked at");
        }
        recorder.close(TASK, Ended::Computed);
        let told = read_all(&ring, 4);
        assert_eq!(names(&told[0].1), ["READ", "READ", "COMPUTE"]);
        assert_eq!(told[0].1[2].2, recorder.ended);
    }

    #[test]
    fn a_write_that_has_to_wait_is_recorded_when_it_is_done() {
        let (mut recorder, ring) = recorder(4);
        recorder.open(TASK, 5, false);
        recorder.close(TASK, Ended::Computed);
        let computed = recorder.ended;
        recorder.record(TASK, std::iter::once(OpKind::Write), 5);
        let told = read_all(&ring, 6);
        assert_eq!(names(&told[0].1), ["READ", "READ", "COMPUTE"]);
        assert_eq!(told[1], (5, vec![("WRITE", computed, recorder.ended)]));
    }

    #[test]
    fn the_newest_records_are_kept() {
        let (mut recorder, ring) = recorder(2);
        assert!(read_all(&ring, 9).is_empty());
        for execution in 0..7 {
            recorder.open(TASK, execution, false);
            recorder.close(TASK, Ended::Written);
            let mut told: Vec<u64> = read_all(&ring, 9).iter().map(|(number, _)| *number).collect();
            told.sort_unstable();
            let first = execution.saturating_sub(1);
            assert_eq!(told, (first..=execution).collect::<Vec<_>>());
        }
    }
}
