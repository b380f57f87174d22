//! A value that a lane reads in every execution: the cached end of a channel.
//!
//! The channel is read once, no matter how many tasks of the lane read the value. The slot is released after the last
//! read. A small value may be moved out of its slot on arrival, which releases the slot before the first read
//! (`SMALL`). A message's number is the number of its execution, so leftovers of earlier executions are recognised and
//! skipped.
//!
//! - `VAL-3` an [`AnyValue`] is a [`Value<T>`] (the trait is sealed). A value begins with its head, which contains the
//!   `TypeId` of `T`.
#![allow(unsafe_code)] // casts an erased value to its head; moves a value out of an enum

use std::any::{Any, TypeId};
use std::mem::needs_drop;
use std::ptr;

use crate::dispose::dispose;
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::kind::local::Local;
use crate::kind::{AnySource, Arrival, Source, each_source};
use crate::payload::Payload;
use crate::port::head::{ALWAYS, AfterRead, ValueHead};
use crate::port::payload_type::{PayloadType, Typed};

/// The outcome of an operation that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The message is available, or the operation is done.
    Ready,
    /// The operation cannot be done yet. Nothing has changed.
    Blocked,
}

/// The largest size, in bytes, of a value without a destructor that is moved out of its ring on arrival. It must have
/// only one reader. The slot is free from then on.
const SMALL: usize = 64;

/// The message held for the current execution.
enum HeldValue<T> {
    Nothing,
    Owned(T),
    Fault(Fault),
    /// The message lies in the channel.
    InChannel,
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
pub struct Value<T: 'static> {
    // The first field (VAL-3).
    head: ValueHead,
    held: HeldValue<T>,
    source: AnySource<T>,
    typed: &'static Typed<T>,
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

    impl<T: 'static> SealedValue for super::Value<T> {}
}

/// A [`Value`] with its type erased.
pub trait AnyValue: Send + sealed::SealedValue {
    /// The slow path of `receive`: no message of `execution` is held.
    #[doc(hidden)]
    fn fetch(&mut self, execution: u64) -> Result<Arrival, ChannelError>;
    /// Receives the value of `execution` if it has arrived: the fast path of `receive`. Returns `false` in all other cases
    /// (no message, a fault, a message of another execution, an error), which `receive` tells apart.
    fn try_receive(&mut self, execution: u64) -> bool;
    /// Polls for a message that has not been received yet. The result is only a hint; `true` for local values and
    /// constants.
    fn peek(&self) -> bool;
    /// Releases the held message after its last read.
    #[doc(hidden)]
    fn pass(&mut self) -> Result<(), ChannelError>;
    /// The fault that arrived instead of a value.
    fn fault(&self) -> Option<Fault>;
    /// Releases the held message, read or unread. A constant keeps its value.
    ///
    /// # Errors
    /// The errors of the channel.
    fn release(&mut self) -> Result<(), ChannelError>;
    /// Declares that the writer never waits for this end, because there are never more messages than slots. A ring's
    /// reader then skips the check for a waiting writer, which would cost a fence.
    fn never_waited_for(&mut self);
    /// The companion of the channel, if it has one.
    #[doc(hidden)]
    fn companion(&mut self) -> Option<&mut dyn Any>;
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
    pub fn typed<T: Payload>(&self) -> Option<&Value<T>> {
        if self.head().id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: `self` is a `Value<T>` for the type whose id is in its head (VAL-3).
        Some(unsafe { &*ptr::from_ref(self).cast::<Value<T>>() })
    }

    /// The typed value, if its type is `T`.
    #[inline]
    pub fn typed_mut<T: Payload>(&mut self) -> Option<&mut Value<T>> {
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
    pub fn try_read_done(&mut self) -> bool {
        self.head_mut().try_read_done()
    }

    /// Receives the message of `execution`, skipping messages of earlier executions. Idempotent. A local value is ready
    /// once it has been put for this execution.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has closed its end, [`ChannelError::OutOfStep`] when the value of that
    /// execution has been read already, and the other errors of the channel.
    #[inline]
    pub fn receive(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
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
            AfterRead::Release => self.pass(),
        }
    }
}

impl<T: Payload> Value<T> {
    pub(super) fn new(
        source: AnySource<T>,
        reads: u32,
        typed: &'static Typed<T>,
    ) -> Result<Self, ChannelError> {
        if reads == 0 {
            return Err(ChannelError::InvalidSpec {
                what: "reads",
                value: 0,
                least: 1,
            });
        }
        // A value with a destructor must be dropped before its reader's result is published, so its release may not be
        // delayed.
        let local = matches!(source, AnySource::Local(_));
        let at_home = local && !needs_drop::<T>();
        Ok(Value {
            head: ValueHead::new(TypeId::of::<T>(), reads, local, at_home),
            held: HeldValue::Nothing,
            source,
            typed,
        })
    }

    pub(super) fn constant(value: T, typed: &'static Typed<T>) -> Self {
        let mut head = ValueHead::new(TypeId::of::<T>(), ALWAYS, true, true);
        head.arrived(0, Arrival::Value);
        Value {
            head,
            held: HeldValue::Owned(value),
            source: AnySource::Local(Local),
            typed,
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
        self.head.left == 0 && self.head.local
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

    /// The value, decoded on first use.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there is no value, [`ChannelError::Decode`] when the bytes are not a `T`.
    #[inline]
    pub fn get(&self) -> Result<&T, ChannelError> {
        match &self.held {
            HeldValue::Owned(value) => Ok(value),
            HeldValue::InChannel => self.source.get(),
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
            None => self.try_take_in_channel()?,
        };
        self.head.vacant = true;
        Some(taken)
    }

    #[inline(never)]
    fn try_take_in_channel(&mut self) -> Option<T> {
        let HeldValue::InChannel = &self.held else {
            return None;
        };
        let taken = self.source.try_take()?;
        self.held = HeldValue::Nothing;
        Some(taken)
    }

    /// The slow path of `take`: decodes or clones the value, or moves it out together with its slot.
    #[inline(never)]
    fn take_other(&mut self) -> Result<T, ChannelError> {
        match &self.held {
            HeldValue::InChannel if self.head.left == 1 => {
                let taken = self.source.take()?;
                self.held = HeldValue::Nothing;
                self.head.vacant = true;
                Ok(taken)
            }
            HeldValue::InChannel => self.source.copy(),
            _ => self.typed.traits.copy(self.get()?),
        }
    }

    /// Moves the value out if that is possible and this is its last read, which it counts. Runs no user code.
    #[inline]
    pub fn try_take_last(&mut self) -> Option<T> {
        let taken = self.try_take()?;
        self.head.left = 0;
        Some(taken)
    }

    /// Takes the next value if it has arrived and no message is held (`FAST-1`). A fast path for readers that take one
    /// message after the other.
    #[inline]
    pub fn try_next(&mut self) -> Option<T> {
        if self.head.left > 0 {
            return None;
        }
        self.source.try_next()
    }

    /// Takes the value or the fault. Counts one read.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn message(&mut self) -> Result<Message<T>, ChannelError> {
        let message = match self.fault() {
            Some(fault) => Err(fault),
            None => Ok(self.take()?),
        };
        self.read_done()?;
        Ok(message)
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
    fn pass_held(&mut self) -> Result<(), ChannelError> {
        let held = std::mem::replace(&mut self.held, HeldValue::Nothing);
        self.head.left = 0;
        match held {
            HeldValue::Nothing => Ok(()),
            HeldValue::InChannel | HeldValue::Lost(_) => self.source.release(),
            HeldValue::Owned(_) | HeldValue::Fault(_) => {
                dispose(held);
                Ok(())
            }
        }
    }

    /// Notes the next message in `held`, if it has arrived.
    #[inline]
    fn receive_next(&mut self) -> Result<Arrival, ChannelError> {
        match self.source.receive() {
            Ok(Arrival::Nothing) => Ok(Arrival::Nothing),
            Ok(arrival) => {
                self.held = HeldValue::InChannel;
                Ok(arrival)
            }
            Err(error) if error.loses_value() => {
                self.held = HeldValue::Lost(Box::new(error));
                Ok(Arrival::Value)
            }
            Err(error) => Err(error),
        }
    }

    /// Receives the message of `execution` from its channel, skipping earlier ones.
    #[inline]
    fn receive_from(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        if self.head.left > 0 {
            // A message of an earlier execution that not all of its readers have read.
            self.check_step(self.head.execution, execution)?;
            self.pass_held()?;
        }
        loop {
            let position = self.source.position();
            self.check_step(position, execution)?;
            let arrival = self.receive_next()?;
            if arrival == Arrival::Nothing {
                return Ok(arrival);
            }
            self.head.arrived(position, arrival);
            if position == execution {
                return Ok(arrival);
            }
            self.pass_held()?;
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
}

impl<E: Payload> Value<Vec<E>> {
    /// The elements. Primitive numbers are read in place, without a copy.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn slice(&self) -> Result<&[E], ChannelError> {
        match &self.held {
            HeldValue::InChannel => self.source.slice(),
            _ => self.get().map(Vec::as_slice),
        }
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
            HeldValue::InChannel => self.source.text(),
            _ => self.get().map(String::as_str),
        }
    }
}

/// Receives the value of `execution` on the fast path (`FAST-1`).
#[inline]
fn try_arrive<T: Payload>(
    head: &mut ValueHead,
    held: &mut HeldValue<T>,
    source: &mut impl Source<T>,
    execution: u64,
) -> bool {
    let free = head.left == 0 && source.position() == execution;
    if !free || !matches!(held, HeldValue::Nothing) {
        return head.is_there(execution) || head.left == ALWAYS;
    }
    if source.moves() && !needs_drop::<T>() && size_of::<T>() <= SMALL {
        let Some(value) = source.try_take() else {
            return false;
        };
        *held = HeldValue::Owned(value);
    } else {
        if !source.try_receive() {
            return false;
        }
        *held = HeldValue::InChannel;
    }
    head.arrived(execution, Arrival::Value);
    true
}

impl<T: Payload> AnyValue for Value<T> {
    fn fetch(&mut self, execution: u64) -> Result<Arrival, ChannelError> {
        if !self.head.local {
            return self.receive_from(execution);
        }
        if self.head.left == ALWAYS {
            return Ok(Arrival::Value);
        }
        if self.head.left > 0 {
            self.check_step(self.head.execution, execution)?;
        }
        Ok(Arrival::Nothing)
    }

    #[inline]
    fn try_receive(&mut self, execution: u64) -> bool {
        let (head, held) = (&mut self.head, &mut self.held);
        each_source!(&mut self.source, source => try_arrive(head, held, source, execution))
    }

    #[inline]
    fn peek(&self) -> bool {
        self.source.peek()
    }

    fn pass(&mut self) -> Result<(), ChannelError> {
        self.pass_held()
    }

    fn fault(&self) -> Option<Fault> {
        match &self.held {
            HeldValue::Fault(fault) => Some(fault.clone()),
            HeldValue::InChannel if self.head.arrival == Arrival::Fault => self.source.fault(),
            _ => None,
        }
    }

    fn release(&mut self) -> Result<(), ChannelError> {
        if self.head.left > 0 && self.head.left != ALWAYS {
            self.pass_held()?;
        }
        Ok(())
    }

    fn never_waited_for(&mut self) {
        self.source.never_waited_for();
    }

    fn companion(&mut self) -> Option<&mut dyn Any> {
        self.source.companion()
    }

    fn payload_type(&self) -> PayloadType {
        PayloadType(self.typed)
    }
}
