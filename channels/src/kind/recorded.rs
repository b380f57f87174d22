//! Values with records: the companions of the ends of a channel whose messages have some.
#![allow(unsafe_code)] // decodes a value that borrows from its slot

use std::any::Any;
use std::cell::OnceCell;

use super::companion::{Accompanied, SinkCompanion, SourceCompanion};
use super::record::{RecordsIn, RecordsOut, TakenOver, front, records_of};
use crate::error::{ChannelError, DecodeError};
use crate::payload::{Encoded, Wire, decode, decode_in_place, encode};
use crate::shared::{SharedReader, SharedWriter};

/// The companion of a writing end.
pub(super) struct RecordWriter(pub(super) Box<dyn RecordsOut>);

impl<T: Wire> SinkCompanion<T> for RecordWriter {
    fn put(&mut self, channel: &mut SharedWriter, value: &T) -> Result<bool, ChannelError> {
        if !channel.has_space()? {
            return Ok(false);
        }
        let number = channel.position();
        self.0.settle(channel.passed(), &channel.left());
        let mut encoded: Option<Result<Encoded<'_>, _>> = None;
        let records = self
            .0
            .pass(number, &mut || encoded.insert(encode(value)).is_ok())?;
        let encoded = encoded.ok_or(ChannelError::NoValue)??;
        let front = front(&records, channel.readers());
        let put = channel.put_behind(&front, &encoded);
        if put.is_err() {
            self.0.take_back(number);
        }
        put.map(|()| true)
    }

    fn leave(&mut self, channel: &SharedWriter) {
        self.0.settle(channel.position(), &channel.end_claims());
    }
}

/// The companion of a reading end.
pub(super) struct RecordReader(pub(super) Box<dyn RecordsIn>);

impl<T: Wire> SourceCompanion<T> for RecordReader {
    fn receive(
        &mut self,
        reader: &SharedReader,
        bytes: &[u8],
    ) -> Result<Box<dyn Accompanied<T>>, ChannelError> {
        let (records, offset) = records_of(bytes, reader.index() as usize, reader.readers())?;
        let mut taken = None;
        if !records.is_empty() {
            reader.claim_records()?;
            taken = Some(self.0.take_over(&records)?);
        }
        Ok(Box::new(RecordedValue {
            value: OnceCell::new(),
            taken,
            offset,
        }))
    }

    // The writer takes a message that was passed for one whose records were taken over.
    fn needs_all(&self) -> bool {
        true
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A value whose records were taken over.
struct RecordedValue<T> {
    /// The value, once it has been decoded. It may borrow from the slot.
    value: OnceCell<T>,
    taken: Option<Box<dyn TakenOver>>,
    /// The offset of the encoded value in its message.
    offset: usize,
}

impl<T> RecordedValue<T> {
    fn decode(
        &self,
        bytes: &[u8],
        decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, ChannelError> {
        let bytes = bytes.get(self.offset..).ok_or(ChannelError::NoValue)?;
        let Some(taken) = &self.taken else {
            return Ok(decode(bytes)?);
        };
        let mut decoded = None;
        taken.decode(&mut || decoded = Some(decode(bytes)));
        Ok(decoded.ok_or(ChannelError::NoValue)??)
    }
}

impl<T: Wire> Accompanied<T> for RecordedValue<T> {
    fn get(&self, bytes: &[u8]) -> Result<&T, ChannelError> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        // SAFETY: the end drops this before it releases the slot (VAL-1). Data that borrows from the slot leaves by
        // reference only (VAL-2): `copy` and `take` decode the bytes again.
        let value = self.decode(bytes, |bytes| unsafe { decode_in_place(bytes) })?;
        Ok(self.value.get_or_init(|| value))
    }

    fn copy(&self, bytes: &[u8]) -> Result<T, ChannelError> {
        self.decode(bytes, decode)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<T, ChannelError> {
        self.decode(bytes, decode)
    }
}
