//! The layout of clocks and of an allocation's history in shared memory.
//!
//! An allocation is a memfd: a ledger, followed by the bytes. So every process that maps the bytes also has the history
//! of their reads and writes.
#![allow(unsafe_code)] // declares a record as plain data

use crate::clock::{Component, Epoch, VectorClock};
use crate::history::{ACCESSES_MAX, Access, History, Intent};
use crate::report::Line;
use crate::shared::{HEADER_BYTES, Plain, Shared};

/// The number of streams that fit in a clock in shared memory.
const EPOCHS_MAX: usize = 255;
/// The bytes of such a clock: the number of epochs, and the epochs.
pub(crate) const CLOCK_BYTES: usize = 16 * (EPOCHS_MAX + 1);
const NAME_BYTES: usize = 32;

/// The offset of the number of accesses.
const COUNT_AT: usize = HEADER_BYTES;
/// The offset of the clock that hosts of any process have observed.
const OBSERVED_AT: usize = 4096;
/// The offset of the clock that streams have released by writing words that are no longer listed.
const RELEASED_AT: usize = OBSERVED_AT + CLOCK_BYTES;
const ACCESSES_AT: usize = RELEASED_AT + CLOCK_BYTES;
/// The offset of the words that streams write, each with the clock of its writers.
const WORDS_AT: usize = ACCESSES_AT + ACCESSES_MAX * size_of::<Record>();
/// The most words in the list. When a word replaces another, the clock of the other is merged into that at
/// `RELEASED_AT`.
const WORDS_MAX: usize = 64;
const WORD_BYTES: usize = 16 + CLOCK_BYTES;
/// The offset of the number of words ever listed.
const WORD_COUNT_AT: usize = HEADER_BYTES + 8;
/// The offset of an allocation's bytes.
pub(crate) const LEDGER_BYTES: usize = (WORDS_AT + WORDS_MAX * WORD_BYTES).next_multiple_of(4096);

/// An access as it is stored in memory.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    component: u64,
    number: u64,
    start: u64,
    end: u64,
    write: u64,
    name: [u8; NAME_BYTES],
}

// SAFETY: the fields are numbers, without padding.
unsafe impl Plain for Record {}

impl Record {
    fn of(access: &Access) -> Self {
        let mut name = [0; NAME_BYTES];
        name.iter_mut()
            .zip(access.name.bytes())
            .for_each(|(to, from)| *to = from);
        Record {
            component: access.epoch.component.0,
            number: access.epoch.number,
            start: access.bytes.start,
            end: access.bytes.end,
            write: u64::from(access.intent == Intent::Write),
            name,
        }
    }

    fn access(&self) -> Access {
        let name: Vec<u8> = self
            .name
            .iter()
            .copied()
            .take_while(|letter| *letter != 0)
            .collect();
        Access {
            epoch: Epoch {
                component: Component(self.component),
                number: self.number,
            },
            intent: if self.write == 0 {
                Intent::Read
            } else {
                Intent::Write
            },
            bytes: self.start..self.end,
            name: String::from_utf8_lossy(&name).into_owned(),
        }
    }
}

/// Reads a clock.
pub(crate) fn clock(shared: &Shared, at: usize) -> VectorClock {
    let count = usize::try_from(shared.get::<u64>(at))
        .unwrap_or(0)
        .min(EPOCHS_MAX);
    (1..=count)
        .map(|index| Epoch {
            component: Component(shared.get(at + index * 16)),
            number: shared.get(at + index * 16 + 8),
        })
        .collect()
}

/// Writes a clock. Epochs beyond the room are dropped, which is noted in the report.
pub(crate) fn set_clock(shared: &Shared, at: usize, clock: &VectorClock) {
    let known = clock.epochs().len();
    if known > EPOCHS_MAX {
        Line::new("limit")
            .text("what", "streams in a shared clock")
            .number("found", known as u64)
            .note();
    }
    for (index, epoch) in clock.epochs().take(EPOCHS_MAX).enumerate() {
        shared.set(at + (index + 1) * 16, epoch.component.0);
        shared.set(at + (index + 1) * 16 + 8, epoch.number);
    }
    shared.set(at, known.min(EPOCHS_MAX) as u64);
}

fn merge_at(shared: &Shared, at: usize, clock: &VectorClock) {
    let mut merged = self::clock(shared, at);
    merged.merge(clock);
    set_clock(shared, at, &merged);
}

/// Returns the clock that hosts of any process have observed of the users of this allocation.
pub(crate) fn observed(shared: &Shared) -> VectorClock {
    let _guard = shared.lock(true);
    clock(shared, OBSERVED_AT)
}

/// Notes that a host has observed this clock.
pub(crate) fn observe(shared: &Shared, seen: &VectorClock) {
    let _guard = shared.lock(true);
    merge_at(shared, OBSERVED_AT, seen);
}

/// A word: the identity of its memory, and its offset in it.
pub(crate) type Word = (u64, u64);

fn words(shared: &Shared) -> impl Iterator<Item = (usize, Word)> {
    let count = usize::try_from(shared.get::<u64>(WORD_COUNT_AT))
        .unwrap_or(0)
        .min(WORDS_MAX);
    (0..count).map(move |index| {
        let at = WORDS_AT + index * WORD_BYTES;
        (at, (shared.get(at), shared.get(at + 8)))
    })
}

/// Returns the clock that hosts have observed merged with the one that streams have released by writing this word.
pub(crate) fn released(shared: &Shared, word: Word) -> VectorClock {
    let _guard = shared.lock(true);
    let mut all = clock(shared, OBSERVED_AT);
    all.merge(&clock(shared, RELEASED_AT));
    if let Some((at, _)) = words(shared).find(|(_, known)| *known == word) {
        all.merge(&clock(shared, at + 16));
    }
    all
}

/// Notes that a stream has written a word that others may wait for.
pub(crate) fn release(shared: &Shared, word: Word, done: &VectorClock) {
    let _guard = shared.lock(true);
    if let Some((at, _)) = words(shared).find(|(_, known)| *known == word) {
        return merge_at(shared, at + 16, done);
    }
    let count = shared.get::<u64>(WORD_COUNT_AT);
    let at = WORDS_AT + (count % WORDS_MAX as u64) as usize * WORD_BYTES;
    let forgotten = clock(shared, at + 16);
    merge_at(shared, RELEASED_AT, &forgotten);
    set_clock(shared, at + 16, done);
    shared.set(at, word.0);
    shared.set(at + 8, word.1);
    shared.set(WORD_COUNT_AT, count + 1);
}

/// Changes the history; the lock excludes other processes if they may have the allocation.
pub(crate) fn change<R>(shared: &Shared, processes: bool, change: impl FnOnce(&mut History) -> R) -> R {
    let _guard = shared.lock(processes);
    let count = usize::try_from(shared.get::<u64>(COUNT_AT))
        .unwrap_or(0)
        .min(ACCESSES_MAX);
    let at = |index: usize| ACCESSES_AT + index * size_of::<Record>();
    let mut history = History {
        accesses: (0..count)
            .map(|index| shared.get::<Record>(at(index)).access())
            .collect(),
    };
    let result = change(&mut history);
    for (index, access) in history.accesses.iter().take(ACCESSES_MAX).enumerate() {
        shared.set(at(index), Record::of(access));
    }
    shared.set(COUNT_AT, history.accesses.len().min(ACCESSES_MAX) as u64);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_written_by_one_is_read_by_another() {
        let mine = Shared::create(LEDGER_BYTES).unwrap();
        let theirs = Shared::open(mine.address()).unwrap();
        let epoch = Epoch {
            component: Component::new(3, 4),
            number: 5,
        };
        let access = Access {
            epoch,
            intent: Intent::Write,
            bytes: 3..9,
            name: "cuMemcpyHtoDAsync_v2".into(),
        };
        let clock: VectorClock = [epoch].into_iter().collect();
        change(&mine, true, |history| history.add(access.clone(), &clock));
        assert_eq!(
            change(&theirs, true, |history| history.accesses.clone()),
            [access]
        );
        observe(&theirs, &clock);
        assert_eq!(observed(&mine), clock);
        let later = Epoch { number: 6, ..epoch };
        release(&mine, (1, 8), &[later].into_iter().collect());
        assert_eq!(observed(&mine), clock);
        assert!(released(&theirs, (1, 8)).covers(later));
        assert!(!released(&theirs, (1, 16)).covers(later));
        (0..64).for_each(|other| release(&mine, (2, other), &clock));
        assert!(
            released(&theirs, (1, 16)).covers(later),
            "it is no longer known which word it was"
        );
    }
}
