//! Values in memory that streams write and wait for.
//!
//! Hardware watches the word. In the simulator a stream reads it again whenever an operation of this process has
//! written memory and, if the host or another process may write it too, a few thousand times a second. A wait for a
//! word orders the stream after all writers of the word. Between processes the ledgers of the shared memory carry that
//! order, for words in device memory and in files alike, at whatever address they are mapped.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::VectorClock;
use crate::code::{Cu, INVALID_VALUE};
use crate::engine::{self, Key, Operation, Reach, Turn};
use crate::ledger::Word;
use crate::memory::{Allocation, Span};
use crate::{host, ledger, space};

/// The interval between two reads of a word that may be written from outside.
const PACE: Duration = Duration::from_micros(200);

/// A word: four bytes or eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

/// The condition that a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// The word is at least the value, in cyclic order.
    AtLeast,
    Equal,
    /// The word and the value have a bit in common.
    And,
    /// A bit exists that neither the word nor the value has.
    Nor,
}

/// The merged clocks of the writers of each word.
static WRITTEN: LazyLock<Mutex<HashMap<Word, VectorClock>>> = LazyLock::new(Mutex::default);

impl Width {
    fn bytes(self) -> u64 {
        match self {
            Width::Four => 4,
            Width::Eight => 8,
        }
    }

    fn load(self, span: &Span) -> u64 {
        match self {
            Width::Four => span
                .word32()
                .map_or(0, |word| u64::from(word.load(Ordering::Acquire))),
            Width::Eight => span.word64().map_or(0, |word| word.load(Ordering::Acquire)),
        }
    }

    fn store(self, span: &Span, value: u64) {
        match self {
            Width::Four => {
                if let Some(word) = span.word32() {
                    word.store(value as u32, Ordering::Release);
                }
            }
            Width::Eight => {
                if let Some(word) = span.word64() {
                    word.store(value, Ordering::Release);
                }
            }
        }
    }

    /// Returns the word at an address, which must be aligned.
    fn at(self, address: u64) -> Cu<Span> {
        if !address.is_multiple_of(self.bytes()) {
            return Err(INVALID_VALUE);
        }
        let mut spans = space::resolve(address, self.bytes())?;
        spans
            .pop()
            .filter(|span| span.len == self.bytes())
            .ok_or(INVALID_VALUE)
    }
}

impl Condition {
    fn of(flags: u32) -> Cu<Self> {
        const FLUSH: u32 = 1 << 30;
        match flags & !FLUSH {
            0 => Ok(Condition::AtLeast),
            1 => Ok(Condition::Equal),
            2 => Ok(Condition::And),
            3 => Ok(Condition::Nor),
            _ => Err(INVALID_VALUE),
        }
    }

    fn holds(self, width: Width, found: u64, value: u64) -> bool {
        match (self, width) {
            (Condition::AtLeast, Width::Four) => (found as u32).wrapping_sub(value as u32).cast_signed() >= 0,
            (Condition::AtLeast, Width::Eight) => found.wrapping_sub(value).cast_signed() >= 0,
            (Condition::Equal, _) => found == value,
            (Condition::And, _) => found & value != 0,
            (Condition::Nor, Width::Four) => !(found as u32 | value as u32) != 0,
            (Condition::Nor, Width::Eight) => !(found | value) != 0,
        }
    }
}

fn name_of(span: &Span) -> Word {
    let (memory, start) = span.allocation.identity;
    (memory, start + span.offset)
}

/// Returns the allocations whose ledgers carry the clocks that streams publish to other processes.
fn carriers() -> Vec<Arc<Allocation>> {
    space::between_processes()
}

/// Makes a stream write a value.
pub(crate) fn write(name: &'static str, stream: u64, address: u64, value: u64, width: Width) -> Cu {
    let span = width.at(address)?;
    let run = move |turn: &mut Turn| {
        WRITTEN
            .lock()
            .entry(name_of(&span))
            .or_default()
            .merge(&turn.clock);
        if span.allocation.is_written_by_others() {
            carriers()
                .iter()
                .for_each(|one| ledger::release(one.shared(), name_of(&span), &turn.clock));
        }
        width.store(&span, value);
        engine::notify(Key::Words);
    };
    engine::enqueue(stream, Operation::new(name, run))
}

/// Makes a stream wait for a value.
pub(crate) fn wait(
    name: &'static str,
    stream: u64,
    address: u64,
    value: u64,
    flags: u32,
    width: Width,
) -> Cu {
    let condition = Condition::of(flags)?;
    let span = width.at(address)?;
    let run = move |turn: &mut Turn| {
        let outside = span.allocation.is_written_by_others();
        let reach = if outside { Reach::Outside } else { Reach::Process };
        turn.wait_polling(Key::Words, reach, PACE, || {
            condition.holds(width, width.load(&span), value)
        });
        if let Some(clock) = WRITTEN.lock().get(&name_of(&span)) {
            turn.clock.merge(clock);
        }
        if outside {
            turn.clock.merge(&host::seen());
            for one in carriers() {
                turn.clock.merge(&ledger::released(one.shared(), name_of(&span)));
            }
        }
    };
    engine::enqueue(stream, Operation::new(name, run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_goes_round_the_end_of_the_numbers() {
        let reached = |found, value| Condition::AtLeast.holds(Width::Four, found, value);
        assert!(reached(5, 5) && reached(6, 5) && !reached(4, 5));
        assert!(reached(3, u64::from(u32::MAX)));
        assert!(!reached(u64::from(u32::MAX), 3));
        assert!(Condition::And.holds(Width::Eight, 6, 2) && !Condition::And.holds(Width::Eight, 4, 2));
        assert!(
            Condition::Nor.holds(Width::Four, 0, 0)
                && !Condition::Nor.holds(Width::Four, u64::from(u32::MAX), 0)
        );
    }
}
