//! The in-process channel: one writer, N readers, K slots; values lie in the slots and move by pointer.
//!
//! Stamps and tails work as `cursor.rs` says (`RING-1` to `RING-3`, `RING-6`). A stamp lies in the cache line of
//! a small payload, so a hop costs one line; each tail has a line of its own, and the writer looks at them only when
//! the ring seems full (as rtrb does), and once before that, when a message has gone out and nobody waits for the writer.
//!
//! - `RING-4` with one reader, that reader owns the message it reads: it moves it out or drops it. With several,
//!   the last to let go does (a countdown), so memory returns at once and not a lap later.
//! - `RING-5` a countdown starts at no fewer than the readers that will let go. After a reader has gone it may start
//!   too high for a lap; such a message is dropped when its slot is written again.
//! - `RING-7` readers never write to a slot's line but for the countdown: what they would write the writer's core would have
//!   to fetch back. Which slots hold a message follows from what is known otherwise: with one reader those of the messages
//!   that were written and that it has not passed (both ends leave behind how far they came); with several those whose
//!   countdown is not 0.
#![allow(unsafe_code)] // slots are cells

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use crate::cursor::{self, ReadCursor, Sight, WriteCursor};
use crate::dispose::dispose;
use crate::doorbell::Doorbell;
use crate::error::{ChannelError, SegmentError};
use crate::fault::Message;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Cell, Ordering};

/// A slot: stamp and message side by side. On two lines, since processors fetch lines in pairs: with its neighbour on the
/// second one, a slot that is being written and one that is being polled would disturb each other.
#[repr(align(128))]
struct Slot<T> {
    stamp: AtomicU64,
    /// Readers that have not let go; unused with one reader.
    left: AtomicU32,
    /// Initialised where RING-7 says so.
    message: Cell<MaybeUninit<Message<T>>>,
}

impl<T> Slot<T> {
    /// Makes the slot ready for a message to so many readers.
    #[inline(never)]
    fn clear_for(&self, readers: usize) {
        if self.left.load(Ordering::Relaxed) > 0 {
            // SAFETY: nobody else has it: every tail has passed it (RING-1), and it is still there (RING-5, RING-7).
            dispose(unsafe { self.take() });
        }
        // Relaxed: the stamp publishes it. RING-5: readers only become fewer.
        self.left.store(readers as u32, Ordering::Relaxed);
    }

    /// Moves the message out.
    ///
    /// # Safety
    /// There is one (RING-7), nobody else has it, and it is not used again.
    #[inline]
    unsafe fn take(&self) -> Message<T> {
        // SAFETY: initialised, and the caller's to move, as it promises; a `MaybeUninit` is laid out as what it may hold.
        self.message
            .with_mut(|cell| unsafe { cell.cast::<Message<T>>().read() })
    }

    /// Moves the value of the message out, where it has one; the value alone, which is less to be copied about.
    ///
    /// # Safety
    /// As for [`take`](Self::take), where it gives something; otherwise the message stays.
    #[inline]
    unsafe fn take_value(&self) -> Option<T> {
        self.message.with_mut(|cell| {
            // SAFETY: initialised, and the caller's, as it promises.
            let value = unsafe { &*cell.cast::<Message<T>>() }.as_ref().ok()?;
            // SAFETY: the caller's to move; a fault, which would have to be dropped, it is not.
            Some(unsafe { ptr::read(value) })
        })
    }
}

/// A reader's line; two, as for slots.
#[repr(align(128))]
struct Tail {
    passed: AtomicU64,
    blocked: AtomicU64,
    /// Where `passed` was when the reader went.
    went_at: AtomicU64,
}

impl Tail {
    fn words(&self) -> cursor::Tail<'_> {
        cursor::Tail {
            passed: &self.passed,
            blocked: &self.blocked,
        }
    }
}

struct Shared<T> {
    slots: Box<[Slot<T>]>,
    tails: Box<[Tail]>,
    closed: AtomicBool,
    /// Messages that were written to slots, once the writer has gone.
    written: AtomicU64,
    writer_bell: Doorbell,
    reader_bells: Vec<Doorbell>,
}

// SAFETY: a slot's cell is accessed only by whom RING-2 to RING-4 allow, and the stamps and tails hand it over
// with release and acquire; `T` moves between threads (Send) and is read by several at once (Sync).
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: all fields but the cells are Send; the cells hold `T: Send`.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

/// The writing end. Dropping it closes the ring.
pub struct RingWriter<T> {
    shared: Arc<Shared<T>>,
    cursor: WriteCursor,
    quiet: bool,
    /// The first message that was not written, because nobody was left to read it.
    alone_at: Option<u64>,
}

/// A reading end. Dropping it lets go of every message, also of those to come: it never holds the writer back.
pub struct RingReader<T> {
    shared: Arc<Shared<T>>,
    index: usize,
    cursor: ReadCursor,
    quiet: bool,
}

/// Room for so many, or what the system says.
fn reserved<T>(many: usize) -> Result<Vec<T>, ChannelError> {
    let mut room = Vec::new();
    match room.try_reserve_exact(many) {
        Ok(()) => Ok(room),
        Err(_) => Err(ChannelError::Segment(SegmentError::System {
            what: "allocation of slots".into(),
            len_bytes: (many as u64).saturating_mul(size_of::<T>() as u64),
            source: io::ErrorKind::OutOfMemory.into(),
        })),
    }
}

/// Makes a ring of `slots` slots with one reader for each of `reader_bells`.
///
/// # Errors
/// [`ChannelError::InvalidSpec`] when either number is zero, [`ChannelError::Segment`] when there is no memory for so many slots.
pub fn ring<T: Clone + Send + Sync + 'static>(
    slots: usize,
    writer_bell: Doorbell,
    reader_bells: Vec<Doorbell>,
) -> Result<(RingWriter<T>, Vec<RingReader<T>>), ChannelError> {
    for (what, value) in [("slots", slots), ("readers", reader_bells.len())] {
        if value == 0 {
            return Err(ChannelError::InvalidSpec {
                what,
                value: 0,
                least: 1,
            });
        }
    }
    let readers = reader_bells.len();
    let slot = |_| Slot {
        stamp: AtomicU64::new(0),
        left: AtomicU32::new(0),
        message: Cell::new(MaybeUninit::uninit()),
    };
    let tail = |_| Tail {
        passed: AtomicU64::new(0),
        blocked: AtomicU64::new(0),
        went_at: AtomicU64::new(0),
    };
    let mut cells = reserved(slots)?;
    cells.extend((0..slots).map(slot));
    let shared = Arc::new(Shared {
        slots: cells.into_boxed_slice(),
        tails: (0..readers).map(tail).collect(),
        closed: AtomicBool::new(false),
        written: AtomicU64::new(0),
        writer_bell,
        reader_bells,
    });
    let reader = |index| RingReader {
        shared: Arc::clone(&shared),
        index,
        cursor: ReadCursor::new(slots),
        quiet: false,
    };
    let ends = (0..readers).map(reader).collect();
    let cursor = WriteCursor::new(slots, readers);
    let writer = RingWriter {
        shared,
        cursor,
        quiet: false,
        alone_at: None,
    };
    Ok((writer, ends))
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // All ends are gone, and their last stores happened before: relaxed.
        if let [reader] = &*self.tails {
            let went_at = reader.went_at.load(Ordering::Relaxed);
            // At most a lap (RING-1).
            for message in went_at..self.written.load(Ordering::Relaxed) {
                let slot = usize::try_from(message % self.slots.len().max(1) as u64);
                if let Some(slot) = slot.ok().and_then(|slot| self.slots.get(slot)) {
                    // SAFETY: written and not passed (RING-7), and nobody is left who could have it.
                    dispose(unsafe { slot.take() });
                }
            }
            return;
        }
        for slot in &self.slots {
            if slot.left.load(Ordering::Relaxed) > 0 {
                // SAFETY: its countdown says that it is there (RING-7), and nobody is left who could have it.
                dispose(unsafe { slot.take() });
            }
        }
    }
}

impl<T> Shared<T> {
    /// Whether there is exactly one reader, which then owns what it reads (`RING-4`).
    #[inline]
    fn sole(&self) -> bool {
        self.tails.len() == 1
    }
}

impl<T> RingWriter<T> {
    /// Number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor.number()
    }

    /// Whether a write would succeed now.
    #[inline]
    pub fn has_space(&mut self) -> bool {
        self.cursor.has_space() || self.seek()
    }

    /// Whether every reader is done with every message.
    pub fn is_drained(&mut self) -> bool {
        let shared = &*self.shared;
        let tails = || shared.tails.iter().map(Tail::words);
        // A tail is never ahead: only readers of this type write it.
        self.cursor.drained(tails).unwrap_or(false)
    }

    #[inline(never)]
    fn seek(&mut self) -> bool {
        let shared = &*self.shared;
        let tails = || shared.tails.iter().map(Tail::words);
        // A tail is never ahead: only readers of this type write it.
        self.cursor.seek(tails).unwrap_or(false)
    }

    /// Whether this end has said that no message follows.
    pub fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// Writes the next message, or gives it back when every slot is taken, and after [`close`](Self::close).
    ///
    /// # Errors
    /// The message, unchanged.
    #[inline]
    pub fn try_write(&mut self, message: Message<T>) -> Result<(), Message<T>> {
        if !self.has_space() {
            return Err(message);
        }
        self.write(|| message);
        Ok(())
    }

    /// Writes a value, or gives it back: the short way for who says elsewhere why not. Most find space without a look, and one
    /// reader, which this is inlined for.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))] // for `channel` and `outlet`, which are not built under loom
    pub(crate) fn send(&mut self, value: T) -> Option<T> {
        if !self.cursor.has_space() || self.cursor.readers() != 1 || !self.shared.sole() {
            return self.send_other(value);
        }
        self.put(|| Ok(value));
        None
    }

    #[inline(never)]
    #[cfg_attr(loom, allow(dead_code))] // as `send`
    fn send_other(&mut self, value: T) -> Option<T> {
        self.try_write(Ok(value)).err().and_then(Message::ok)
    }

    /// Writes the next message, for which there is space.
    #[inline]
    fn write(&mut self, message: impl FnOnce() -> Message<T>) {
        if self.cursor.readers() == 0 {
            // Nobody is left to read it; numbers go on.
            if let Some(slot) = self.shared.slots.get(self.cursor.slot()) {
                self.alone_at.get_or_insert(self.cursor.number());
                self.cursor.publish(&slot.stamp);
            }
            return dispose(message());
        }
        if !self.shared.sole()
            && let Some(slot) = self.shared.slots.get(self.cursor.slot())
        {
            slot.clear_for(self.cursor.readers());
        }
        self.put(message);
    }

    /// Puts the next message into its slot, which is ready for it, for readers of which there are some. It is made where it is to
    /// lie: what has just been put together elsewhere, word by word, could be copied only after a while.
    #[inline]
    fn put(&mut self, message: impl FnOnce() -> Message<T>) {
        let Some(slot) = self.shared.slots.get(self.cursor.slot()) else {
            return;
        };
        // SAFETY: every tail has passed the message that lay here (there is space, RING-1), so the slot is the writer's alone
        // (RING-3) until the stamp below. It holds nothing: the only reader has taken what it passed (RING-4), of several the
        // last one has, or it was cleared.
        slot.message
            .with_mut(|cell| unsafe { cell.cast::<Message<T>>().write(message()) });
        self.cursor.publish(&slot.stamp);
        if !self.quiet {
            Doorbell::ring_all(&self.shared.reader_bells);
        }
        if self.cursor.runs_low() {
            // The tails' lines come from other cores, which nobody waits for now.
            self.seek();
        }
    }

    /// Which readers hold the writer back, for people.
    #[cfg(not(loom))]
    pub(crate) fn laggards(&self) -> String {
        let tails = self
            .shared
            .tails
            .iter()
            .map(|tail| tail.passed.load(Ordering::Relaxed));
        let behind = tails.enumerate().filter(|(_, passed)| *passed < self.position());
        let slowest = behind.clone().map(|(_, passed)| passed).min();
        let holds_back = behind.filter(|(_, passed)| Some(*passed) == slowest);
        let text = holds_back.map(|(index, passed)| format!("reader {index} is at message {passed}"));
        text.collect::<Vec<_>>().join(", ")
    }

    /// While `quiet`, sleeping readers are not woken; at its end they are. One fence for many messages.
    #[cfg_attr(loom, allow(dead_code))] // for `channel`, which is not built under loom
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
        if !quiet {
            Doorbell::ring_all(&self.shared.reader_bells);
        }
    }

    /// Says that no message follows, and wakes the readers. Never waits; again is the same as once. What is written
    /// afterwards is given back.
    pub fn close(&mut self) {
        self.cursor.close();
        // SYNC ring-closed: pairs with the load in `is_closed`; the last stamp happened before.
        self.shared.closed.store(true, Ordering::Release);
        Doorbell::ring_all(&self.shared.reader_bells);
    }
}

impl<T> Drop for RingWriter<T> {
    fn drop(&mut self) {
        let written = self.alone_at.unwrap_or_else(|| self.position());
        // Relaxed: for who drops what both ends shared, which orders it.
        self.shared.written.store(written, Ordering::Relaxed);
        self.close();
    }
}

impl<T> RingReader<T> {
    /// Number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor.number()
    }

    #[inline]
    fn slot(&self) -> Option<&Slot<T>> {
        self.shared.slots.get(self.cursor.slot())
    }

    /// Whether there is no other reader, so that messages are moved out.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))] // for `value`, which is not built under loom
    pub(crate) fn is_sole(&self) -> bool {
        self.shared.sole()
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.slot()
            .is_some_and(|slot| self.cursor.look(&slot.stamp) == Sight::Ready)
    }

    /// Whether the next message can be read.
    #[inline]
    pub fn ready(&mut self) -> bool {
        self.is_ready()
    }

    /// The next message, in place.
    #[inline]
    pub fn peek(&mut self) -> Option<&Message<T>> {
        self.current()
    }

    /// The next message, in place, for as long as nobody moves this end.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Message<T>> {
        let slot = self.slot()?;
        if self.cursor.look(&slot.stamp) != Sight::Ready {
            return None;
        }
        // SAFETY: stamped and not yet passed by this cursor, so it is there (RING-7) and nobody writes it (RING-2); the
        // reference borrows `self`, and only `&mut self` methods move the cursor or the message.
        Some(slot.message.with(|cell| unsafe { &*cell.cast::<Message<T>>() }))
    }

    /// Lets go of the next message, whether read or not, if it is there.
    #[inline]
    pub fn release(&mut self) {
        if self.is_ready() {
            dispose(self.pass());
        }
    }

    /// Passes the message that is there; the sole reader and the last of several get it (`RING-4`).
    #[inline]
    fn pass(&mut self) -> Option<Message<T>> {
        let shared = &*self.shared;
        let (slot, tail) = (
            shared.slots.get(self.cursor.slot())?,
            shared.tails.get(self.index)?,
        );
        let mut message = None;
        // SYNC last-reader: release, so that our reads happen before the last one's move; acquire, so that if we
        // are the last, the others' did.
        if shared.sole() || slot.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: it is there, since this cursor has not passed it (RING-7), and the sole reader owns it, as does the last
            // of several (RING-4).
            message = Some(unsafe { slot.take() });
        }
        self.cursor.pass(tail.words(), &shared.writer_bell, self.quiet);
        message
    }

    /// While `quiet`, a writer that waits for space is not woken; at its end it is. One fence for many messages.
    #[cfg_attr(loom, allow(dead_code))] // for `channel`, which is not built under loom
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
        if !quiet && let Some(tail) = self.shared.tails.get(self.index) {
            cursor::freed(tail.words(), &self.shared.writer_bell);
        }
    }

    /// Whether the writer is gone and every message has been read.
    pub fn is_closed(&self) -> bool {
        // SYNC ring-closed: the look at the stamp comes after, so no message is missed.
        self.shared.closed.load(Ordering::Acquire) && !self.is_ready()
    }
}

impl<T: Clone> RingReader<T> {
    /// As [`take`](Self::take), of a value that this is the sole reader of; a fault stays.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))] // for `channel`, which is not built under loom
    pub(crate) fn take_value(&mut self) -> Option<T> {
        let shared = &*self.shared;
        let (slot, tail) = (self.slot()?, shared.tails.get(self.index)?);
        if !shared.sole() || self.cursor.look(&slot.stamp) != Sight::Ready {
            return None;
        }
        // SAFETY: stamped and not yet passed, so it is there (RING-7), and the sole reader owns it (RING-4).
        let value = unsafe { slot.take_value() }?;
        self.cursor.pass(tail.words(), &shared.writer_bell, self.quiet);
        Some(value)
    }

    /// The next message: moved when this is the only reader or the last one, cloned otherwise. Passes it.
    #[inline]
    pub fn take(&mut self) -> Option<Message<T>> {
        if let Some(value) = self.take_value() {
            return Some(Ok(value));
        }
        if !self.is_ready() {
            return None;
        }
        let last = self.shared.sole()
            || self
                .slot()
                // SYNC last-reader: one is left and that is us, since we have not let go.
                .is_some_and(|slot| slot.left.load(Ordering::Acquire) == 1);
        if last {
            return self.pass();
        }
        let cloned = self.current().cloned();
        dispose(self.pass());
        cloned
    }
}

impl<T> Drop for RingReader<T> {
    fn drop(&mut self) {
        // At most a lap: a writer that goes on meanwhile must not keep us here.
        for _ in 0..self.shared.slots.len() {
            self.release();
        }
        if let Some(tail) = self.shared.tails.get(self.index) {
            // Relaxed: for who drops what the ends shared, which orders it.
            tail.went_at.store(self.position(), Ordering::Relaxed);
            self.cursor.leave(tail.words(), &self.shared.writer_bell);
        }
    }
}
