//! The writing end of an event ring, and the format of its records: five words in a cache line.

use std::sync::atomic::{Ordering, fence};

use selvedge_channels::Region;

use crate::ir::{OpKind, TaskId};
use crate::run::clock::ticks;

/// A lane's writing end of its event ring.
pub(crate) struct Recorder {
    ring: Option<Region>,
    records: usize,
    next: usize,
    /// The number of times that the ring has been filled, shifted to its place in a record's first word. So no record
    /// looks like the previous one at its place.
    lap: u64,
    /// The end of the last operation.
    pub(super) ended: u64,
    /// The time of the last poll for a value that had not arrived; 0 if there was none since the last operation, or
    /// since the lane may have slept.
    pub(super) looked: u64,
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

    /// Closes the open record. `written` is false if the WRITE of the task is still to be done.
    #[inline]
    pub(crate) fn close(&mut self, task: TaskId, written: bool) {
        let what = if written { What::Run } else { What::Computed };
        let Some(ring) = &self.ring else { return };
        self.ended = ticks().max(self.ended);
        if let Ok([word, .., end]) = ring.atomics::<WORDS>(self.next * RECORD_BYTES) {
            // A reader that sees this end before the word below ignores it.
            // Relaxed: the release below orders this store.
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
            // Relaxed, all four: the release below orders these stores.
            number.store(execution, Ordering::Relaxed);
            start.store(times.start, Ordering::Relaxed); // Relaxed: as above.
            read.store(times.read, Ordering::Relaxed); // Relaxed: as above.
            end.store(times.end, Ordering::Relaxed); // Relaxed: as above.
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
            // Relaxed: the fence below orders this store before those into the record.
            word.store(0, Ordering::Relaxed);
            // SYNC trace-torn: all stores into this record from here on come after it was marked as empty. Pairs with
            // the fence in `read_record`, which then finds an empty record, or sees that the record has changed.
            fence(Ordering::Release);
        }
    }
}

/// Words of one record: its kind and task (`What`), the execution, and three times.
pub(super) const WORDS: usize = 5;

/// The value of one lap in a record's first word.
pub(super) const LAP: u64 = 1 << 40;

/// Size of one record in the segment, in bytes.
pub(super) const RECORD_BYTES: usize = 64;

/// The size in bytes of the ring of a lane that keeps `records` records; one more record is being written.
pub(crate) fn ring_bytes(records: usize) -> Option<usize> {
    match records {
        0 => Some(0),
        _ => records.checked_add(1)?.checked_mul(RECORD_BYTES),
    }
}

/// The kind of a record. A record's first word has 24 bits of the lap, 32 of the task and 8 of the kind; kind 0 means
/// no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
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

impl What {
    const ALL: [What; 7] = [
        What::Read,
        What::Compute,
        What::Write,
        What::Collective,
        What::Open,
        What::Run,
        What::Computed,
    ];

    pub(super) const fn of(kind: OpKind) -> What {
        match kind {
            OpKind::Read { .. } => What::Read,
            OpKind::Compute => What::Compute,
            OpKind::Write => What::Write,
            OpKind::Collective => What::Collective,
        }
    }

    /// The first word of a record. The code of a kind is its position plus one.
    #[inline]
    pub(super) fn word(self, task: TaskId, lap: u64) -> u64 {
        lap | u64::from(task.0) << 8 | (self as u64 + 1)
    }

    pub(super) fn from_word(word: u64) -> Option<(What, TaskId)> {
        let what = What::ALL
            .into_iter()
            .find(|what| *what as u64 + 1 == word & 0xff)?;
        Some((what, TaskId((word >> 8) as u32)))
    }
}

/// The times at which a record's operations began and ended, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) start: u64,
    /// The begin of the COMPUTE, if the record has several operations.
    pub(super) read: u64,
    pub(super) end: u64,
}
