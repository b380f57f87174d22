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

const WORD_BYTES: u64 = 4;
/// The flags of a wait for at least the value, and the flag for the order of remote writes.
const AT_LEAST: u32 = 0;
const FLUSH: u32 = 1 << 30;

/// The merged clocks of the writers of each word.
static WRITTEN: LazyLock<Mutex<HashMap<Word, VectorClock>>> = LazyLock::new(Mutex::default);

/// Returns the word at an address, which must be aligned.
fn at(address: u64) -> Cu<Span> {
    if !address.is_multiple_of(WORD_BYTES) {
        return Err(INVALID_VALUE);
    }
    let span = space::resolve(address, WORD_BYTES)?.pop();
    span.filter(|span| span.len == WORD_BYTES).ok_or(INVALID_VALUE)
}

/// Whether a word is at least the value, in cyclic order.
fn is_reached(found: u32, value: u32) -> bool {
    found.wrapping_sub(value).cast_signed() >= 0
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
pub(crate) fn write(stream: u64, address: u64, value: u32) -> Cu {
    let span = at(address)?;
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
        if let Some(word) = span.word32() {
            word.store(value, Ordering::Release);
        }
        engine::notify(Key::Words);
    };
    engine::enqueue(stream, Operation::new("cuStreamWriteValue32", run))
}

/// Makes a stream wait for a value.
pub(crate) fn wait(stream: u64, address: u64, value: u32, flags: u32) -> Cu {
    if flags & !FLUSH != AT_LEAST {
        return Err(INVALID_VALUE);
    }
    let span = at(address)?;
    let run = move |turn: &mut Turn| {
        let outside = span.allocation.is_written_by_others();
        let reach = if outside { Reach::Outside } else { Reach::Process };
        turn.wait_polling(Key::Words, reach, PACE, || {
            let word = span.word32();
            word.is_some_and(|word| is_reached(word.load(Ordering::Acquire), value))
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
    engine::enqueue(stream, Operation::new("cuStreamWaitValue32", run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_goes_round_the_end_of_the_numbers() {
        assert!(is_reached(5, 5) && is_reached(6, 5) && !is_reached(4, 5));
        assert!(is_reached(3, u32::MAX) && !is_reached(u32::MAX, 3));
    }
}
