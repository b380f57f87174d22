//! The in-process channel: one writer, N readers, K slots; values lie in the slots and move by pointer.
//!
//! Each slot has a stamp in the cache line of a small payload, so a hop costs one line: message `i` lies in slot
//! `i % K` and may be read once the stamp is `i + 1`. Each reader has a cursor on a line of its own; the writer
//! keeps a private copy of the slowest and looks again only when the ring seems full (as rtrb does).
//!
//! A reader that frees a slot wakes the writer only if the writer has found the ring full and said so: the writer sets
//! `blocked`, fences and looks at the cursors again; a reader moves its cursor, fences and looks at `blocked`. One of
//! them sees the other (the pattern of `doorbell`), and while slots suffice nobody wakes anybody for space.
//!
//! - `RING-1` message `i` is written only when every reader's cursor is above `i - K`.
//! - `RING-2` between the stamp `i + 1` and its cursor passing `i`, a reader may read slot `i % K`; nobody writes it.
//! - `RING-3` while no reader may read it, the slot belongs to the writer.
//! - `RING-4` with one reader, that reader owns the message it reads: it moves it out or drops it. With several,
//!   the last to let go drops it (a countdown), so memory returns at once and not a lap later.
#![allow(unsafe_code)] // slots are cells

use crate::doorbell::Doorbell;
use crate::error::ChannelError;
use crate::fault::Message;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
mod cell {
    /// std's cell with loom's closure interface.
    pub(super) struct Cell<T>(std::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(super) fn new(value: T) -> Self {
            Cell(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(super) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod cell {
    pub(super) use loom::cell::UnsafeCell as Cell;
}

use cell::Cell;

/// A slot: stamp and message side by side.
#[repr(align(64))]
struct Slot<T> {
    stamp: AtomicU64,
    left: AtomicU32,
    message: Cell<Option<Message<T>>>,
}

/// A reader's cursor: messages below it are done with.
#[repr(align(64))]
struct Tail(AtomicU64);

/// A reader that is gone does not hold the writer back.
const GONE: u64 = u64::MAX;

struct Shared<T> {
    slots: Box<[Slot<T>]>,
    tails: Box<[Tail]>,
    closed: AtomicBool,
    /// The writer has found no space.
    blocked: AtomicBool,
    writer_bell: Doorbell,
    reader_bells: Vec<Doorbell>,
}

// SAFETY: a slot's cell is accessed only by whom RING-2 to RING-4 allow, and the stamps and cursors hand it over
// with release and acquire; `T` moves between threads (Send) and is read by several at once (Sync).
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: all fields but the cells are Send; the cells hold `T: Send`.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

/// The writing end.
pub struct RingWriter<T> {
    shared: Arc<Shared<T>>,
    next: u64,
    /// What the slowest cursor was when last looked at.
    slowest: u64,
}

/// A reading end.
pub struct RingReader<T> {
    shared: Arc<Shared<T>>,
    index: usize,
    next: u64,
}

/// Makes a ring of `slots` slots with one reader for each of `reader_bells`.
///
/// # Errors
/// [`ChannelError::InvalidSpec`] when either number is zero.
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
        message: Cell::new(None),
    };
    let shared = Arc::new(Shared {
        slots: (0..slots).map(slot).collect(),
        tails: (0..readers).map(|_| Tail(AtomicU64::new(0))).collect(),
        closed: AtomicBool::new(false),
        blocked: AtomicBool::new(false),
        writer_bell,
        reader_bells,
    });
    let ends = (0..readers)
        .map(|index| RingReader {
            shared: Arc::clone(&shared),
            index,
            next: 0,
        })
        .collect();
    Ok((
        RingWriter {
            shared,
            next: 0,
            slowest: 0,
        },
        ends,
    ))
}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, message: u64) -> Option<&Slot<T>> {
        self.slots.get((message % self.slots.len() as u64) as usize)
    }

    /// Whether there is exactly one reader, which then owns what it reads (`RING-4`).
    #[inline]
    fn sole(&self) -> bool {
        self.tails.len() == 1
    }
}

impl<T> Shared<T> {
    /// Wakes the writer if it waits for space.
    #[inline]
    fn freed(&self) {
        // SYNC ring-blocked: pairs with the fence in `has_space`; orders the cursor before the look at `blocked`.
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::Relaxed) {
            self.writer_bell.ring();
        }
    }
}

impl<T> RingWriter<T> {
    /// Whether a write would succeed now.
    #[inline]
    pub fn has_space(&mut self) -> bool {
        let slots = self.shared.slots.len() as u64;
        if self.next.wrapping_sub(self.slowest) < slots {
            return true;
        }
        if self.look() {
            if self.shared.blocked.load(Ordering::Relaxed) {
                self.shared.blocked.store(false, Ordering::Relaxed);
            }
            return true;
        }
        self.shared.blocked.store(true, Ordering::Relaxed);
        // SYNC ring-blocked: pairs with the fence in `freed`.
        fence(Ordering::SeqCst);
        if self.look() {
            self.shared.blocked.store(false, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Looks at the cursors again.
    fn look(&mut self) -> bool {
        // SYNC slot-released: pairs with the release store of the cursor; what the reader did to the slot
        // happened before (RING-1).
        let tails = self
            .shared
            .tails
            .iter()
            .map(|tail| tail.0.load(Ordering::Acquire));
        self.slowest = tails.min().unwrap_or(GONE).min(self.next);
        self.next.wrapping_sub(self.slowest) < self.shared.slots.len() as u64
    }

    /// Writes the next message, or gives it back when every slot is taken.
    ///
    /// # Errors
    /// The message, unchanged.
    #[inline]
    pub fn try_write(&mut self, message: Message<T>) -> Result<(), Message<T>> {
        if !self.has_space() {
            return Err(message);
        }
        let Some(slot) = self.shared.slot(self.next) else {
            return Err(message);
        };
        if !self.shared.sole() {
            slot.left.store(self.shared.tails.len() as u32, Ordering::Relaxed);
        }
        // SAFETY: every cursor has passed the message that lay here (has_space, RING-1), so the slot is the
        // writer's alone (RING-3) until the stamp below.
        slot.message.with_mut(|cell| unsafe { *cell = Some(message) });
        self.next += 1;
        // SYNC slot-published: pairs with the acquire load in `RingReader::ready`.
        slot.stamp.store(self.next, Ordering::Release);
        self.shared.reader_bells.iter().for_each(Doorbell::ring);
        Ok(())
    }

    /// Says that no message follows, and wakes the readers.
    pub fn close(&mut self) {
        // SYNC ring-closed: pairs with the acquire load in `is_closed`.
        self.shared.closed.store(true, Ordering::Release);
        self.shared.reader_bells.iter().for_each(Doorbell::ring);
    }
}

impl<T> Drop for RingWriter<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> RingReader<T> {
    /// Number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Whether the next message can be read.
    #[inline]
    pub fn ready(&mut self) -> bool {
        // SYNC slot-published.
        self.shared
            .slot(self.next)
            .is_some_and(|slot| slot.stamp.load(Ordering::Acquire) == self.next + 1)
    }

    /// The next message, in place.
    #[inline]
    pub fn peek(&mut self) -> Option<&Message<T>> {
        if !self.ready() {
            return None;
        }
        self.current()
    }

    /// The next message if it has been seen: no look at the stamp.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Message<T>> {
        let slot = self.shared.slot(self.next)?;
        if slot.stamp.load(Ordering::Acquire) != self.next + 1 {
            return None;
        }
        // SAFETY: stamped and not yet passed by this cursor, so nobody writes it (RING-2); the reference borrows
        // `self`, and only `&mut self` methods move the cursor. The sole reader's `take` also needs `&mut self`.
        slot.message.with(|cell| unsafe { (*cell).as_ref() })
    }

    /// Lets go of the next message, whether read or not, if it is there.
    #[inline]
    pub fn release(&mut self) {
        if self.ready() {
            self.pass(None);
        }
    }

    /// Passes the current message; with `into`, the sole reader gets it.
    #[inline]
    fn pass(&mut self, into: Option<&mut Option<Message<T>>>) {
        let Some(slot) = self.shared.slot(self.next) else {
            return;
        };
        // SYNC slot-last-reader: AcqRel makes every reader's reads happen before the last one's drop.
        if self.shared.sole() || slot.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the sole reader owns the slot's message, as does the last of several (RING-4).
            let message = slot.message.with_mut(|cell| unsafe { (*cell).take() });
            if let Some(into) = into {
                *into = message;
            }
        }
        self.next += 1;
        if let Some(tail) = self.shared.tails.get(self.index) {
            // SYNC slot-released: pairs with the acquire load in `has_space`.
            tail.0.store(self.next, Ordering::Release);
        }
        self.shared.freed();
    }

    /// Whether the writer is gone and every message has been read.
    pub fn is_closed(&mut self) -> bool {
        // SYNC ring-closed: the look at the stamp comes after, so no message is missed.
        self.shared.closed.load(Ordering::Acquire) && !self.ready()
    }
}

impl<T: Clone> RingReader<T> {
    /// The next message: moved when this is the only reader, cloned otherwise. Passes it.
    #[inline]
    pub fn take(&mut self) -> Option<Message<T>> {
        if !self.ready() {
            return None;
        }
        let mut taken = None;
        if self.shared.sole() {
            self.pass(Some(&mut taken));
            return taken;
        }
        let cloned = self.current().cloned();
        self.pass(None);
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
            // A writer that goes on counts no reader here any more; SYNC slot-released.
            tail.0.store(GONE, Ordering::Release);
        }
        self.shared.freed();
    }
}
