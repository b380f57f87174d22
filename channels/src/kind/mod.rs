//! Kinds of channels: a file for each kind, the two traits that every kind implements, and the list of kinds.
//!
//! - [`local`]: a value within a lane. `ring`: within a process, values move by pointer. `shared`: between processes,
//!   values are encoded.
//! - [`Source`] is a reading end, [`Sink`] is a writing end. Ports and stand-alone channels know only these traits and
//!   the enums [`AnySource`] and [`AnySink`], which dispatch statically. The list at the end of this file is the only
//!   list of kinds: a new kind is a file and a line.
//! - [`traits`]: what values of a payload type can do beside moving between threads. [`codec`]: the functions that take
//!   values across processes.
//! - [`companion`]: what travels beside a channel, for parts of values that no encoding can carry.
//!
//! - `FAST-1` a word that begins with `try_` is the fast path of the word without it. `try_x` gives no reason and
//!   changes nothing when it fails; `x` does both.

pub mod codec;
pub mod companion;
pub mod local;
pub mod record;
mod recorded;
mod ring;
mod shared;
pub mod traits;

use std::any::{Any, type_name};

use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::payload::{Payload, view_slice, view_str};
use crate::ring::{RingReader, RingWriter};
use crate::shared::{SharedReader, SharedWriter};
use companion::{SinkCompanion, SourceCompanion};
use local::Local;
use shared::{SharedSink, SharedSource};
use traits::Traits;

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

/// A typed end of a ring with its type erased: a boxed [`RingReader`] or [`RingWriter`].
pub type ErasedEnd = Box<dyn Any + Send>;

/// A reading end of a channel. Messages arrive in order; the next one stays in place until it is passed.
pub trait Source<T>: Sized {
    /// The end before its type is known.
    type Erased;

    /// Gives the end its type.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`] for an end of another type, [`ChannelError::NotWire`] if values of the type cannot be
    /// encoded and the end encodes them.
    fn typed(erased: Self::Erased, traits: &Traits<T>) -> Result<Self, ChannelError>;

    /// The number of the next message.
    fn position(&self) -> u64;

    /// Polls for the next message. The result is only a hint.
    fn peek(&self) -> bool;

    /// Receives the next message if it is a value that can be read in place (`FAST-1`).
    fn try_receive(&mut self) -> bool;

    /// Receives the next message, if it has arrived. Idempotent until the message is passed.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has closed its end and no message is left, and the other errors of the
    /// channel. After an error for which [`ChannelError::loses_value`] is true, the message can be released.
    fn receive(&mut self) -> Result<Arrival, ChannelError>;

    /// The fault that was received instead of a value.
    fn fault(&self) -> Option<Fault>;

    /// The received value, in place; decoded on first use.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when there is no value, [`ChannelError::Decode`] when the bytes are not a `T`.
    fn get(&self) -> Result<&T, ChannelError>;

    /// A copy of the received value, cloned or decoded.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    fn copy(&self) -> Result<T, ChannelError>;

    /// The received value as it lies encoded in its slot; `None` if values move.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    fn encoded(&self) -> Result<Option<&[u8]>, ChannelError> {
        Ok(None)
    }

    /// Whether values are moved out by [`try_take`](Self::try_take).
    fn moves(&self) -> bool {
        false
    }

    /// Moves the next value out and passes it, without running user code (`FAST-1`).
    fn try_take(&mut self) -> Option<T> {
        None
    }

    /// Takes the next value and passes it, also if it has to be decoded, which runs user code (`FAST-1`).
    fn try_next(&mut self) -> Option<T> {
        self.try_take()
    }

    /// Takes the received value and passes it. After an error the message is still there.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    fn take(&mut self) -> Result<T, ChannelError>;

    /// Passes the next message, read or unread, if it has arrived.
    ///
    /// # Errors
    /// The errors of the channel.
    fn release(&mut self) -> Result<(), ChannelError>;

    /// Turns quiet mode on or off: in quiet mode a writer that waits for space is not woken, and the call that turns
    /// the mode off wakes it.
    fn set_quiet(&mut self, quiet: bool);

    /// Declares that the writer never waits for this end. The end may then skip the check for a waiting writer.
    fn never_waited_for(&mut self) {}

    /// The likely size of the next message in bytes; 0 if values move by pointer.
    fn expected_bytes(&self) -> usize {
        0
    }

    /// Returns an error if a peer is known to have died.
    ///
    /// # Errors
    /// [`ChannelError::Poisoned`].
    fn check_live(&self) -> Result<(), ChannelError> {
        Ok(())
    }

    /// Gives the end the companion that `make` makes for the number of this reader, if values of this kind of channel
    /// are encoded.
    fn accompany(&mut self, _make: fn(u32) -> Box<dyn SourceCompanion<T>>) {}

    /// The companion, if the end has one.
    fn companion(&mut self) -> Option<&mut dyn Any> {
        None
    }
}

/// A writing end of a channel.
pub trait Sink<T>: Sized {
    /// The end before its type is known.
    type Erased;

    /// Gives the end its type.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`] for an end of another type, [`ChannelError::NotWire`] if values of the type cannot be
    /// encoded and the end encodes them.
    fn typed(erased: Self::Erased, traits: &Traits<T>) -> Result<Self, ChannelError>;

    /// The number of the next message.
    fn position(&self) -> u64;

    /// Whether messages are encoded. Such a channel needs a value only by reference, and can refuse it; any other
    /// channel takes the value itself.
    fn encodes(&self) -> bool;

    /// Whether a slot is free.
    ///
    /// # Errors
    /// If none is: [`ChannelError::Closed`], [`ChannelError::Poisoned`], and the other errors of the channel.
    fn has_space(&mut self) -> Result<bool, ChannelError>;

    /// Sends `value` if a slot is free, else returns it (`FAST-1`).
    fn try_put(&mut self, value: T) -> Option<T>;

    /// Sends the message in `message`, if a slot is free; else it stays there. With no message there is nothing to do.
    ///
    /// # Errors
    /// The errors of [`has_space`](Self::has_space). An error for which [`ChannelError::refuses_value`] is true leaves
    /// the channel unchanged.
    fn put(&mut self, message: &mut Option<Message<T>>) -> Result<bool, ChannelError>;

    /// Sends a copy of the message, if a slot is free.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    fn put_ref(&mut self, message: Result<&T, &Fault>) -> Result<bool, ChannelError>;

    /// Whether every reader is done with every message.
    ///
    /// # Errors
    /// The errors of the channel.
    fn is_drained(&mut self) -> Result<bool, ChannelError>;

    /// Turns quiet mode on or off: in quiet mode sleeping readers are not woken, and the call that turns the mode off
    /// wakes them.
    fn set_quiet(&mut self, quiet: bool);

    /// The size in bytes of the messages that readers are busy with; 0 if values move by pointer.
    fn expected_bytes(&self) -> usize {
        0
    }

    /// Names the readers that hold the writer back, as text for error messages, if this end knows them.
    fn laggards(&self) -> String {
        String::new()
    }

    /// Returns an error if a peer is known to have died.
    ///
    /// # Errors
    /// [`ChannelError::Poisoned`].
    fn check_live(&self) -> Result<(), ChannelError> {
        Ok(())
    }

    /// The writer whose slots can be written in place, for channels that have one.
    fn lender(&mut self) -> Option<&mut SharedWriter> {
        None
    }

    /// Gives the end a companion, if values of this kind of channel are encoded.
    fn accompany(&mut self, _make: fn() -> Box<dyn SinkCompanion<T>>) {}

    /// Closes the channel: no message follows. Never waits. A second call changes nothing.
    fn close(&mut self);
}

/// Implements methods of an enum of ends by the same method of the end that it holds.
macro_rules! forward {
    ($trait:ident $each:ident $this:ident
        $(fn $name:ident[$($receiver:tt)*]($($argument:ident: $type:ty)?) -> $result:ty;)*
    ) => {
        $(
            #[inline]
            fn $name($($receiver)* $(, $argument: $type)?) -> $result {
                $each!($this, end => $trait::<T>::$name(end $(, $argument)?))
            }
        )*
    };
}

/// Makes the enums of the kinds from the list of kinds: first the kinds that have no sink, because ports write them by
/// other means, then all others. A line names a kind, its source and its sink, each with its erased form.
macro_rules! kinds {
    (
        { $($(#[$local_doc:meta])* $local:ident: $local_source:ty as $local_inlet:ty;)* }
        { $($(#[$doc:meta])* $kind:ident: $source:ty as $inlet:ty, $sink:ty as $route:ty;)* }
    ) => {
        /// A reading end of a channel of any kind, with its type erased.
        #[expect(clippy::large_enum_variant, reason = "made once per end and taken apart at once")]
        pub enum Inlet {
            $($(#[$local_doc])* $local($local_inlet),)*
            $($(#[$doc])* $kind($inlet),)*
        }

        /// A writing end of a channel of any kind, with its type erased.
        #[expect(clippy::large_enum_variant, reason = "made once per end and taken apart at once")]
        pub enum Route {
            $($(#[$doc])* $kind($route),)*
        }

        /// A reading end of a channel of any kind.
        pub enum AnySource<T> {
            $($(#[$local_doc])* $local($local_source),)*
            $($(#[$doc])* $kind($source),)*
        }

        /// A writing end of a channel of any kind.
        #[expect(clippy::large_enum_variant, reason = "one per end; a box would cost a look on every write")]
        pub enum AnySink<T> {
            $($(#[$doc])* $kind($sink),)*
        }

        /// Runs an expression over a source of any kind, once for each kind.
        macro_rules! each_source {
            ($any:expr, $end:ident => $body:expr) => {
                match $any {
                    $($crate::kind::AnySource::$local($end) => $body,)*
                    $($crate::kind::AnySource::$kind($end) => $body,)*
                }
            };
        }
        pub(crate) use each_source;

        /// Runs an expression over a sink of any kind, once for each kind.
        macro_rules! each_sink {
            ($any:expr, $end:ident => $body:expr) => {
                match $any {
                    $(AnySink::$kind($end) => $body,)*
                }
            };
        }

        impl<T: Payload> Source<T> for AnySource<T> {
            type Erased = Inlet;

            fn typed(inlet: Inlet, traits: &Traits<T>) -> Result<Self, ChannelError> {
                Ok(match inlet {
                    $(Inlet::$local(end) => AnySource::$local(Source::<T>::typed(end, traits)?),)*
                    $(Inlet::$kind(end) => AnySource::$kind(Source::<T>::typed(end, traits)?),)*
                })
            }

            forward! { Source each_source self
                fn position[&self]() -> u64;
                fn peek[&self]() -> bool;
                fn try_receive[&mut self]() -> bool;
                fn receive[&mut self]() -> Result<Arrival, ChannelError>;
                fn fault[&self]() -> Option<Fault>;
                fn get[&self]() -> Result<&T, ChannelError>;
                fn copy[&self]() -> Result<T, ChannelError>;
                fn encoded[&self]() -> Result<Option<&[u8]>, ChannelError>;
                fn moves[&self]() -> bool;
                fn try_take[&mut self]() -> Option<T>;
                fn try_next[&mut self]() -> Option<T>;
                fn take[&mut self]() -> Result<T, ChannelError>;
                fn release[&mut self]() -> Result<(), ChannelError>;
                fn set_quiet[&mut self](quiet: bool) -> ();
                fn never_waited_for[&mut self]() -> ();
                fn expected_bytes[&self]() -> usize;
                fn check_live[&self]() -> Result<(), ChannelError>;
                fn accompany[&mut self](make: fn(u32) -> Box<dyn SourceCompanion<T>>) -> ();
                fn companion[&mut self]() -> Option<&mut dyn Any>;
            }
        }

        impl<T: Payload> Sink<T> for AnySink<T> {
            type Erased = Route;

            fn typed(route: Route, traits: &Traits<T>) -> Result<Self, ChannelError> {
                Ok(match route {
                    $(Route::$kind(end) => AnySink::$kind(Sink::<T>::typed(end, traits)?),)*
                })
            }

            forward! { Sink each_sink self
                fn position[&self]() -> u64;
                fn encodes[&self]() -> bool;
                fn has_space[&mut self]() -> Result<bool, ChannelError>;
                fn try_put[&mut self](value: T) -> Option<T>;
                fn put[&mut self](message: &mut Option<Message<T>>) -> Result<bool, ChannelError>;
                fn put_ref[&mut self](message: Result<&T, &Fault>) -> Result<bool, ChannelError>;
                fn is_drained[&mut self]() -> Result<bool, ChannelError>;
                fn set_quiet[&mut self](quiet: bool) -> ();
                fn expected_bytes[&self]() -> usize;
                fn laggards[&self]() -> String;
                fn check_live[&self]() -> Result<(), ChannelError>;
                fn lender[&mut self]() -> Option<&mut SharedWriter>;
                fn accompany[&mut self](make: fn() -> Box<dyn SinkCompanion<T>>) -> ();
                fn close[&mut self]() -> ();
            }
        }
    };
}

// The list of kinds.
kinds! {
    {
        /// Within a lane: a task of the same lane puts the value.
        Local: Local as Local;
    }
    {
        /// Within a process: a [`RingReader`] or [`RingWriter`] of the value's type.
        Ring: RingReader<T> as ErasedEnd, RingWriter<T> as ErasedEnd;
        /// Between processes.
        Shared: SharedSource<T> as SharedReader, SharedSink<T> as SharedWriter;
    }
}

impl<E: Payload> AnySource<Vec<E>> {
    /// The elements of the received value. Primitive numbers are read in place, without a copy.
    ///
    /// # Errors
    /// The errors of [`get`](Source::get).
    #[inline]
    pub fn slice(&self) -> Result<&[E], ChannelError> {
        if let Some(bytes) = self.encoded()?
            && let Some(slice) = view_slice::<E>(bytes)?
        {
            return Ok(slice);
        }
        self.get().map(Vec::as_slice)
    }
}

impl AnySource<String> {
    /// The text of the received value, in place.
    ///
    /// # Errors
    /// The errors of [`get`](Source::get).
    #[inline]
    pub fn text(&self) -> Result<&str, ChannelError> {
        match self.encoded()? {
            Some(bytes) => Ok(view_str(bytes)?),
            None => self.get().map(String::as_str),
        }
    }
}

/// The typed form of an erased end.
fn downcast<E: 'static>(end: ErasedEnd) -> Result<E, ChannelError> {
    let wrong = ChannelError::WrongType {
        expected: type_name::<E>(),
        found: "an end of another type",
    };
    end.downcast::<E>().map(|end| *end).map_err(|_| wrong)
}
