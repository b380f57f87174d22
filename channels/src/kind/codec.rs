//! The functions that take values of one type across processes, for code that does not know that serde knows the type.

use std::any::Any;

use super::companion::{SinkCompanion, SourceCompanion};
use super::record::{RecordsIn, RecordsOut};
use super::recorded::{RecordReader, RecordWriter};
use crate::error::{ChannelError, DecodeError, EncodeError};
use crate::payload::{
    EncodedSegments, Seen, Wire, decode, decode_in_place, decode_kept, encode, has_records, survey, way_of,
};
use crate::shared::SharedWriter;

/// The functions that encode and decode values of type `T`.
pub struct Codec<T> {
    /// Encodes a value into bytes of its own.
    pub encode: fn(&T) -> Result<Vec<u8>, EncodeError>,
    /// Encodes a value into segments, which share the bytes of its long tensors.
    pub encode_segments: fn(&T) -> Result<EncodedSegments, EncodeError>,
    /// Decodes a value.
    pub decode: fn(&[u8]) -> Result<T, DecodeError>,
    /// Decodes a value whose long tensors are views of the bytes, as [`decode_kept`] does.
    pub decode_kept: Kept<T>,
}

/// The functions by which values of type `T` go through channels between processes.
pub(crate) struct ChannelCodec<T> {
    /// Decodes a value that may borrow from the bytes.
    pub(super) decode_in_place: InPlace<T>,
    /// Writes a value without running user code, else returns it.
    pub(super) put: fn(&mut SharedWriter, T) -> Option<T>,
    /// Writes a value, if a slot is free.
    pub(super) write: fn(&mut SharedWriter, &T) -> Result<bool, ChannelError>,
    /// Lists the tensors in a value.
    pub(crate) survey: fn(&T) -> Result<Vec<Seen>, EncodeError>,
    /// Runs the trial of the type, so that the first value is not delayed by it.
    pub(crate) prepare: fn(),
    /// Whether values may hold things with records.
    pub(crate) has_records: fn() -> bool,
    /// The companion of a reading end whose messages have records.
    pub(super) read_records: fn(Box<dyn RecordsIn>) -> Box<dyn SourceCompanion<T>>,
    /// The companion of a writing end whose messages have records.
    pub(super) write_records: fn(Box<dyn RecordsOut>) -> Box<dyn SinkCompanion<T>>,
}

/// Decodes a value from bytes that are valid and unwritten as long as any keeper exists, which the function makes.
pub type Kept<T> = unsafe fn(&[u8], &dyn Fn() -> Box<dyn Any + Send + Sync>) -> Result<T, DecodeError>;

/// Decodes a value that may borrow from the bytes: the caller keeps them as long as the value.
pub(super) type InPlace<T> = unsafe fn(&[u8]) -> Result<T, DecodeError>;

impl<T: Wire> Codec<T> {
    /// The codec of a type that serde knows.
    pub(super) const OF_WIRE: Self = Codec {
        encode: |value| encode(value).map(|encoded| encoded.to_vec()),
        encode_segments: |value| encode(value)?.into_segments(),
        decode: decode::<T>,
        decode_kept: decode_kept::<T>,
    };
}

impl<T: Wire> ChannelCodec<T> {
    /// The codec of a type that serde knows.
    pub(super) const OF_WIRE: Self = ChannelCodec {
        decode_in_place: decode_in_place::<T>,
        put: SharedWriter::try_put::<T>,
        write: SharedWriter::try_write::<T>,
        survey: survey::<T>,
        prepare: || {
            way_of::<T>();
        },
        has_records: has_records::<T>,
        read_records: |records| Box::new(RecordReader(records)),
        write_records: |records| Box::new(RecordWriter(records)),
    };
}
