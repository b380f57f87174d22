//! The event ring: records of a cache line each, newest over oldest, one ring per lane (TASK-15).
//!
//! Off by default (`Options::trace`), and then it costs a test of a pointer here and there. Records keep ticks of `clock`; the events
//! read from them are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share.
//!
//! An operation begins where the one before it on its lane ended, so the clock is read once an operation: a READ lasts
//! from there until its value has come. For a task that runs in one go it is read twice; of a stretch of hops, for all but the
//! first once.
//!
//! A task that runs in one go has one record of all its operations, which is *open* while it runs: whoever has its result finds
//! it, and nobody waits for the clock, which is read again when the result is on its way. So its COMPUTE includes handing the
//! result over: a copy into shared memory, the waking of who sleeps. Where its lane spun for an input, the clock was read at
//! the last look before that came, and its COMPUTE begins there, some hundred nanoseconds too early at most.

use std::sync::atomic::{Ordering, fence};

use selvedge_channels::Region;
use serde::{Deserialize, Serialize};

use crate::ir::{BindIndex, OpKind, Plan, TaskId};
use crate::run::clock::{Moment, ticks};
use crate::run::layout::Layout;

/// Words of one record: what it is about (`What`), the execution, and three times.
const WORDS: usize = 5;

/// One lap in a record's first word.
const LAP: u64 = 1 << 40;

/// Looks at a record that changes under them: within a lap it does so once, when it is closed.
const LOOKS: usize = 4;

/// Size of one record in the segment.
const RECORD_BYTES: usize = 64;

/// Size of the ring of a lane which keeps so many records; one more is being written.
pub(crate) fn ring_bytes(records: usize) -> Option<usize> {
    match records {
        0 => Some(0),
        _ => records.checked_add(1)?.checked_mul(RECORD_BYTES),
    }
}

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
    /// Position among all binds of the actor in this graph.
    pub bind_index: BindIndex,
    /// `READ`, `COMPUTE`, `COLLECTIVE` or `WRITE`.
    pub operation: String,
    /// Number of the execution.
    pub execution: u64,
    /// Start, in nanoseconds of the monotonic clock. A COMPUTE that a lane spun for may have begun some hundred nanoseconds later.
    pub start_ns: u64,
    /// End, in nanoseconds of the monotonic clock; where it is under way, when the trace was taken. A COMPUTE whose result is sent at
    /// once ends when that is on its way, so its reader may have begun before.
    pub end_ns: u64,
    /// It has not ended, as far as is known. What has not ended of an execution that is over is taken to end when the trace
    /// is taken, though a task that a fault or a cancel has left behind may go on.
    #[serde(default)]
    pub under_way: bool,
}

/// What a record is about, as its first word says: 24 bits of the lap, 32 of the task, 8 of this. 0 is no record.
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
    /// The same, of which the WRITE has to wait.
    Computed,
}

/// What became of a task in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its result has been written.
    Written,
    /// Its WRITE is still to be done.
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

/// When a record's operations began and ended, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    start: u64,
    /// Where its COMPUTE begins, if there are several.
    read: u64,
    end: u64,
}

/// A lane's end of its event ring.
pub(crate) struct Recorder {
    ring: Option<Region>,
    records: usize,
    next: usize,
    /// How often the ring has been filled, where it stands in the word of a record: so no record looks like the one that lay
    /// there before.
    lap: u64,
    /// When the last operation ended.
    ended: u64,
    /// When it was looked last for a value that had not come; 0 where nobody has looked since.
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

    /// The lane looks whether what it spins for has come.
    #[inline]
    pub(crate) fn looks(&mut self) {
        if self.is_on() {
            self.looked = ticks();
        }
    }

    /// It has not, and the lane may sleep or do something else before it looks again.
    #[inline]
    pub(crate) fn blocked(&mut self) {
        self.looked = 0;
    }

    /// Records operations that end now, together: those of one task that are one wait.
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

    /// Opens the record of a task whose READs are over and which runs in one go from here. `follows` where it comes right
    /// after the one that was recorded last, in one stretch.
    #[inline]
    pub(crate) fn open(&mut self, task: TaskId, execution: u64, follows: bool) {
        let start = self.ended;
        let read = match std::mem::take(&mut self.looked) {
            _ if follows => start,
            0 => ticks(),
            looked => looked,
        };
        // Counters of two cores may differ by a few ticks; no operation takes less than none.
        self.ended = read.max(start);
        let (read, end) = (self.ended, self.ended);
        self.write(What::Open, task, execution, Times { start, read, end });
    }

    /// Ends the record that is open.
    #[inline]
    pub(crate) fn close(&mut self, task: TaskId, ended: Ended) {
        let what = match ended {
            Ended::Written => What::Run,
            Ended::Computed => What::Computed,
        };
        let Some(ring) = &self.ring else { return };
        self.ended = ticks().max(self.ended);
        if let Ok([word, .., end]) = ring.atomics::<WORDS>(self.next * RECORD_BYTES) {
            // Who reads it before the word below makes nothing of it.
            end.store(self.ended, Ordering::Relaxed);
            // SYNC trace-event.
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
            // SYNC trace-event: stored with release, `read_record` loads it with acquire.
            about.store(what.word(task, self.lap), Ordering::Release);
        }
    }

    /// Goes on to the next record, which is none until it is written: so its line is here by then.
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
            // SYNC trace-torn: what is written into it from here on comes after it is none. Pairs with the fence in `read_record`,
            // which then finds none, or sees that it has changed.
            fence(Ordering::Release);
        }
    }
}

/// All events still in the rings, by start time; `finished` executions, the first ones, have ended, as far as who asks knows.
/// Events being overwritten meanwhile may be missing, so the ring is best read when the graph is idle.
pub(crate) fn read(
    plan: &Plan,
    layout: &Layout,
    begin: Moment,
    finished: u64,
    region_of: impl Fn(usize, usize) -> Option<Region>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let now = Moment::now();
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
        // SYNC trace-torn.
        fence(Ordering::Acquire);
        if about.load(Ordering::Relaxed) == word {
            return Some((what, task, execution, Times { start, read, end }));
        }
    }
    None
}

/// What a record comes to that is looked at `now`, and whether it is under way.
fn so_far(what: What, times: Times, finished: bool, now: u64) -> (What, Times, bool) {
    if what != What::Open {
        return (what, times, false);
    }
    // Where the execution is over, its lane has only to close it, unless a fault or a cancel has left the task behind.
    let what = if finished { What::Run } else { What::Computed };
    let end = now.max(times.read);
    (what, Times { end, ..times }, !finished)
}

/// The operations of a record of a task with so many arguments, and when each began and ended.
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
    type Operation = (&'static str, u64, u64);

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

    /// What the ring's records say of a task of two arguments, which all are of `TASK`; open ones are looked at later than all.
    fn read_all(ring: &Region, finished: u64) -> Vec<(u64, Vec<Operation>)> {
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

    fn names(operations: &[Operation]) -> Vec<&str> {
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
        // What follows at once reads no clock before it ends.
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
