//! A value that a lane reads in every execution: the cached end of a channel.
//!
//! The channel is read once, no matter how many tasks of the lane read the value. The slot is released after the last
//! read. A small value may be moved out of its slot on arrival, which releases the slot before the first read
//! (`SMALL`). A message's number is the number of its execution, so leftovers of earlier executions are recognised and
//! skipped.
//!
//! - `VAL-1` data that borrows from a slot is dropped before the slot is released.
//! - `VAL-2` data that borrows from a slot leaves its value by reference only.
//! - `VAL-3` an [`AnyValue`] is a [`Value<T>`] (the trait is sealed). A value begins with its head, which contains the
//!   `TypeId` of `T`.
#![allow(unsafe_code)] // borrows a tensor from a slot; casts an erased value to its head; moves a value out of an enum

use std::any::{Any, TypeId};
use std::cell::OnceCell;
use std::mem::needs_drop;
use std::ptr;

#[cfg(feature = "cuda")]
use crate::device::{Gpu, OutOfBandReader, OutOfBandValue};
use crate::dispose::dispose;
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::payload::{Wire, decode, decode_in_place, view_slice, view_str};
use crate::port::head::{ALWAYS, AfterRead, ValueHead};
use crate::port::payload_type::PayloadType;
use crate::ring::RingReader;
use crate::shared::SharedReader;

/// The outcome of an operation that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The message is available, or the operation is done.
    Ready,
    /// The operation cannot be done yet. Nothing has changed.
    Blocked,
}

/// The outcome of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A value has arrived.
    Value,
    /// A fault has arrived instead of a value.
    Fault,
    /// No message of this execution has arrived yet.
    Nothing,
}

/// The largest size, in bytes, of a value without a destructor that is moved out of its ring on arrival. It must have
/// only one reader. The slot is free from then on.
const SMALL: usize = 64;

/// The source of a lane's value, type-erased.
#[expect(
    clippy::large_enum_variant,
    reason = "made once per channel and taken apart at once"
)]
pub enum Inlet {
    /// A task of the same lane puts it.
    Local,
    /// A ring of this process: a [`RingReader`] of the value's type.
    Ring(Box<dyn Any + Send>),
    /// A shared channel.
    Shared(SharedReader),
}

/// The typed form of [`Inlet`].
#[expect(
    clippy::large_enum_variant,
    reason = "one per value of a lane; a box would cost a look on every read"
)]
pub(crate) enum Source<T> {
    Local,
    Constant,
    Ring(RingReader<T>),
    Shared(SharedReader),
}

/// The message held for the current execution.
enum HeldValue<T> {
    Nothing,
    Owned(T),
    Fault(Fault),
    /// The value lies in the ring's slot.
    InRing,
    /// The value lies in a shared slot and is decoded on first use.
    InSlot(OnceCell<T>),
    /// The value came with device tensors out of band and is assembled on first use. Its slot is still held.
    #[cfg(feature = "cuda")]
    OutOfBand(Box<OutOfBandValue<T>>),
    /// A message has arrived but could not be received: its reader gets the error.
    Lost(Box<ChannelError>),
}

impl<T> HeldValue<T> {
    /// Moves the value out if it is owned. Leaves `HeldValue::Nothing` behind.
    #[inline]
    fn take_owned(&mut self) -> Option<T> {
        let HeldValue::Owned(value) = self else {
            return None;
        };
        // Not `mem::replace`, which copies the largest variant: if the value was just written field by field, the copy
        // would stall until those stores have reached the cache.
        // SAFETY: initialised, and owned by `self`. The bits left behind are overwritten next, without being dropped.
        let value = unsafe { ptr::read(value) };
        // SAFETY: `self` is borrowed exclusively, and nothing can panic between the read and this write.
        unsafe { ptr::write(self, HeldValue::Nothing) };
        Some(value)
    }
}

/// A lane's cached end of a channel.
#[repr(C)]
pub struct Value<T> {
    // The first field (VAL-3).
    head: ValueHead,
    // Declared before its source, and so dropped before it (VAL-1).
    held: HeldValue<T>,
    source: Source<T>,
    /// The receiver of device tensors, which travel out of band beside a shared channel.
    #[cfg(feature = "cuda")]
    out_of_band: Option<Box<OutOfBandReader>>,
}

/// The error that a reader gets for a value that could not be received.
#[cold]
fn lost(error: &ChannelError) -> ChannelError {
    ChannelError::Lost {
        reason: error.to_string(),
    }
}

mod sealed {
    /// A marker that only [`Value`](super::Value) implements (`VAL-3`).
    pub trait SealedValue {}

    impl<T> SealedValue for super::Value<T> {}
}

/// A [`Value`] with its type erased.
pub trait AnyValue: Send + sealed::SealedValue {
    /// The slow path of `fill`: no message of `execution` is held.
    #[doc(hidden)]
    fn fetch(&mut self, execution: u64) -> Result<Arrival, ChannelError>;
    /// Receives the value of `execution` if it has arrived: the fast path of `fill`. Returns `false` in all other cases
    /// (no message, a fault, a message of another execution, an error), which `fill` tells apart.
    fn arrives(&mut self, execution: u64) -> bool;
    /// Polls for a message that has not been received yet. The result is only a hint; `true` for local values and
    /// constants.
    fn stirs(&self) -> bool;
    /// Releases the held message after its last read.
    #[doc(hidden)]
    fn give_back(&mut self) -> Result<(), ChannelError>;
    /// The fault that arrived instead of a value.
    fn fault(&self) -> Option<Fault>;
    /// Releases the held message, read or unread. A constant keeps its value.
    ///
    /// # Errors
    /// The errors of the channel.
    fn abandon(&mut self) -> Result<(), ChannelError>;
    /// Declares that the writer never waits for this end, because there are never more messages than slots. A ring's
    /// reader then skips the check for a waiting writer, which would cost a fence.
    fn never_waited_for(&mut self);
    /// Makes device tensors from other processes arrive on this device: they are copied to it as they are received.
    ///
    /// # Errors
    /// [`ChannelError::Device`].
    #[cfg(feature = "cuda")]
    fn bring_to(&mut self, gpu: &Gpu) -> Result<(), ChannelError>;
    /// The type of the value.
    fn payload_type(&self) -> PayloadType;
}

impl dyn AnyValue + '_ {
    #[inline]
    fn head(&self) -> &ValueHead {
        // SAFETY: `self` is a `Value<T>`, which is `repr(C)` and begins with its head (VAL-3).
        unsafe { &*ptr::from_ref(self).cast::<ValueHead>() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut ValueHead {
        // SAFETY: see `head`; borrowed exclusively.
        unsafe { &mut *ptr::from_mut(self).cast::<ValueHead>() }
    }

    /// The typed value, if its type is `T`.
    #[inline]
    pub fn typed<T: Wire>(&self) -> Option<&Value<T>> {
        if self.head().id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: `self` is a `Value<T>` for the type whose id is in its head (VAL-3).
        Some(unsafe { &*ptr::from_ref(self).cast::<Value<T>>() })
    }

    /// The typed value, if its type is `T`.
    #[inline]
    pub fn typed_mut<T: Wire>(&mut self) -> Option<&mut Value<T>> {
        if self.head().id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: see `typed`; borrowed exclusively.
        Some(unsafe { &mut *ptr::from_mut(self).cast::<Value<T>>() })
    }

    /// Whether the value of `execution` is held. Does not access the channel, so it is cheap to call often.
    #[inline]
    pub fn is_there(&self, execution: u64) -> bool {
        self.head().is_there(execution)
    }

    /// Whether no message is held. A local value can then be put.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head().left == 0
    }

    /// Whether the release of the value has no effect that another thread or user code could see. The value has been
    /// moved out or released, or it is a constant, or it is local and has no destructor. The release may be delayed.
    #[inline]
    pub fn owes_nothing(&self) -> bool {
        self.head().owes_nothing()
    }

    /// Counts one read, if the value need not be released after it. Else returns `false`, with nothing changed; call
    /// `read_done` then.
    #[inline]
    pub fn count_read(&mut self) -> bool {
        self.head_mut().count_read()
    }

    /// Receives the message of `execution`, skipping messages of earlier executions. Idempotent. A local value is ready
    /// once it has been put for this execution.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has closed its end, [`ChannelError::OutOfStep`] when the value of that
    /// execution has been read already, and the other errors of the channel.
    #[inline]
    pub fn fill(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        match self.head().held(execution) {
            Some(arrival) => Ok(arrival),
            None => self.fetch(execution),
        }
    }

    /// Counts one read of this execution. The last read releases the value.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there was no value to read, and the errors of the channel.
    #[inline]
    pub fn read_done(&mut self) -> Result<(), ChannelError> {
        match self.head_mut().read_done()? {
            AfterRead::Nothing => Ok(()),
            AfterRead::GiveBack => self.give_back(),
        }
    }
}

impl<T: Wire> Value<T> {
    pub(crate) fn new(source: Source<T>, reads: u32) -> Result<Self, ChannelError> {
        if reads == 0 {
            return Err(ChannelError::InvalidSpec {
                what: "reads",
                value: 0,
                least: 1,
            });
        }
        // A value with a destructor must be dropped before its reader's result is published, so its release may not be
        // delayed.
        let at_home = matches!(source, Source::Local) && !needs_drop::<T>();
        Ok(Value {
            head: ValueHead::new(TypeId::of::<T>(), reads, at_home),
            held: HeldValue::Nothing,
            source,
            #[cfg(feature = "cuda")]
            out_of_band: None,
        })
    }

    /// Prepares the value to receive device tensors from other processes out of band.
    #[cfg(feature = "cuda")]
    pub(crate) fn with_tensors(mut self) -> Self {
        if let Source::Shared(reader) = &self.source {
            self.out_of_band = Some(Box::new(OutOfBandReader::new(reader.index())));
        }
        self
    }

    /// Returns an error if a peer is known to have died.
    #[cfg(feature = "cuda")]
    pub(crate) fn check_live(&self) -> Result<(), ChannelError> {
        match &self.source {
            Source::Shared(reader) => reader.check_live(),
            _ => Ok(()),
        }
    }

    pub(crate) fn constant(value: T) -> Self {
        let mut head = ValueHead::new(TypeId::of::<T>(), ALWAYS, true);
        head.arrived(0, Arrival::Value);
        Value {
            head,
            held: HeldValue::Owned(value),
            source: Source::Constant,
            #[cfg(feature = "cuda")]
            out_of_band: None,
        }
    }

    /// Returns an error unless this is a local value whose last message has been read.
    #[inline]
    pub(crate) fn check_free(&self) -> Result<(), ChannelError> {
        if self.is_free() {
            return Ok(());
        }
        Err(ChannelError::Unread)
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.head.left == 0 && matches!(self.source, Source::Local)
    }

    /// Writes a message to a local value.
    ///
    /// # Errors
    /// [`ChannelError::Unread`] when the last message has not been read, or the value is not local.
    #[inline]
    pub fn put(&mut self, execution: u64, message: Message<T>) -> Result<(), ChannelError> {
        self.check_free()?;
        self.keep(execution, message);
        Ok(())
    }

    /// Writes a message to a local value. The caller has called [`check_free`](Self::check_free).
    #[inline]
    pub(crate) fn keep(&mut self, execution: u64, message: Message<T>) {
        let arrival;
        (self.held, arrival) = match message {
            Ok(value) => (HeldValue::Owned(value), Arrival::Value),
            Err(fault) => (HeldValue::Fault(fault), Arrival::Fault),
        };
        self.head.arrived(execution, arrival);
    }

    /// Writes `value` if this is a local value and it is free, else returns it.
    #[inline]
    pub fn try_put(&mut self, execution: u64, value: T) -> Option<T> {
        // A free value holds nothing. The second check tells the compiler that the assignment below drops nothing.
        if !self.is_free() || !matches!(self.held, HeldValue::Nothing) {
            return Some(value);
        }
        self.held = HeldValue::Owned(value);
        self.head.arrived(execution, Arrival::Value);
        None
    }

    fn in_ring(&self) -> Result<&T, ChannelError> {
        match &self.source {
            Source::Ring(reader) => match reader.current() {
                Some(Ok(value)) => Ok(value),
                _ => Err(ChannelError::NoValue),
            },
            _ => Err(ChannelError::NoValue),
        }
    }

    fn in_slot(&self) -> Result<&[u8], ChannelError> {
        match &self.source {
            Source::Shared(reader) => reader.seen()?.map_err(|_| ChannelError::NoValue),
            _ => Err(ChannelError::NoValue),
        }
    }

    /// The value, decoded on first use.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there is no value, [`ChannelError::Decode`] when the bytes are not a `T`.
    #[inline]
    pub fn get(&self) -> Result<&T, ChannelError> {
        match &self.held {
            HeldValue::Owned(value) => Ok(value),
            HeldValue::InRing => self.in_ring(),
            HeldValue::InSlot(cell) => {
                if let Some(value) = cell.get() {
                    return Ok(value);
                }
                // SAFETY: this end holds the slot until `release`, which drops the cell first (VAL-1). Data that
                // borrows from the slot leaves this cell by reference only (VAL-2): `take` decodes the bytes again.
                let value = unsafe { decode_in_place::<T>(self.in_slot()?) }?;
                Ok(cell.get_or_init(|| value))
            }
            #[cfg(feature = "cuda")]
            HeldValue::OutOfBand(beside) => beside.get(),
            HeldValue::Lost(error) => Err(lost(error)),
            HeldValue::Nothing | HeldValue::Fault(_) => Err(ChannelError::NoValue),
        }
    }

    /// Takes the value: moved on its last read, if this end owns it, else cloned or decoded.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn take(&mut self) -> Result<T, ChannelError> {
        self.try_take().map_or_else(|| self.take_other(), Ok)
    }

    /// Moves the value out if this is its last read and this end owns it. Else returns `None`, with nothing changed.
    /// Inlined because most values are taken like this.
    #[inline]
    pub fn try_take(&mut self) -> Option<T> {
        if self.head.left != 1 {
            return None;
        }
        let taken = match self.held.take_owned() {
            Some(taken) => taken,
            None => self.take_from_ring()?,
        };
        self.head.vacant = true;
        Some(taken)
    }

    #[inline(never)]
    fn take_from_ring(&mut self) -> Option<T> {
        let (HeldValue::InRing, Source::Ring(reader)) = (&self.held, &mut self.source) else {
            return None;
        };
        let taken = reader.take_value()?;
        self.held = HeldValue::Nothing;
        Some(taken)
    }

    /// The slow path of `take`: decodes or clones the value, or moves it out together with its slot.
    #[inline(never)]
    fn take_other(&mut self) -> Result<T, ChannelError> {
        match &mut self.held {
            #[cfg(feature = "cuda")]
            HeldValue::OutOfBand(beside) if self.head.left == 1 => {
                let value = beside.take()?;
                dispose(std::mem::replace(&mut self.held, HeldValue::Nothing));
                self.head.vacant = true;
                if let Source::Shared(reader) = &mut self.source {
                    reader.release()?;
                }
                Ok(value)
            }
            HeldValue::InRing if self.head.left == 1 => {
                self.held = HeldValue::Nothing;
                self.head.vacant = true;
                let Source::Ring(reader) = &mut self.source else {
                    return Err(ChannelError::NoValue);
                };
                reader.take().and_then(Message::ok).ok_or(ChannelError::NoValue)
            }
            HeldValue::InSlot(_) if self.head.left == 1 => {
                let value = self.copied()?;
                // VAL-1: data that borrows from the slot is dropped first.
                dispose(std::mem::replace(&mut self.held, HeldValue::Nothing));
                self.head.vacant = true;
                if let Source::Shared(reader) = &mut self.source {
                    reader.release()?;
                }
                Ok(value)
            }
            _ => self.copied(),
        }
    }

    /// Moves the value out if that is possible and this is its last read, which it counts. Runs no user code.
    #[inline]
    pub fn take_last(&mut self) -> Option<T> {
        let moves = match &self.held {
            HeldValue::Owned(_) => true,
            HeldValue::InRing => matches!(&self.source, Source::Ring(reader) if reader.is_sole()),
            _ => false,
        };
        if !moves || self.head.left != 1 {
            return None;
        }
        let taken = self.take();
        self.head.left = 0;
        taken.ok()
    }

    /// A copy of the value, cloned or decoded.
    fn copied(&self) -> Result<T, ChannelError> {
        match &self.held {
            HeldValue::Owned(value) => Ok(value.clone()),
            HeldValue::InRing => self.in_ring().cloned(),
            HeldValue::InSlot(_) => Ok(decode::<T>(self.in_slot()?)?),
            #[cfg(feature = "cuda")]
            HeldValue::OutOfBand(beside) => beside.get().cloned(),
            HeldValue::Lost(error) => Err(lost(error)),
            HeldValue::Nothing | HeldValue::Fault(_) => Err(ChannelError::NoValue),
        }
    }

    /// Takes the next value if it has arrived and no message is held. Else returns `None`; `fill` tells the cases
    /// apart. A fast path for readers that take one message after the other.
    #[inline]
    pub fn take_next(&mut self) -> Option<T> {
        if self.head.left > 0 {
            return None;
        }
        if let Source::Ring(reader) = &mut self.source {
            return reader.take_value();
        }
        self.decode_next()
    }

    /// The part of `take_next` for values from other processes.
    #[inline(never)]
    fn decode_next(&mut self) -> Option<T> {
        // With tensors out of band, the bytes are an envelope around the value.
        #[cfg(feature = "cuda")]
        if self.out_of_band.is_some() {
            return None;
        }
        let Source::Shared(reader) = &mut self.source else {
            return None;
        };
        let Ok(Some(Ok(bytes))) = reader.current() else {
            return None;
        };
        let value = decode::<T>(bytes).ok()?;
        // The message has arrived, so it can be passed.
        let _ = reader.release();
        Some(value)
    }

    /// Takes the value or the fault. Counts one read.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn message(&mut self) -> Result<Message<T>, ChannelError> {
        let message = match &self.held {
            HeldValue::Fault(fault) => Err(fault.clone()),
            _ => Ok(self.take()?),
        };
        self.read_done()?;
        Ok(message)
    }

    /// Receives the message of `execution`, like `fill`. A message that could not be received stays in the channel:
    /// another attempt may succeed.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has closed its end, [`ChannelError::Segment`], and the other errors of
    /// the channel.
    #[inline]
    pub(crate) fn attempt(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        let erased: &mut dyn AnyValue = self;
        let arrival = erased.fill(execution)?;
        if let HeldValue::Lost(_) = self.held {
            return Err(self.try_again());
        }
        Ok(arrival)
    }

    /// Resets this end after a message could not be received. Returns the reason.
    #[cold]
    fn try_again(&mut self) -> ChannelError {
        self.head.left = 0;
        match std::mem::replace(&mut self.held, HeldValue::Nothing) {
            HeldValue::Lost(error) => *error,
            _ => ChannelError::NoValue,
        }
    }

    /// Counts one read of this execution. The last read releases the value.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there was no value to read, and the errors of the channel.
    #[inline]
    pub fn read_done(&mut self) -> Result<(), ChannelError> {
        let erased: &mut dyn AnyValue = self;
        erased.read_done()
    }

    /// Releases the held message and its slot.
    #[inline]
    fn release(&mut self) -> Result<(), ChannelError> {
        // VAL-1: data that borrows from the slot is dropped before the slot is released.
        let held = std::mem::replace(&mut self.held, HeldValue::Nothing);
        self.head.left = 0;
        match (&mut self.source, held) {
            (_, HeldValue::Nothing) => {}
            (Source::Ring(reader), HeldValue::InRing) => reader.release(),
            (Source::Ring(reader), held @ HeldValue::Fault(_)) => {
                dispose(held);
                reader.release();
            }
            (Source::Shared(reader), held) => {
                dispose(held);
                reader.release()?;
            }
            (_, held) => dispose(held),
        }
        Ok(())
    }

    /// Notes the next message in `held`, if it has arrived.
    #[inline]
    fn arrive(&mut self) -> Result<bool, ChannelError> {
        self.held = match &mut self.source {
            Source::Ring(reader) => {
                if !reader.ready() {
                    return if reader.is_closed() {
                        Err(ChannelError::Closed)
                    } else {
                        Ok(false)
                    };
                }
                match reader.current() {
                    Some(Err(fault)) => HeldValue::Fault(fault.clone()),
                    _ => HeldValue::InRing,
                }
            }
            Source::Shared(reader) => match reader.current() {
                #[cfg(feature = "cuda")]
                Ok(Some(Ok(bytes))) => match &mut self.out_of_band {
                    Some(out_of_band) => match out_of_band.read::<T>(bytes) {
                        Ok(beside) => HeldValue::OutOfBand(Box::new(beside)),
                        Err(error) if error.loses_value() => HeldValue::Lost(Box::new(error)),
                        Err(error) => return Err(error),
                    },
                    None => HeldValue::InSlot(OnceCell::new()),
                },
                #[cfg(not(feature = "cuda"))]
                Ok(Some(Ok(_))) => HeldValue::InSlot(OnceCell::new()),
                Ok(Some(Err(fault))) => HeldValue::Fault(fault),
                Ok(None) => return Ok(false),
                Err(error) if error.is_shortage() => HeldValue::Lost(Box::new(error)),
                Err(error) => return Err(error),
            },
            Source::Local | Source::Constant => return Ok(false),
        };
        Ok(true)
    }

    /// Receives the message of `execution` from its channel, skipping earlier ones.
    #[inline]
    fn receive(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        if self.head.left > 0 {
            // A message of an earlier execution that not all of its readers have read.
            self.check_step(self.head.execution, execution)?;
            self.release()?;
        }
        loop {
            let position = self.position();
            self.check_step(position, execution)?;
            if !self.arrive()? {
                return Ok(Arrival::Nothing);
            }
            let arrival = self.arrival();
            self.head.arrived(position, arrival);
            if position == execution {
                return Ok(arrival);
            }
            self.release()?;
        }
    }

    #[inline]
    fn arrival(&self) -> Arrival {
        match self.held {
            HeldValue::Fault(_) => Arrival::Fault,
            _ => Arrival::Value,
        }
    }

    /// Returns an error if the message `expected` has been passed. Earlier messages can be skipped; a passed one cannot
    /// be received again.
    #[inline]
    fn check_step(&self, found: u64, expected: u64) -> Result<(), ChannelError> {
        if found > expected {
            return Err(ChannelError::OutOfStep { expected, found });
        }
        Ok(())
    }

    /// The likely size of the next message in bytes; 0 if values move by pointer.
    #[inline]
    pub(crate) fn expected_bytes(&self) -> usize {
        match &self.source {
            Source::Shared(reader) => reader.last_bytes(),
            Source::Ring(_) | Source::Local | Source::Constant => 0,
        }
    }

    /// Sets quiet mode: a writer that waits for space is not woken until quiet mode ends.
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        match &mut self.source {
            Source::Ring(reader) => reader.set_quiet(quiet),
            Source::Shared(reader) => reader.set_quiet(quiet),
            Source::Local | Source::Constant => {}
        }
    }

    fn position(&self) -> u64 {
        match &self.source {
            Source::Ring(reader) => reader.position(),
            Source::Shared(reader) => reader.position(),
            Source::Local | Source::Constant => self.head.execution,
        }
    }
}

impl<E: Wire> Value<Vec<E>> {
    /// The elements. Primitive numbers are read in place, without a copy.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn slice(&self) -> Result<&[E], ChannelError> {
        if let HeldValue::InSlot(_) = &self.held
            && let Some(slice) = view_slice::<E>(self.in_slot()?)?
        {
            return Ok(slice);
        }
        self.get().map(Vec::as_slice)
    }
}

impl Value<String> {
    /// The text, in place.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn text(&self) -> Result<&str, ChannelError> {
        match &self.held {
            HeldValue::InSlot(_) => Ok(view_str(self.in_slot()?)?),
            _ => self.get().map(String::as_str),
        }
    }
}

impl<T: Wire> AnyValue for Value<T> {
    fn fetch(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        match self.source {
            Source::Ring(_) | Source::Shared(_) => self.receive(execution),
            Source::Constant => Ok(Arrival::Value),
            Source::Local => {
                if self.head.left > 0 {
                    self.check_step(self.head.execution, execution)?;
                }
                Ok(Arrival::Nothing)
            }
        }
    }

    #[inline]
    fn arrives(&mut self, execution: u64) -> bool {
        let Source::Ring(reader) = &mut self.source else {
            let erased: &mut dyn AnyValue = self;
            return matches!(erased.fill(execution), Ok(Arrival::Value));
        };
        let free = self.head.left == 0 && reader.position() == execution;
        if !free || !matches!(self.held, HeldValue::Nothing) {
            return self.head.is_there(execution);
        }
        if reader.is_sole() && !needs_drop::<T>() && size_of::<T>() <= SMALL {
            let Some(value) = reader.take_value() else {
                return false;
            };
            self.held = HeldValue::Owned(value);
        } else {
            if !matches!(reader.current(), Some(Ok(_))) {
                return false;
            }
            self.held = HeldValue::InRing;
        }
        self.head.arrived(execution, Arrival::Value);
        true
    }

    #[inline]
    fn stirs(&self) -> bool {
        match &self.source {
            Source::Ring(reader) => reader.is_ready(),
            Source::Shared(reader) => reader.stirs(),
            Source::Local | Source::Constant => true,
        }
    }

    fn give_back(&mut self) -> Result<(), ChannelError> {
        self.release()
    }

    fn fault(&self) -> Option<Fault> {
        match &self.held {
            HeldValue::Fault(fault) => Some(fault.clone()),
            _ => None,
        }
    }

    fn abandon(&mut self) -> Result<(), ChannelError> {
        if self.head.left > 0 && !matches!(self.source, Source::Constant) {
            self.release()?;
        }
        Ok(())
    }

    fn never_waited_for(&mut self) {
        if let Source::Ring(reader) = &mut self.source {
            reader.set_quiet(true);
        }
    }

    #[cfg(feature = "cuda")]
    fn bring_to(&mut self, gpu: &Gpu) -> Result<(), ChannelError> {
        self.out_of_band
            .as_mut()
            .map_or(Ok(()), |out_of_band| out_of_band.bring_to(gpu))
    }

    fn payload_type(&self) -> PayloadType {
        PayloadType::of::<T>()
    }
}
