//! The positions of a ring's ends: the protocol of [`ring`](mod@crate::ring) and [`shared`](crate::shared), independent
//! of the memory that holds its words. So loom and Miri run the same code that two processes run.
//!
//! A slot has a stamp, a reader has a tail. Message `i` lies in slot `i % K` and may be read once the stamp is `i + 1`.
//! A reader's tail is the number of messages it has passed. Each word has one writer, so the protocol needs no
//! read-modify-write.
//!
//! - `RING-1` message `i` is written only when every tail is above `i - K`.
//! - `RING-2` between the stamp `i + 1` and its own tail `i + 1`, a reader may read slot `i % K`; no end writes it.
//! - `RING-3` while no reader may read it, the slot belongs to the writer.
//! - `RING-6` a writer that finds no space sets every reader's `blocked` and reads the tails once more; a reader that
//!   moves its tail reads its `blocked` afterwards. At least one of the two sees the other's store (Dekker's pattern,
//!   as in `doorbell.rs`). While there are free slots no reader wakes the writer, which may sleep for another reason.
//!   `blocked` shares the tail's cache line, which the reader's core owns at that moment.
//!
//! ```text
//! writer                                  reader
//! wait until i < limit                    wait until stamp[i % K] == i + 1   acquire, SYNC slot-published
//! fill slot i % K                         read slot i % K
//! stamp[i % K] = i + 1   release          tail = i + 1                       release
//! limit = min(tails) + K acquire, SYNC slot-released
//! none: blocked = 1, fence, look again    fence, if blocked: wake the writer   SYNC ring-blocked
//! ```

use crate::sync::{AtomicU64, Ordering, fence};
use crate::wait::doorbell::Doorbell;

/// The tail of a reader that has left: the writer does not wait for it.
pub(crate) const GONE: u64 = u64::MAX;

/// The number of a message and the slot it lies in. The slot is counted along with the number, since a division would
/// cost more than all other steps of a hop.
#[derive(Clone, Copy, Debug)]
struct Position {
    number: u64,
    slot: usize,
    slots: usize,
}

impl Position {
    #[inline]
    fn step(&mut self) {
        self.number += 1;
        self.slot += 1;
        if self.slot == self.slots {
            self.slot = 0;
        }
    }
}

/// The shared words of one reader, on one cache line.
#[derive(Clone, Copy)]
pub(crate) struct Tail<'a> {
    /// The number of messages the reader has passed, or [`GONE`]. Written by the reader.
    pub(crate) passed: &'a AtomicU64,
    /// Not 0 while the writer waits for space. Written by the writer.
    pub(crate) blocked: &'a AtomicU64,
}

/// The error for a tail that is ahead of the writer. No correct reader writes such a tail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ahead;

/// The position of the writer.
#[derive(Debug)]
pub(crate) struct WriteCursor {
    place: Position,
    /// The number of the first message that may not be written yet, as of the last read of the tails (`RING-1`).
    limit: u64,
    /// `limit`, or 0 after the writer was closed.
    end: u64,
    /// The number of readers at the last read of the tails.
    readers: usize,
    /// Whether `blocked` is set in the tails (`RING-6`).
    blocked: bool,
}

impl WriteCursor {
    pub(crate) fn new(slots: usize, readers: usize) -> Self {
        WriteCursor {
            place: Position {
                number: 0,
                slot: 0,
                slots,
            },
            limit: slots as u64,
            end: slots as u64,
            readers,
            blocked: false,
        }
    }

    /// The number of the next message.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.place.number
    }

    /// The slot of the next message.
    #[inline]
    pub(crate) fn slot(&self) -> usize {
        self.place.slot
    }

    /// The number of messages that every reader has passed, as of the last read of the tails.
    #[inline]
    pub(crate) fn passed(&self) -> u64 {
        self.limit - self.place.slots as u64
    }

    /// The number of readers at the last read of the tails. A reader that has left never returns, so there are never
    /// more.
    #[inline]
    pub(crate) fn readers(&self) -> usize {
        self.readers
    }

    /// Whether the next message may be written, as far as is known without reading the tails.
    #[inline]
    pub(crate) fn has_space(&self) -> bool {
        self.place.number < self.end
    }

    /// Closes the writer: from now on there is no space.
    pub(crate) fn close(&mut self) {
        self.end = 0;
    }

    /// Whether the writer was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.end == 0
    }

    /// Whether space is known for only one more message, in a ring of more than two slots.
    #[inline]
    pub(crate) fn runs_low(&self) -> bool {
        self.limit - self.place.number == 1 && self.place.slots > 2
    }

    /// Reads the tails to find space. If there is none, sets `blocked` (`RING-6`).
    pub(crate) fn seek<'a, T: Iterator<Item = Tail<'a>>>(
        &mut self,
        tails: impl Fn() -> T,
    ) -> Result<bool, Ahead> {
        self.look_until(tails, Self::has_space)
    }

    /// Reads the tails to find out whether every reader has passed every message. If one has not, sets `blocked`
    /// (`RING-6`).
    pub(crate) fn drained<'a, T: Iterator<Item = Tail<'a>>>(
        &mut self,
        tails: impl Fn() -> T,
    ) -> Result<bool, Ahead> {
        self.look_until(tails, |cursor| cursor.passed() == cursor.number())
    }

    fn look_until<'a, T: Iterator<Item = Tail<'a>>>(
        &mut self,
        tails: impl Fn() -> T,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<bool, Ahead> {
        self.look(tails())?;
        if !enough(self) && !self.blocked {
            self.say_blocked(tails(), true);
            // SYNC ring-blocked: pairs with the fence in `freed`; orders the store of `blocked` before the second read
            // of the tails.
            fence(Ordering::SeqCst);
            self.look(tails())?;
        }
        let enough = enough(self);
        if enough && self.blocked {
            self.say_blocked(tails(), false);
        }
        Ok(enough)
    }

    fn say_blocked<'a>(&mut self, tails: impl Iterator<Item = Tail<'a>>, blocked: bool) {
        // Relaxed: the fence orders the store of 1. The store of 0 needs no order: a late wake-up does no harm.
        tails.for_each(|tail| tail.blocked.store(blocked.into(), Ordering::Relaxed));
        self.blocked = blocked;
    }

    fn look<'a>(&mut self, tails: impl Iterator<Item = Tail<'a>>) -> Result<(), Ahead> {
        let mut slowest = self.place.number;
        let mut readers = 0;
        for tail in tails {
            // SYNC slot-released: pairs with the stores in `pass` and `leave`; that reader's accesses to the slots
            // happened before (RING-1). Relaxed would let the writer overwrite a slot that is still being read.
            let passed = tail.passed.load(Ordering::Acquire);
            if passed == GONE {
                continue;
            }
            if passed > self.place.number {
                return Err(Ahead);
            }
            readers += 1;
            slowest = slowest.min(passed);
        }
        self.readers = readers;
        // A correct tail never moves back, so a lower value is ignored. Only the reader that wrote it can be harmed by
        // this.
        self.limit = self.limit.max(slowest + self.place.slots as u64);
        if !self.is_closed() {
            self.end = self.limit;
        }
        Ok(())
    }

    /// Publishes the content of the slot that `stamp` belongs to.
    #[inline]
    pub(crate) fn publish(&mut self, stamp: &AtomicU64) {
        // SYNC slot-published: pairs with the load in `ReadCursor::look`; publishes the slot.
        stamp.store(self.place.number + 1, Ordering::Release);
        self.place.step();
    }
}

/// The meaning of a stamp to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The next message is there.
    Ready,
    /// The stamp is still that of the lap before.
    NotYet,
    /// No correct writer writes this stamp.
    Impossible,
}

/// The position of a reader.
#[derive(Debug)]
pub(crate) struct ReadCursor {
    place: Position,
}

impl ReadCursor {
    pub(crate) fn new(slots: usize) -> Self {
        ReadCursor {
            place: Position {
                number: 0,
                slot: 0,
                slots,
            },
        }
    }

    /// The number of the next message.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.place.number
    }

    /// The slot of the next message.
    #[inline]
    pub(crate) fn slot(&self) -> usize {
        self.place.slot
    }

    /// Whether the slot with this stamp holds the next message.
    #[inline]
    pub(crate) fn look(&self, stamp: &AtomicU64) -> Sight {
        // SYNC slot-published: pairs with the store in `publish`; the writes to the slot happened before.
        let stamp = stamp.load(Ordering::Acquire);
        let next = self.place.number + 1;
        if stamp == next {
            Sight::Ready
        } else if stamp == next.saturating_sub(self.place.slots as u64) {
            Sight::NotYet
        } else {
            Sight::Impossible
        }
    }

    /// Passes the next message: this reader may no longer read its slot (`RING-2`). Wakes the writer if it waits for
    /// space. If `quiet`, leaves the wake-up to a later call of `freed`.
    #[inline]
    pub(crate) fn pass(&mut self, tail: Tail<'_>, writer: &Doorbell, quiet: bool) {
        self.place.step();
        // SYNC slot-released: pairs with the load in `WriteCursor::look`; all reads of the slot happened before.
        tail.passed.store(self.place.number, Ordering::Release);
        if !quiet {
            freed(tail, writer);
        }
    }

    /// Passes all messages, including later ones. Wakes the writer if it waits for space.
    pub(crate) fn leave(&self, tail: Tail<'_>, writer: &Doorbell) {
        // SYNC slot-released.
        tail.passed.store(GONE, Ordering::Release);
        freed(tail, writer);
    }
}

/// Wakes the writer if it waits for space. The caller has stored its tail before.
#[inline]
pub(crate) fn freed(tail: Tail<'_>, writer: &Doorbell) {
    // SYNC ring-blocked: pairs with the fence in `look_until`; orders the store of the tail before the load of
    // `blocked`.
    // SYNC bell: also orders it before the load of the doorbell's word, so one fence serves both.
    fence(Ordering::SeqCst);
    if tail.blocked.load(Ordering::Relaxed) != 0 {
        writer.wake_sleeper();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_writer_looks_ahead_when_one_slot_of_several_is_left() {
        let (passed, blocked) = (AtomicU64::new(0), AtomicU64::new(0));
        let tails = || {
            let (passed, blocked) = (&passed, &blocked);
            std::iter::once(Tail { passed, blocked })
        };
        let stamp = AtomicU64::new(0);
        let mut writer = WriteCursor::new(4, 1);
        for low in [false, false, true] {
            writer.publish(&stamp);
            assert_eq!(writer.runs_low(), low);
        }
        passed.store(2, Ordering::Relaxed);
        assert!(writer.seek(tails).unwrap());
        assert!(!writer.runs_low(), "two have been let go");
        assert_eq!(blocked.load(Ordering::Relaxed), 0, "it does not wait");
        let mut pair = WriteCursor::new(2, 1);
        pair.publish(&stamp);
        assert!(!pair.runs_low(), "it would look after each message");
    }
}
