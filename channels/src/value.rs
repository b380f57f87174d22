//! One value that a lane reads in every execution: the cached end of a channel.
//!
//! However many tasks of the lane read it, the channel is read once; after the last read the slot is given back,
//! or before the first, where a small value is moved out of it (`SMALL`). A message's number is the
//! number of its execution, so leftovers of earlier executions are recognised and skipped.
//!
//! - `VAL-1` what borrows from a slot is dropped before the slot is released.
//! - `VAL-2` what borrows from a slot leaves its value by reference only.
//! - `VAL-3` an [`AnyValue`] is a [`Value<T>`] (the trait is sealed), which begins with its head, which says what `T` is.
#![allow(unsafe_code)] // borrows a tensor from a slot; looks at an erased value's head; moves a value out alone

use std::any::{Any, TypeId};
use std::cell::OnceCell;
use std::mem::needs_drop;
use std::ptr;

#[cfg(feature = "cuda")]
use crate::device::{
    Gpu,
    aside::{Beside, ReadsAside},
};
use crate::dispose::dispose;
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::head::{ALWAYS, AfterRead, ValueHead};
use crate::kind::PayloadType;
use crate::payload::{Wire, decode, decode_in_place, view_slice, view_str};
use crate::ring::RingReader;
use crate::shared::SharedReader;

/// Whether something moved, or would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is there, or done.
    Ready,
    /// Not yet; nothing has changed.
    Blocked,
}

/// What has come of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is there.
    Value,
    /// A fault came instead.
    Fault,
    /// Nothing yet; nothing has changed.
    Nothing,
}

/// Bytes of a value without destructor that is moved out of its ring as it comes, where there is no other reader: its slot is free
/// from there on.
const SMALL: usize = 64;

/// Where a lane's value comes from, its type erased.
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

/// The same, typed.
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

/// What is held of the current execution.
enum Held<T> {
    Nothing,
    Owned(T),
    Fault(Fault),
    /// In the ring's slot.
    InRing,
    /// In a shared slot, decoded on first use.
    InSlot(OnceCell<T>),
    /// Come with tensors beside it, put together on first use. Its slot is still held.
    #[cfg(feature = "cuda")]
    Beside(Box<Beside<T>>),
    /// A message has come and could not be received: its reader hears why.
    Lost(Box<ChannelError>),
}

impl<T> Held<T> {
    /// Moves the value out, where it is owned; nothing is held then.
    #[inline]
    fn take_owned(&mut self) -> Option<T> {
        let Held::Owned(value) = self else { return None };
        // Not `mem::replace`, which copies all that could be held: a value that has just been put, word by word, would be waited
        // for until it is in the cache.
        // SAFETY: initialised, and ours; what is left of it is overwritten next, without being dropped.
        let value = unsafe { ptr::read(value) };
        // SAFETY: it is ours to write to, and nothing panics in between.
        unsafe { ptr::write(self, Held::Nothing) };
        Some(value)
    }
}

/// A lane's cached end of a channel.
#[repr(C)]
pub struct Value<T> {
    // First (VAL-3).
    head: ValueHead,
    // Declared, and so dropped, before its source (VAL-1).
    held: Held<T>,
    source: Source<T>,
    /// Tensors on a device, which come beside a shared channel.
    #[cfg(feature = "cuda")]
    aside: Option<Box<ReadsAside>>,
}

/// What a reader hears of a value that could not be received.
#[cold]
fn lost(error: &ChannelError) -> ChannelError {
    ChannelError::Lost {
        reason: error.to_string(),
    }
}

mod sealed {
    /// What only a [`Value`](super::Value) is (`VAL-3`).
    pub trait Sealed {}

    impl<T> Sealed for super::Value<T> {}
}

/// A [`Value`] with its type erased.
pub trait AnyValue: Send + sealed::Sealed {
    /// As `fill`, where what is held is not of `execution`.
    #[doc(hidden)]
    fn fetch(&mut self, execution: u64) -> Result<Arrival, ChannelError>;
    /// Receives the value of `execution`, where it has come and there is no more to be said of it.
    fn arrives(&mut self, execution: u64) -> bool;
    /// Whether a message is there that has not been received: a quick look, and no more than a hint.
    fn stirs(&self) -> bool;
    /// Gives back what is held, after its last read.
    #[doc(hidden)]
    fn give_back(&mut self) -> Result<(), ChannelError>;
    /// The fault that came instead of a value.
    fn fault(&self) -> Option<Fault>;
    /// Gives back whatever is held.
    ///
    /// # Errors
    /// What the channel says.
    fn abandon(&mut self) -> Result<(), ChannelError>;
    /// Says that the writer never waits for this end, because there are never more messages than slots: within a process it is
    /// not looked whether it does, which costs a fence.
    fn never_waited_for(&mut self);
    /// Brings the tensors that come from other processes to this device, on their way here.
    ///
    /// # Errors
    /// [`ChannelError::Device`].
    #[cfg(feature = "cuda")]
    fn bring_to(&mut self, gpu: &Gpu) -> Result<(), ChannelError>;
    /// The value's type.
    fn payload_type(&self) -> PayloadType;
}

impl dyn AnyValue + '_ {
    #[inline]
    fn head(&self) -> &ValueHead {
        // SAFETY: it is a `Value<T>`, which is laid out as in C and begins with its head (VAL-3).
        unsafe { &*ptr::from_ref(self).cast::<ValueHead>() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut ValueHead {
        // SAFETY: as in `head`; borrowed exclusively.
        unsafe { &mut *ptr::from_mut(self).cast::<ValueHead>() }
    }

    /// The typed value, if it is of this type.
    #[inline]
    pub fn typed<T: Wire>(&self) -> Option<&Value<T>> {
        if self.head().id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: it is a `Value<T>` for the type that its head says (VAL-3).
        Some(unsafe { &*ptr::from_ref(self).cast::<Value<T>>() })
    }

    /// The typed value, if it is of this type.
    #[inline]
    pub fn typed_mut<T: Wire>(&mut self) -> Option<&mut Value<T>> {
        if self.head().id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: as in `typed`; borrowed exclusively.
        Some(unsafe { &mut *ptr::from_mut(self).cast::<Value<T>>() })
    }

    /// Whether the value of `execution` is here, as far as is known without a look: a short way for who asks often.
    #[inline]
    pub fn is_there(&self, execution: u64) -> bool {
        self.head().is_there(execution)
    }

    /// Whether it holds nothing, as a local value does when it can be put.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head().left == 0
    }

    /// Whether nobody notices when it is given back: it has been moved out, or does not come from elsewhere and has no destructor.
    #[inline]
    pub fn owes_nothing(&self) -> bool {
        self.head().owes_nothing()
    }

    /// As `read_done` where nothing follows from it; `false`, and nothing has changed, elsewhere.
    #[inline]
    pub fn count_read(&mut self) -> bool {
        self.head_mut().count_read()
    }

    /// Brings the value of `execution`, skipping messages of earlier ones. Idempotent. A local value is ready when it
    /// has been put for this execution.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has gone, [`ChannelError::OutOfStep`] when the value of that execution
    /// has been read already, and what else the channel may say.
    #[inline]
    pub fn fill(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        match self.head().held(execution) {
            Some(arrival) => Ok(arrival),
            None => self.fetch(execution),
        }
    }

    /// One of this execution's reads is done; after the last one the memory is given back.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there was nothing to read, and what the channel says.
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
        // What has a destructor is dropped before anybody can know that it has been read.
        let at_home = matches!(source, Source::Local) && !needs_drop::<T>();
        Ok(Value {
            head: ValueHead::new(TypeId::of::<T>(), reads, at_home),
            held: Held::Nothing,
            source,
            #[cfg(feature = "cuda")]
            aside: None,
        })
    }

    /// The same, with tensors of a device received from other processes beside the value.
    #[cfg(feature = "cuda")]
    pub(crate) fn with_tensors(mut self) -> Self {
        if let Source::Shared(reader) = &self.source {
            self.aside = Some(Box::new(ReadsAside::new(reader.index())));
        }
        self
    }

    /// Whether no peer is known to have died.
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
            held: Held::Owned(value),
            source: Source::Constant,
            #[cfg(feature = "cuda")]
            aside: None,
        }
    }

    /// Whether a local value can be put: it is one, and the last one has been read.
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

    /// Writes a local value.
    ///
    /// # Errors
    /// [`ChannelError::Unread`] when the last one has not been read, or the value is not local.
    #[inline]
    pub fn put(&mut self, execution: u64, message: Message<T>) -> Result<(), ChannelError> {
        self.check_free()?;
        self.keep(execution, message);
        Ok(())
    }

    /// As [`put`](Self::put), after [`check_free`](Self::check_free).
    #[inline]
    pub(crate) fn keep(&mut self, execution: u64, message: Message<T>) {
        let arrival;
        (self.held, arrival) = match message {
            Ok(value) => (Held::Owned(value), Arrival::Value),
            Err(fault) => (Held::Fault(fault), Arrival::Fault),
        };
        self.head.arrived(execution, arrival);
    }

    /// Writes a local value, if it can be put; gives it back otherwise.
    #[inline]
    pub fn try_put(&mut self, execution: u64, value: T) -> Option<T> {
        // It holds nothing where it is free; said again, so that nothing is to be dropped.
        if !self.is_free() || !matches!(self.held, Held::Nothing) {
            return Some(value);
        }
        self.held = Held::Owned(value);
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

    /// The value.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there is none, [`ChannelError::Decode`] when the bytes are not a `T`.
    #[inline]
    pub fn get(&self) -> Result<&T, ChannelError> {
        match &self.held {
            Held::Owned(value) => Ok(value),
            Held::InRing => self.in_ring(),
            Held::InSlot(cell) => {
                if let Some(value) = cell.get() {
                    return Ok(value);
                }
                // SAFETY: the slot stays ours until `release`, which drops the cell first (VAL-1), and what borrows
                // leaves this cell by reference only (VAL-2): `take` decodes anew.
                let value = unsafe { decode_in_place::<T>(self.in_slot()?) }?;
                Ok(cell.get_or_init(|| value))
            }
            #[cfg(feature = "cuda")]
            Held::Beside(beside) => beside.get(),
            Held::Lost(error) => Err(lost(error)),
            Held::Nothing | Held::Fault(_) => Err(ChannelError::NoValue),
        }
    }

    /// The value, owned: moved for the last read where it is ours to give, else cloned or decoded.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline]
    pub fn take(&mut self) -> Result<T, ChannelError> {
        self.try_take().map_or_else(|| self.take_other(), Ok)
    }

    /// The value, moved, where this is its last read and it is ours to give; nothing has changed otherwise. Most are taken so,
    /// which this is inlined for.
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
        let (Held::InRing, Source::Ring(reader)) = (&self.held, &mut self.source) else {
            return None;
        };
        let taken = reader.take_value()?;
        self.held = Held::Nothing;
        Some(taken)
    }

    /// What is not taken by a move alone: it is decoded or cloned, or a slot is given back with it.
    #[inline(never)]
    fn take_other(&mut self) -> Result<T, ChannelError> {
        match &mut self.held {
            #[cfg(feature = "cuda")]
            Held::Beside(beside) if self.head.left == 1 => {
                let value = beside.take()?;
                dispose(std::mem::replace(&mut self.held, Held::Nothing));
                self.head.vacant = true;
                if let Source::Shared(reader) = &mut self.source {
                    reader.release()?;
                }
                Ok(value)
            }
            Held::InRing if self.head.left == 1 => {
                self.held = Held::Nothing;
                self.head.vacant = true;
                let Source::Ring(reader) = &mut self.source else {
                    return Err(ChannelError::NoValue);
                };
                reader.take().and_then(Message::ok).ok_or(ChannelError::NoValue)
            }
            Held::InSlot(_) if self.head.left == 1 => {
                let value = self.copied()?;
                // VAL-1: what borrows from the slot goes first.
                dispose(std::mem::replace(&mut self.held, Held::Nothing));
                self.head.vacant = true;
                if let Source::Shared(reader) = &mut self.source {
                    reader.release()?;
                }
                Ok(value)
            }
            _ => self.copied(),
        }
    }

    /// The value, where it can be moved out and nobody is to read it afterwards: this counts as its last read, and runs none
    /// of the user's code.
    #[inline]
    pub fn take_last(&mut self) -> Option<T> {
        let moves = match &self.held {
            Held::Owned(_) => true,
            Held::InRing => matches!(&self.source, Source::Ring(reader) if reader.is_sole()),
            _ => false,
        };
        if !moves || self.head.left != 1 {
            return None;
        }
        let taken = self.take();
        self.head.left = 0;
        taken.ok()
    }

    /// The value, cloned or decoded.
    fn copied(&self) -> Result<T, ChannelError> {
        match &self.held {
            Held::Owned(value) => Ok(value.clone()),
            Held::InRing => self.in_ring().cloned(),
            Held::InSlot(_) => Ok(decode::<T>(self.in_slot()?)?),
            #[cfg(feature = "cuda")]
            Held::Beside(beside) => beside.get().cloned(),
            Held::Lost(error) => Err(lost(error)),
            Held::Nothing | Held::Fault(_) => Err(ChannelError::NoValue),
        }
    }

    /// The next message's value, if it is there and nothing is held: the short way for ends that take one after the other.
    /// What is not a value, or not there, is for `fill` to say.
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

    /// The same, of what comes from other processes.
    #[inline(never)]
    fn decode_next(&mut self) -> Option<T> {
        // With tensors beside it, the bytes are not the value's.
        #[cfg(feature = "cuda")]
        if self.aside.is_some() {
            return None;
        }
        let Source::Shared(reader) = &mut self.source else {
            return None;
        };
        let Ok(Some(Ok(bytes))) = reader.current() else {
            return None;
        };
        let value = decode::<T>(bytes).ok()?;
        // It is there, so it can be passed.
        let _ = reader.release();
        Some(value)
    }

    /// The value or the fault, owned; counts as one read.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline]
    pub fn message(&mut self) -> Result<Message<T>, ChannelError> {
        let message = match &self.held {
            Held::Fault(fault) => Err(fault.clone()),
            _ => Ok(self.take()?),
        };
        self.read_done()?;
        Ok(message)
    }

    /// As for any value, but a message that could not be received stays: another attempt may succeed.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has gone, [`ChannelError::Segment`], and what else the channel may say.
    #[inline]
    pub(crate) fn attempt(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        let erased: &mut dyn AnyValue = self;
        let arrival = erased.fill(execution)?;
        if let Held::Lost(_) = self.held {
            return Err(self.try_again());
        }
        Ok(arrival)
    }

    /// Forgets that a message could not be received; says why.
    #[cold]
    fn try_again(&mut self) -> ChannelError {
        self.head.left = 0;
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Lost(error) => *error,
            _ => ChannelError::NoValue,
        }
    }

    /// As for any value.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there was nothing to read, and what the channel says.
    #[inline]
    pub fn read_done(&mut self) -> Result<(), ChannelError> {
        let erased: &mut dyn AnyValue = self;
        erased.read_done()
    }

    /// Gives the slot back.
    #[inline]
    fn release(&mut self) -> Result<(), ChannelError> {
        // VAL-1: what borrows from the slot goes first.
        let held = std::mem::replace(&mut self.held, Held::Nothing);
        self.head.left = 0;
        match (&mut self.source, held) {
            (_, Held::Nothing) => {}
            (Source::Ring(reader), Held::InRing) => reader.release(),
            (Source::Ring(reader), held @ Held::Fault(_)) => {
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

    /// Takes note of the message that has come, if it has.
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
                    Some(Err(fault)) => Held::Fault(fault.clone()),
                    _ => Held::InRing,
                }
            }
            Source::Shared(reader) => match reader.current() {
                #[cfg(feature = "cuda")]
                Ok(Some(Ok(bytes))) => match &mut self.aside {
                    Some(aside) => match aside.read::<T>(bytes) {
                        Ok(beside) => Held::Beside(Box::new(beside)),
                        Err(error) if error.loses_value() => Held::Lost(Box::new(error)),
                        Err(error) => return Err(error),
                    },
                    None => Held::InSlot(OnceCell::new()),
                },
                #[cfg(not(feature = "cuda"))]
                Ok(Some(Ok(_))) => Held::InSlot(OnceCell::new()),
                Ok(Some(Err(fault))) => Held::Fault(fault),
                Ok(None) => return Ok(false),
                Err(error) if error.is_shortage() => Held::Lost(Box::new(error)),
                Err(error) => return Err(error),
            },
            Source::Local | Source::Constant => return Ok(false),
        };
        Ok(true)
    }

    /// Brings the message of `execution` from its channel.
    #[inline]
    fn receive(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        if self.head.left > 0 {
            // A leftover that not all of its readers wanted.
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
            Held::Fault(_) => Arrival::Fault,
            _ => Arrival::Value,
        }
    }

    /// Messages of earlier executions can be skipped; what has been passed cannot come again.
    #[inline]
    fn check_step(&self, found: u64, expected: u64) -> Result<(), ChannelError> {
        if found > expected {
            return Err(ChannelError::OutOfStep { expected, found });
        }
        Ok(())
    }

    /// Bytes that the next message is likely to have; 0 where values move by pointer.
    #[inline]
    pub(crate) fn expected_bytes(&self) -> usize {
        match &self.source {
            Source::Shared(reader) => reader.last_bytes(),
            Source::Ring(_) | Source::Local | Source::Constant => 0,
        }
    }

    /// While `quiet`, a writer that waits for space is not woken; at its end it is.
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
    /// The elements; in place where they are primitive numbers.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline]
    pub fn slice(&self) -> Result<&[E], ChannelError> {
        if let Held::InSlot(_) = &self.held
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
    /// As [`get`](Self::get).
    #[inline]
    pub fn text(&self) -> Result<&str, ChannelError> {
        match &self.held {
            Held::InSlot(_) => Ok(view_str(self.in_slot()?)?),
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
        if !free || !matches!(self.held, Held::Nothing) {
            return self.head.is_there(execution);
        }
        if reader.is_sole() && !needs_drop::<T>() && size_of::<T>() <= SMALL {
            let Some(value) = reader.take_value() else {
                return false;
            };
            self.held = Held::Owned(value);
        } else {
            if !matches!(reader.current(), Some(Ok(_))) {
                return false;
            }
            self.held = Held::InRing;
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
            Held::Fault(fault) => Some(fault.clone()),
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
        self.aside.as_mut().map_or(Ok(()), |aside| aside.bring_to(gpu))
    }

    fn payload_type(&self) -> PayloadType {
        PayloadType::of::<T>()
    }
}
