//! Where the ends of a ring stand: the protocol of [`ring`](mod@crate::ring) and [`shared`](crate::shared), free of
//! where its words lie, so that loom and Miri run the very code that two processes run.
//!
//! A slot has a stamp, a reader has a tail. Message `i` lies in slot `i % K` and may be read once the stamp is
//! `i + 1`; a reader's tail is the number of messages it is done with. No word has two writers, so nothing here is a
//! read-modify-write.
//!
//! - `RING-1` message `i` is written only when every tail is above `i - K`.
//! - `RING-2` between the stamp `i + 1` and its own tail `i + 1`, a reader may read slot `i % K`; nobody writes it.
//! - `RING-3` while no reader may read it, the slot belongs to the writer.
//! - `RING-6` a writer that finds no space says so in every reader's `blocked` and looks at the tails once more; a
//!   reader that moves its tail looks at its `blocked` afterwards. One of them sees the other (Dekker's pattern, as
//!   in `doorbell.rs`), and while slots suffice no reader wakes the writer, which may be asleep for something else.
//!   `blocked` shares the tail's line, which the reader owns just then.
//!
//! ```text
//! writer                                  reader
//! wait until i < limit                    wait until stamp[i % K] == i + 1   acquire, SYNC slot-published
//! fill slot i % K                         read slot i % K
//! stamp[i % K] = i + 1   release          tail = i + 1                       release
//! limit = min(tails) + K acquire, SYNC slot-released
//! none: blocked = 1, fence, look again    fence, if blocked: wake the writer   SYNC ring-blocked
//! ```

use crate::doorbell::Doorbell;
use crate::sync::{AtomicU64, Ordering, fence};

/// The tail of a reader that is gone: it does not hold the writer back.
pub(crate) const GONE: u64 = u64::MAX;

/// The number of a message and the slot it lies in; the slot is counted along, for a division costs more than
/// everything else on the way.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    slot: usize,
    slots: usize,
}

impl Place {
    #[inline]
    fn step(&mut self) {
        self.number += 1;
        self.slot += 1;
        if self.slot == self.slots {
            self.slot = 0;
        }
    }
}

/// A reader's words, on one line.
#[derive(Clone, Copy)]
pub(crate) struct Tail<'a> {
    /// Messages the reader is done with, or [`GONE`]. The reader writes it.
    pub(crate) passed: &'a AtomicU64,
    /// Not 0: the writer waits for space. The writer writes it.
    pub(crate) blocked: &'a AtomicU64,
}

/// A tail is ahead of the writer: no honest reader leaves that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ahead;

/// The writer's side.
#[derive(Debug)]
pub(crate) struct WriteCursor {
    place: Place,
    /// The first message that may not be written yet, as far as is known (`RING-1`).
    limit: u64,
    /// `limit`, or 0 once no message follows.
    end: u64,
    /// Readers that were there at the last look.
    readers: usize,
    /// Whether "blocked" has been said (`RING-6`).
    blocked: bool,
}

impl WriteCursor {
    pub(crate) fn new(slots: usize, readers: usize) -> Self {
        WriteCursor {
            place: Place {
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

    /// Number of the next message.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.place.number
    }

    /// The slot the next message goes to.
    #[inline]
    pub(crate) fn slot(&self) -> usize {
        self.place.slot
    }

    /// Messages below this number have been let go by every reader.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))] // for the shared ring, which is not built under loom
    pub(crate) fn passed(&self) -> u64 {
        self.limit - self.place.slots as u64
    }

    /// Readers at the last look; one that is gone stays gone, so there are never more.
    #[inline]
    pub(crate) fn readers(&self) -> usize {
        self.readers
    }

    /// Whether the next message may be written, by what is known without a look.
    #[inline]
    pub(crate) fn has_space(&self) -> bool {
        self.place.number < self.end
    }

    /// No message follows: from now on there is no space.
    pub(crate) fn close(&mut self) {
        self.end = 0;
    }

    /// Whether no message follows.
    pub(crate) fn is_closed(&self) -> bool {
        self.end == 0
    }

    /// Whether space is known for one more message only, of several slots.
    #[inline]
    pub(crate) fn runs_low(&self) -> bool {
        self.limit - self.place.number == 1 && self.place.slots > 2
    }

    /// Looks for space, and says so where there is none (`RING-6`).
    pub(crate) fn seek<'a, T: Iterator<Item = Tail<'a>>>(
        &mut self,
        tails: impl Fn() -> T,
    ) -> Result<bool, Ahead> {
        self.look_until(tails, Self::has_space)
    }

    /// Looks whether every reader is done with every message, and says "blocked" where one is not (`RING-6`).
    pub(crate) fn drained<'a, T: Iterator<Item = Tail<'a>>>(
        &mut self,
        tails: impl Fn() -> T,
    ) -> Result<bool, Ahead> {
        self.look_until(tails, |cursor| {
            cursor.limit - cursor.place.slots as u64 == cursor.place.number
        })
    }

    fn look_until<'a, T: Iterator<Item = Tail<'a>>>(
        &mut self,
        tails: impl Fn() -> T,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<bool, Ahead> {
        self.look(tails())?;
        if !enough(self) && !self.blocked {
            self.say_blocked(tails(), true);
            // SYNC ring-blocked: pairs with the fence in `freed`; orders "blocked" before the look at the tails.
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
        // Relaxed: "blocked" is ordered by the fence, and its end by nothing: a late ring does no harm.
        tails.for_each(|tail| tail.blocked.store(blocked.into(), Ordering::Relaxed));
        self.blocked = blocked;
    }

    fn look<'a>(&mut self, tails: impl Iterator<Item = Tail<'a>>) -> Result<(), Ahead> {
        let mut slowest = self.place.number;
        let mut readers = 0;
        for tail in tails {
            // SYNC slot-released: pairs with the stores in `pass` and `leave`; what that reader did to the slots
            // happened before (RING-1). Relaxed would let us write under its eyes.
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
        // A tail that went back is a lie; the liar alone pays for not being believed.
        self.limit = self.limit.max(slowest + self.place.slots as u64);
        if !self.is_closed() {
            self.end = self.limit;
        }
        Ok(())
    }

    /// Publishes what was put into the slot, whose stamp this is.
    #[inline]
    pub(crate) fn publish(&mut self, stamp: &AtomicU64) {
        // SYNC slot-published: pairs with the load in `ReadCursor::look`; publishes the slot.
        stamp.store(self.place.number + 1, Ordering::Release);
        self.place.step();
    }
}

/// What a reader sees in a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The next message is there.
    Ready,
    /// It is still the stamp of the lap before.
    NotYet,
    /// No honest writer leaves this.
    Impossible,
}

/// A reader's side.
#[derive(Debug)]
pub(crate) struct ReadCursor {
    place: Place,
}

impl ReadCursor {
    pub(crate) fn new(slots: usize) -> Self {
        ReadCursor {
            place: Place {
                number: 0,
                slot: 0,
                slots,
            },
        }
    }

    /// Number of the next message.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.place.number
    }

    /// The slot the next message lies in.
    #[inline]
    pub(crate) fn slot(&self) -> usize {
        self.place.slot
    }

    /// Whether the slot with this stamp holds the next message.
    #[inline]
    pub(crate) fn look(&self, stamp: &AtomicU64) -> Sight {
        // SYNC slot-published: pairs with the store in `publish`; the slot's content happened before.
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

    /// Is done with the next message: its slot is no longer ours (`RING-2`). Wakes the writer if it waits for space,
    /// unless `quiet`: then `freed` is owed.
    #[inline]
    pub(crate) fn pass(&mut self, tail: Tail<'_>, writer: &Doorbell, quiet: bool) {
        self.place.step();
        // SYNC slot-released: pairs with the load in `WriteCursor::look`; all reads of the slot happened before.
        tail.passed.store(self.place.number, Ordering::Release);
        if !quiet {
            freed(tail, writer);
        }
    }

    /// Is done with all messages, also those to come. Wakes the writer if it waits for space.
    pub(crate) fn leave(&self, tail: Tail<'_>, writer: &Doorbell) {
        // SYNC slot-released.
        tail.passed.store(GONE, Ordering::Release);
        freed(tail, writer);
    }
}

/// Wakes the writer if it waits for space, which has come before.
#[inline]
pub(crate) fn freed(tail: Tail<'_>, writer: &Doorbell) {
    // SYNC ring-blocked: pairs with the fence in `seek`; orders the tail before the look at `blocked`.
    // SYNC bell: and before the look at the doorbell, so one fence does for both.
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
