//! Channels between processes: values are encoded into the slots of a [`shared`](crate::shared) channel, and read there.
//!
//! - `VAL-1` data that borrows from a slot is dropped before the slot is released.
//! - `VAL-2` data that borrows from a slot leaves its source by reference only.
#![allow(unsafe_code)] // decodes a value that borrows from its slot

use std::any::Any;
use std::cell::OnceCell;

use super::codec::InPlace;
use super::companion::{Accompanied, SinkCompanion, SourceCompanion};
use super::traits::Traits;
use super::{Arrival, Sink, Source};
use crate::dispose::dispose;
use crate::error::{ChannelError, DecodeError};
use crate::fault::{Fault, Message};
use crate::payload::Payload;
use crate::shared::{SharedReader, SharedWriter};

/// The reading end of a channel between processes. In a box, so that the ends of other kinds, which share a place with
/// this one, have no room for a decoded value.
pub struct SharedSource<T>(Box<Decoder<T>>);

struct Decoder<T> {
    // Declared before the reader, and so dropped before it (VAL-1).
    /// The received value, once it has been decoded.
    value: OnceCell<T>,
    /// The received value, if a companion has received parts of it.
    accompanied: Option<Box<dyn Accompanied<T>>>,
    reader: SharedReader,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
    decode_in_place: InPlace<T>,
    companion: Option<Box<dyn SourceCompanion<T>>>,
}

/// The contents of the message that a reader has in hand.
#[inline]
fn contents(reader: &SharedReader) -> Result<&[u8], ChannelError> {
    reader.seen()?.map_err(|_| ChannelError::NoValue)
}

impl<T: Payload> SharedSource<T> {
    #[inline]
    fn bytes(&self) -> Result<&[u8], ChannelError> {
        contents(&self.0.reader)
    }

    /// Drops the value that may borrow from the slot (VAL-1), then passes the message.
    #[inline]
    fn pass(&mut self) -> Result<(), ChannelError> {
        if let Some(value) = self.0.value.take() {
            dispose(value);
        }
        if let Some(accompanied) = self.0.accompanied.take() {
            dispose(accompanied);
        }
        self.0.reader.release()
    }
}

impl<T: Payload> Source<T> for SharedSource<T> {
    type Erased = SharedReader;

    fn typed(mut reader: SharedReader, traits: &Traits<T>) -> Result<Self, ChannelError> {
        let (values, codec) = (traits.codec()?, traits.channel_codec()?);
        let companion = reader.records.take().map(codec.read_records);
        Ok(SharedSource(Box::new(Decoder {
            value: OnceCell::new(),
            accompanied: None,
            reader,
            decode: values.decode,
            decode_in_place: codec.decode_in_place,
            companion,
        })))
    }

    #[inline]
    fn position(&self) -> u64 {
        self.0.reader.position()
    }

    #[inline]
    fn peek(&self) -> bool {
        self.0.reader.peek()
    }

    #[inline]
    fn try_receive(&mut self) -> bool {
        // A companion receives each message only once, so a failure there must not be lost.
        self.0.companion.is_none() && matches!(self.0.reader.current(), Ok(Some(Ok(_))))
    }

    #[inline]
    fn receive(&mut self) -> Result<Arrival, ChannelError> {
        let current = match self.0.reader.current() {
            Err(error) if self.0.companion.as_ref().is_some_and(|it| it.needs_all()) => {
                return Err(error.ends_channel());
            }
            current => current?,
        };
        match current {
            None => Ok(Arrival::Nothing),
            Some(Err(_)) => Ok(Arrival::Fault),
            Some(Ok(_)) => {
                if let (Some(companion), None) = (&mut self.0.companion, &self.0.accompanied) {
                    let reader = &self.0.reader;
                    self.0.accompanied = Some(companion.receive(reader, contents(reader)?)?);
                }
                Ok(Arrival::Value)
            }
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.0.reader.seen().ok()?.err()
    }

    #[inline]
    fn get(&self) -> Result<&T, ChannelError> {
        if let Some(value) = self.0.value.get() {
            return Ok(value);
        }
        if let Some(accompanied) = &self.0.accompanied {
            return accompanied.get(self.bytes()?);
        }
        // SAFETY: this end holds the slot until `pass`, which drops the value first (VAL-1). Data that borrows from the
        // slot leaves this end by reference only (VAL-2): `copy` and `take` decode the bytes again.
        let value = unsafe { (self.0.decode_in_place)(self.bytes()?) }?;
        Ok(self.0.value.get_or_init(|| value))
    }

    fn copy(&self) -> Result<T, ChannelError> {
        match &self.0.accompanied {
            Some(accompanied) => accompanied.copy(self.bytes()?),
            None => Ok((self.0.decode)(self.bytes()?)?),
        }
    }

    #[inline]
    fn encoded(&self) -> Result<Option<&[u8]>, ChannelError> {
        match &self.0.accompanied {
            Some(_) => Ok(None),
            None => self.bytes().map(Some),
        }
    }

    #[inline(never)]
    fn try_next(&mut self) -> Option<T> {
        // With a companion, the bytes are an envelope around the value.
        if self.0.companion.is_some() {
            return None;
        }
        let Ok(Some(Ok(bytes))) = self.0.reader.current() else {
            return None;
        };
        let value = (self.0.decode)(bytes).ok()?;
        // The message has arrived, so it can be passed.
        let _ = self.pass();
        Some(value)
    }

    fn take(&mut self) -> Result<T, ChannelError> {
        let bytes = contents(&self.0.reader);
        let value = match &mut self.0.accompanied {
            Some(accompanied) => accompanied.take(bytes?)?,
            None => (self.0.decode)(bytes?)?,
        };
        self.pass()?;
        Ok(value)
    }

    #[inline]
    fn release(&mut self) -> Result<(), ChannelError> {
        self.pass()
    }

    fn set_quiet(&mut self, quiet: bool) {
        self.0.reader.set_quiet(quiet);
    }

    #[inline]
    fn expected_bytes(&self) -> usize {
        self.0.reader.last_bytes()
    }

    fn check_live(&self) -> Result<(), ChannelError> {
        self.0.reader.check_live()
    }

    fn accompany(&mut self, make: fn(u32) -> Box<dyn SourceCompanion<T>>) {
        self.0.companion = Some(make(self.0.reader.index()));
    }

    fn companion(&mut self) -> Option<&mut dyn Any> {
        self.0.companion.as_mut().map(|companion| companion.as_any())
    }
}

/// The writing end of a channel between processes.
pub struct SharedSink<T> {
    writer: SharedWriter,
    put: fn(&mut SharedWriter, T) -> Option<T>,
    write: fn(&mut SharedWriter, &T) -> Result<bool, ChannelError>,
    companion: Option<Box<dyn SinkCompanion<T>>>,
}

impl<T> Drop for SharedSink<T> {
    fn drop(&mut self) {
        if let Some(companion) = &mut self.companion
            && self.writer.is_own()
        {
            companion.leave(&self.writer);
        }
    }
}

impl<T: Payload> Sink<T> for SharedSink<T> {
    type Erased = SharedWriter;

    fn typed(mut writer: SharedWriter, traits: &Traits<T>) -> Result<Self, ChannelError> {
        let codec = traits.channel_codec()?;
        let records = writer.records.take();
        Ok(SharedSink {
            writer,
            put: codec.put,
            write: codec.write,
            companion: records.map(codec.write_records),
        })
    }

    #[inline]
    fn position(&self) -> u64 {
        self.writer.position()
    }

    #[inline]
    fn encodes(&self) -> bool {
        true
    }

    #[inline]
    fn has_space(&mut self) -> Result<bool, ChannelError> {
        self.writer.has_space()
    }

    #[inline]
    fn try_put(&mut self, value: T) -> Option<T> {
        match &self.companion {
            None => (self.put)(&mut self.writer, value),
            Some(_) => Some(value),
        }
    }

    #[inline]
    fn put(&mut self, message: &mut Option<Message<T>>) -> Result<bool, ChannelError> {
        let Some(kept) = message else {
            return Ok(true);
        };
        // User code (`Serialize`) runs while the message is kept, so a panic in it leaves the message where it is.
        let sent = self.put_ref(kept.as_ref())?;
        if sent {
            dispose(message.take());
        }
        Ok(sent)
    }

    #[inline]
    fn put_ref(&mut self, message: Result<&T, &Fault>) -> Result<bool, ChannelError> {
        match (message, &mut self.companion) {
            (Ok(value), None) => (self.write)(&mut self.writer, value),
            (Ok(value), Some(companion)) => companion.put(&mut self.writer, value),
            (Err(fault), _) => self.writer.try_write_fault(fault),
        }
    }

    fn is_drained(&mut self) -> Result<bool, ChannelError> {
        self.writer.is_drained()
    }

    fn set_quiet(&mut self, quiet: bool) {
        self.writer.set_quiet(quiet);
    }

    #[inline]
    fn expected_bytes(&self) -> usize {
        self.writer.last_bytes()
    }

    fn check_live(&self) -> Result<(), ChannelError> {
        self.writer.check_live()
    }

    fn lender(&mut self) -> Option<&mut SharedWriter> {
        Some(&mut self.writer)
    }

    fn accompany(&mut self, make: fn() -> Box<dyn SinkCompanion<T>>) {
        self.companion = Some(make());
    }

    fn close(&mut self) {
        self.writer.close();
    }
}
