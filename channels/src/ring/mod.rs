//! The in-process channel: one writer, N readers, K slots. Values lie in the slots and move by pointer.
//!
//! Stamps and tails follow the protocol of `cursor.rs` (`RING-1` to `RING-3`, `RING-6`). A stamp lies in the cache line
//! of a small payload, so a hop costs one line. Each tail has a line of its own. The writer reads the tails only when
//! the ring seems full (as rtrb does), and once shortly before: after it has published a message, when no thread waits
//! for the writer.
//!
//! - `RING-4` with one reader, that reader owns the message it reads: it moves it out or drops it. With several
//!   readers, the last one to release the message owns it (a countdown), so the memory is freed at once and not a lap
//!   later.
//! - `RING-5` a countdown starts at no fewer than the number of readers that will release the message. After a reader
//!   has been dropped the countdown may start too high for a lap; such a message is dropped when its slot is written
//!   again.
//! - `RING-7` readers never write to a slot's line except for the countdown: the writer's core would have to fetch the
//!   line back. The slots that hold a message are known by other means. With one reader, they are the slots of the
//!   messages that were written and that the reader has not passed (the writer leaves its last position behind; the reader's
//!   is its tail, or lies beside a tail that says that it has left). With several readers, they are the slots whose countdown
//!   is not 0.
//! - `RING-8` the slot of a cursor is below the number of slots: both ends make their cursor with the number of slots of
//!   the ring, which is not 0, and a cursor counts its slot modulo that number.
//! - `RING-9` a ring with several readers holds values that several threads may read at the same time (`Sync`) and that can be
//!   cloned: [`ring`] asks for both. A ring of [`ring_of_one`] has one reader.

#![allow(unsafe_code)] // the slots are `UnsafeCell`s

pub(crate) mod cursor;

use std::any::type_name;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use crate::dispose::dispose;
use crate::error::{ChannelError, SegmentError};
use crate::fault::{Fault, Message};
use crate::ring::cursor::{ReadCursor, Sight, WriteCursor};
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Cell, Ordering};
use crate::wait::doorbell::Doorbell;

/// A slot: the stamp and the message side by side. It fills two cache lines, since processors fetch lines in pairs. If
/// its neighbour lay on the second line, a slot being written and a slot being polled would disturb each other.
#[repr(align(128))]
struct Slot<T> {
    stamp: AtomicU64,
    /// The number of readers that have not released the message; unused with one reader.
    left: AtomicU32,
    /// The message. Initialised in the slots that RING-7 names.
    message: Cell<MaybeUninit<Message<T>>>,
}

impl<T> Slot<T> {
    /// Prepares the slot for a message to `readers` readers: drops a message that is left over, and sets the countdown.
    #[inline(never)]
    fn clear_for(&self, readers: usize) {
        // Relaxed: the read of the tails (SYNC slot-released) has ordered the readers' last countdowns before.
        if self.left.load(Ordering::Relaxed) > 0 {
            // SAFETY: no other end accesses it: every tail has passed it (RING-1). It is still initialised (RING-5,
            // RING-7).
            dispose(unsafe { self.take() });
        }
        // Relaxed: the stamp publishes it. RING-5: the number of readers only decreases.
        self.left.store(readers as u32, Ordering::Relaxed);
    }

    /// Moves the message out of the slot.
    ///
    /// # Safety
    /// The slot holds a message (RING-7), no other end accesses it, and the message is not used again.
    #[inline]
    unsafe fn take(&self) -> Message<T> {
        // SAFETY: initialised, and the caller may move it, as the caller promises. A `MaybeUninit<M>` has the layout of
        // `M`.
        self.message
            .with_mut(|cell| unsafe { cell.cast::<Message<T>>().read() })
    }

    /// Moves the value out of the message, if the message is a value and not a fault. Moves only the value, because it
    /// is smaller to copy than the whole message.
    ///
    /// # Safety
    /// The conditions of [`take`](Self::take). If the result is `None`, the message stays in the slot and may still be
    /// used.
    #[inline]
    unsafe fn take_value(&self) -> Option<T> {
        self.message.with_mut(|cell| {
            // SAFETY: initialised, and no other end accesses it, as the caller promises.
            let value = unsafe { &*cell.cast::<Message<T>>() }.as_ref().ok()?;
            // SAFETY: the caller may move it. It is not a fault, which would still have to be dropped.
            Some(unsafe { ptr::read(value) })
        })
    }
}

/// The shared words of one reader. They fill two cache lines, for the reason given at `Slot`.
#[repr(align(128))]
struct TailLine {
    passed: AtomicU64,
    blocked: AtomicU64,
    /// The reader's position when it left.
    went_at: AtomicU64,
}

impl TailLine {
    fn words(&self) -> cursor::Tail<'_> {
        cursor::Tail {
            passed: &self.passed,
            blocked: &self.blocked,
        }
    }
}

struct RingShared<T> {
    slots: Box<[Slot<T>]>,
    /// Clones a value, in a ring that may have several readers (RING-9).
    clone: Option<fn(&T) -> T>,
    tails: Box<[TailLine]>,
    closed: AtomicBool,
    /// The number of messages that were written to slots. Set when the writer is dropped.
    written: AtomicU64,
    writer_bell: Doorbell,
    reader_bells: Vec<Doorbell>,
}

// SAFETY: RING-2 to RING-4 say which end may access a slot's cell at a time, and the stamps and tails hand it over with
// release and acquire. `T` moves between threads (Send). Several threads read it at once only through several readers,
// and then it is Sync (RING-9), or through a shared reference to one reader, which is Sync only if `T` is.
unsafe impl<T: Send> Sync for RingShared<T> {}
// SAFETY: all fields except the cells are Send; the cells hold `T: Send`.
unsafe impl<T: Send> Send for RingShared<T> {}

/// The writing end of a ring. Dropping it closes the ring.
pub struct RingWriter<T> {
    shared: Arc<RingShared<T>>,
    cursor: WriteCursor,
    quiet: bool,
    /// The number of the first message that was not written because no reader was left.
    alone_at: Option<u64>,
    /// An end is `Sync` only if its values are.
    values: PhantomData<T>,
}

/// A reading end of a ring. Dropping it releases every message, including later ones: the writer never waits for it
/// again.
pub struct RingReader<T> {
    shared: Arc<RingShared<T>>,
    index: usize,
    cursor: ReadCursor,
    quiet: bool,
    /// An end is `Sync` only if its values are.
    values: PhantomData<T>,
}

/// Returns an empty vector with room for `many` elements, or an error if there is not enough memory.
pub(crate) fn reserved<T>(what: &'static str, many: usize) -> Result<Vec<T>, ChannelError> {
    let mut room = Vec::new();
    match room.try_reserve_exact(many) {
        Ok(()) => Ok(room),
        Err(_) => Err(ChannelError::Segment(SegmentError::System {
            what: what.into(),
            len_bytes: (many as u64).saturating_mul(size_of::<T>() as u64),
            error: io::ErrorKind::OutOfMemory.into(),
        })),
    }
}

/// Makes a ring of `slots` slots with one reader for each of `reader_bells`.
///
/// # Errors
/// [`ChannelError::InvalidSpec`] when either number is zero, [`ChannelError::Segment`] when there is not enough memory
/// for the slots or the readers.
pub fn ring<T: Clone + Send + Sync + 'static>(
    slots: usize,
    writer_bell: Doorbell,
    reader_bells: Vec<Doorbell>,
) -> Result<(RingWriter<T>, Vec<RingReader<T>>), ChannelError> {
    of_readers(slots, writer_bell, reader_bells, Some(T::clone))
}

/// Makes a ring of `slots` slots with one reader, for values that need not be `Clone` or `Sync`.
///
/// # Errors
/// The errors of [`ring`].
pub fn ring_of_one<T: Send + 'static>(
    slots: usize,
    writer_bell: Doorbell,
    reader_bell: Doorbell,
) -> Result<(RingWriter<T>, RingReader<T>), ChannelError> {
    of_one(slots, writer_bell, reader_bell, None)
}

/// Makes a ring as [`ring_of_one`] does, whose reader may read a message several times and take a clone each time.
///
/// # Errors
/// The errors of [`ring`].
#[cfg_attr(loom, allow(dead_code))] // for `kind`, which is not built under loom
pub(crate) fn ring_of_one_cloned<T: Clone + Send + 'static>(
    slots: usize,
    writer_bell: Doorbell,
    reader_bell: Doorbell,
) -> Result<(RingWriter<T>, RingReader<T>), ChannelError> {
    of_one(slots, writer_bell, reader_bell, Some(T::clone))
}

fn of_one<T>(
    slots: usize,
    writer_bell: Doorbell,
    reader_bell: Doorbell,
    clone: Option<fn(&T) -> T>,
) -> Result<(RingWriter<T>, RingReader<T>), ChannelError> {
    let (writer, readers) = of_readers(slots, writer_bell, vec![reader_bell], clone)?;
    let reader = readers.into_iter().next();
    reader
        .map(|reader| (writer, reader))
        .ok_or(ChannelError::InvalidSpec {
            what: "readers",
            value: 0,
            least: 1,
        })
}

/// Makes a ring. The caller keeps RING-9.
fn of_readers<T>(
    slots: usize,
    writer_bell: Doorbell,
    reader_bells: Vec<Doorbell>,
    clone: Option<fn(&T) -> T>,
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
    let tail = |_| TailLine {
        passed: AtomicU64::new(0),
        blocked: AtomicU64::new(0),
        went_at: AtomicU64::new(0),
    };
    let mut cells = reserved("allocation of slots", slots)?;
    cells.extend((0..slots).map(slot));
    let mut tails = reserved("allocation of readers", readers)?;
    tails.extend((0..readers).map(tail));
    let shared = Arc::new(RingShared {
        slots: cells.into_boxed_slice(),
        clone,
        tails: tails.into_boxed_slice(),
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
        values: PhantomData,
    };
    let ends = (0..readers).map(reader).collect();
    let cursor = WriteCursor::new(slots, readers);
    let writer = RingWriter {
        shared,
        cursor,
        quiet: false,
        alone_at: None,
        values: PhantomData,
    };
    Ok((writer, ends))
}

impl<T> Drop for RingShared<T> {
    fn drop(&mut self) {
        // Relaxed: all ends have been dropped, and their last stores happened before.
        if let [reader] = &*self.tails {
            let went_at = match reader.passed.load(Ordering::Relaxed) {
                cursor::GONE => reader.went_at.load(Ordering::Relaxed),
                // A panic out of a berth has ended the reader's drop halfway.
                passed => passed,
            };
            // At most one lap (RING-1).
            for message in went_at..self.written.load(Ordering::Relaxed) {
                let slot = usize::try_from(message % self.slots.len().max(1) as u64);
                if let Some(slot) = slot.ok().and_then(|slot| self.slots.get(slot)) {
                    // SAFETY: written and not passed (RING-7), and no end is left that could access it.
                    dispose(unsafe { slot.take() });
                }
            }
            return;
        }
        for slot in &self.slots {
            if slot.left.load(Ordering::Relaxed) > 0 {
                // SAFETY: its countdown is not 0, so it is initialised (RING-7), and no end is left that could access
                // it.
                dispose(unsafe { slot.take() });
            }
        }
    }
}

impl<T> RingShared<T> {
    /// Whether there is exactly one reader, which then owns the messages it reads (`RING-4`).
    #[inline]
    fn sole(&self) -> bool {
        self.tails.len() == 1
    }

    /// A copy of a message, if its values can be cloned.
    fn copy(&self, message: Result<&T, &Fault>) -> Option<Message<T>> {
        match message {
            Ok(value) => self.clone.map(|clone| Ok(clone(value))),
            Err(fault) => Some(Err(fault.clone())),
        }
    }
}

impl<T> RingWriter<T> {
    /// The number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor.number()
    }

    /// Whether a write would succeed now.
    #[inline]
    pub fn has_space(&mut self) -> bool {
        self.cursor.has_space() || self.seek()
    }

    /// Whether every reader has passed every message.
    pub fn is_drained(&mut self) -> bool {
        let shared = &*self.shared;
        let tails = || shared.tails.iter().map(TailLine::words);
        // A tail is never ahead: only `RingReader`s write it.
        self.cursor.drained(tails).unwrap_or(false)
    }

    #[inline(never)]
    fn seek(&mut self) -> bool {
        let shared = &*self.shared;
        let tails = || shared.tails.iter().map(TailLine::words);
        // A tail is never ahead: only `RingReader`s write it.
        self.cursor.seek(tails).unwrap_or(false)
    }

    /// Whether this end was closed by [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// Writes the next message. Returns it when every slot is taken, and after [`close`](Self::close).
    ///
    /// # Errors
    /// The message, unchanged.
    #[inline]
    pub fn try_write(&mut self, message: Message<T>) -> Result<(), Message<T>> {
        if !self.has_space() {
            return Err(message);
        }
        self.write(message);
        Ok(())
    }

    /// A copy of a message, or the reason why there is none: the ring has one reader, and its values need not be `Clone`.
    pub(crate) fn copy(&self, message: Result<&T, &Fault>) -> Result<Message<T>, ChannelError> {
        self.shared.copy(message).ok_or(ChannelError::NotClone {
            type_name: type_name::<T>(),
        })
    }

    /// Writes `value` if a slot is free, else returns it without the reason. Inlined for the usual case: one reader,
    /// and space that is known without reading its tail.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))] // for `channel` and `outlet`, which are not built under loom
    pub(crate) fn try_put(&mut self, value: T) -> Option<T> {
        if !self.cursor.has_space() || self.cursor.readers() != 1 || !self.shared.sole() {
            return self.try_put_other(value);
        }
        self.put(|| Ok(value));
        None
    }

    #[inline(never)]
    #[cfg_attr(loom, allow(dead_code))] // see `try_put`
    fn try_put_other(&mut self, value: T) -> Option<T> {
        self.try_write(Ok(value)).err().and_then(Message::ok)
    }

    /// Writes the next message. The caller has checked that there is space.
    #[inline]
    pub(crate) fn write(&mut self, message: Message<T>) {
        if self.cursor.readers() == 0 {
            // No reader is left. The message is dropped, and the numbering continues.
            if let Some(slot) = self.shared.slots.get(self.cursor.slot()) {
                self.alone_at.get_or_insert(self.cursor.number());
                self.cursor.publish(&slot.stamp);
            }
            return dispose(message);
        }
        if !self.shared.sole()
            && let Some(slot) = self.shared.slots.get(self.cursor.slot())
        {
            // The slot counts as full from now on (RING-7), so what fills it must not run user code.
            slot.clear_for(self.cursor.readers());
        }
        self.put(|| message);
    }

    /// Writes the next message into its slot and publishes it. The slot is ready for it, and there is at least one
    /// reader. The message is constructed in the slot itself: copying a value right after it was written field by field
    /// would stall the core until its stores have completed.
    #[inline]
    fn put(&mut self, message: impl FnOnce() -> Message<T>) {
        // SAFETY: in bounds (RING-8).
        let slot = unsafe { self.shared.slots.get_unchecked(self.cursor.slot()) };
        // SAFETY: every tail has passed the message that lay here (there is space, RING-1), so the slot belongs to the
        // writer alone (RING-3) until the stamp below. The cell holds no message: the only reader has taken the
        // messages it passed (RING-4); of several readers the last one has, or `clear_for` has dropped it.
        slot.message
            .with_mut(|cell| unsafe { cell.cast::<Message<T>>().write(message()) });
        self.cursor.publish(&slot.stamp);
        if !self.quiet {
            Doorbell::ring_all(&self.shared.reader_bells);
        }
        if self.cursor.runs_low() {
            // The tails' lines come from other cores. At this moment no thread waits for the writer.
            self.seek();
        }
    }

    /// Names the readers that hold the writer back, as text for error messages.
    #[cfg(not(loom))]
    pub(crate) fn laggards(&self) -> String {
        // Relaxed: the numbers are only shown to people.
        let passed = |tail: &TailLine| tail.passed.load(Ordering::Relaxed);
        let tails = self.shared.tails.iter().map(passed);
        let behind = tails.enumerate().filter(|(_, passed)| *passed < self.position());
        let slowest = behind.clone().map(|(_, passed)| passed).min();
        let holds_back = behind.filter(|(_, passed)| Some(*passed) == slowest);
        let text = holds_back.map(|(index, passed)| format!("reader {index} is at message {passed}"));
        text.collect::<Vec<_>>().join(", ")
    }

    /// Sets quiet mode: sleeping readers are not woken until quiet mode ends. One fence then serves many messages.
    #[cfg_attr(loom, allow(dead_code))] // for `channel`, which is not built under loom
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
        if !quiet {
            Doorbell::ring_all(&self.shared.reader_bells);
        }
    }

    /// Closes the ring: no message follows. Wakes the readers and never blocks. A second call changes nothing. Later
    /// writes return their message.
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
        // Relaxed: it is read only by the drop of the shared part, and the drop of the `Arc` orders that.
        self.shared.written.store(written, Ordering::Relaxed);
        self.close();
    }
}

impl<T> RingReader<T> {
    /// The number of the next message.
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

    /// Whether the next message can be read.
    #[inline]
    pub fn ready(&self) -> bool {
        self.slot()
            .is_some_and(|slot| self.cursor.look(&slot.stamp) == Sight::Ready)
    }

    /// The next message, in place, until this end moves on. `None` if it has not arrived.
    #[inline]
    pub fn current(&self) -> Option<&Message<T>> {
        let slot = self.slot()?;
        if self.cursor.look(&slot.stamp) != Sight::Ready {
            return None;
        }
        // SAFETY: stamped and not yet passed by this cursor, so it is initialised (RING-7) and no end writes it
        // (RING-2). The reference borrows `self`, and only `&mut self` methods move the cursor or the message.
        Some(slot.message.with(|cell| unsafe { &*cell.cast::<Message<T>>() }))
    }

    /// Releases the next message, read or unread, if it has arrived.
    #[inline]
    pub fn release(&mut self) {
        if self.ready() {
            dispose(self.pass());
        }
    }

    /// Passes the message that has arrived. Returns it if this is the sole reader or the last of several (`RING-4`).
    #[inline]
    fn pass(&mut self) -> Option<Message<T>> {
        let shared = &*self.shared;
        let (slot, tail) = (
            shared.slots.get(self.cursor.slot())?,
            shared.tails.get(self.index)?,
        );
        let mut message = None;
        // SYNC last-reader: release, so that this reader's reads happen before the last reader's move; acquire, so that
        // if this reader is the last, the other readers' reads happened before.
        if shared.sole() || slot.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: it is initialised, since this cursor has not passed it (RING-7). The sole reader owns it, and so
            // does the last of several (RING-4).
            message = Some(unsafe { slot.take() });
        }
        self.cursor.pass(tail.words(), &shared.writer_bell, self.quiet);
        message
    }

    /// Sets quiet mode: a writer that waits for space is not woken until quiet mode ends. One fence then serves many
    /// messages.
    #[cfg_attr(loom, allow(dead_code))] // for `channel`, which is not built under loom
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
        if !quiet && let Some(tail) = self.shared.tails.get(self.index) {
            cursor::freed(tail.words(), &self.shared.writer_bell);
        }
    }

    /// Whether the writer has closed its end and every message has been passed.
    pub fn is_closed(&self) -> bool {
        // SYNC ring-closed: the stamp is read afterwards, so no message is missed.
        self.shared.closed.load(Ordering::Acquire) && !self.ready()
    }
}

impl<T> RingReader<T> {
    /// A copy of the current value.
    #[cfg_attr(loom, allow(dead_code))] // for `kind`, which is not built under loom
    pub(crate) fn copy(&self) -> Result<T, ChannelError> {
        let Some(Ok(value)) = self.current() else {
            return Err(ChannelError::NoValue);
        };
        let clone = self.shared.clone.ok_or(ChannelError::NotClone {
            type_name: type_name::<T>(),
        })?;
        Ok(clone(value))
    }

    /// Moves the next value out and passes it, if this is the sole reader. Returns `None` for a fault, which stays in
    /// the slot.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))] // for `channel`, which is not built under loom
    pub(crate) fn take_value(&mut self) -> Option<T> {
        let shared = &*self.shared;
        let (slot, tail) = (self.slot()?, shared.tails.get(self.index)?);
        if !shared.sole() || self.cursor.look(&slot.stamp) != Sight::Ready {
            return None;
        }
        // SAFETY: stamped and not yet passed, so it is initialised (RING-7), and the sole reader owns it (RING-4).
        let value = unsafe { slot.take_value() }?;
        self.cursor.pass(tail.words(), &shared.writer_bell, self.quiet);
        Some(value)
    }

    /// Takes the next message and passes it. The message is moved out if this is the only reader or the last one, else
    /// cloned.
    #[inline]
    pub fn take(&mut self) -> Option<Message<T>> {
        if let Some(value) = self.take_value() {
            return Some(Ok(value));
        }
        if !self.ready() {
            return None;
        }
        let last = self.shared.sole()
            || self
                .slot()
                // SYNC last-reader: 1 means that only this reader is left, since it has not released the message.
                .is_some_and(|slot| slot.left.load(Ordering::Acquire) == 1);
        if last {
            return self.pass();
        }
        let current = self.current()?;
        // Several readers, so the values can be cloned (RING-9).
        let copy = self.shared.copy(current.as_ref());
        dispose(self.pass());
        copy
    }
}

impl<T> Drop for RingReader<T> {
    fn drop(&mut self) {
        // At most one lap: a writer that keeps writing must not keep this loop running.
        for _ in 0..self.shared.slots.len() {
            self.release();
        }
        if let Some(tail) = self.shared.tails.get(self.index) {
            // Relaxed: it is read only by the drop of the shared part, and the drop of the `Arc` orders that.
            tail.went_at.store(self.position(), Ordering::Relaxed);
            self.cursor.leave(tail.words(), &self.shared.writer_bell);
        }
    }
}
