//! The format of a record: five words in a cache line.

use crate::ir::{OpKind, TaskId};

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

/// The outcome of a task in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The result of the task has been written.
    Written,
    /// The WRITE of the task is still to be done.
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
