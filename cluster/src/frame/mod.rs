//! Frames: the unit in which processes speak.
//!
//! A frame is a header of 40 bytes, a head (the encoded part, whose format belongs to the service), a table with the
//! length of each part, and the parts, which are raw bytes. Parts are written from where they lie and read into the memory
//! that their receiver chooses, so they are not copied in between. A message that is longer than a frame travels in several,
//! its chunks, which [`Joiner`] has read into one memory. All numbers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic, `SVF1` |
//! | 4 | version of the layout |
//! | 5 | class |
//! | 6..8 | service |
//! | 8..12 | length of the head |
//! | 12..16 | number of parts |
//! | 16..24 | length of all parts together |
//! | 24..32 | sequence number |
//! | 32..40 | acknowledgement |
//!
//! Invariants, cited by the tests:
//! - `FRAME-1`: the decoder holds at most eight times the bytes of the frame that it was fed (the case of a table of empty
//!   parts), whatever lengths they claim.
//! - `FRAME-2`: any bytes give frames or one typed error; after an error the decoder gives no further frame.
//! - `FRAME-3`: the frames do not depend on how the bytes were cut into pieces.
//! - `FRAME-4`: a peer has one unfinished message in chunks, whose announced length is within the limit. Chunks that do not
//!   make a message are one typed error.

mod decoder;
mod error;
mod header;
mod joiner;

use smallvec::SmallVec;

pub use decoder::{Decoder, PartMemory};
pub use error::FrameError;
pub use header::{Class, HEADER_BYTES, Header, Service};
pub use joiner::{CHUNK_HEAD_BYTES, Joiner, LongMessage, chunk_head};

/// The encoded part of a frame. A short one needs no memory of its own.
pub type Head = SmallVec<[u8; 24]>;

/// The raw parts of a frame. Most frames have one.
pub type Parts<P> = SmallVec<[P; 1]>;

/// The limits of a frame. A frame above a limit is refused by the writer and by the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// The length of the head in bytes.
    pub head_bytes_max: u32,
    /// The number of parts.
    pub parts_max: u32,
    /// The length of all parts together in bytes.
    pub body_bytes_max: u64,
}

impl FrameLimits {
    /// The limits before a handshake has succeeded: 4 KiB with the header, and no parts.
    pub const HANDSHAKE: FrameLimits = FrameLimits {
        head_bytes_max: 4096 - HEADER_BYTES as u32,
        parts_max: 0,
        body_bytes_max: 0,
    };
}

impl Default for FrameLimits {
    /// 1 MiB of head, 4 096 parts, 64 MiB of parts.
    fn default() -> Self {
        FrameLimits {
            head_bytes_max: 1 << 20,
            parts_max: 4096,
            body_bytes_max: 64 << 20,
        }
    }
}

/// A frame. `P` is the type of the parts: borrowed or shared memory of a writer, vectors of a reader.
///
/// ```
/// use selvedge_cluster::frame::{Class, Decoder, Frame, FrameLimits, Service};
/// # fn main() -> Result<(), selvedge_cluster::frame::FrameError> {
/// let frame = Frame {
///     service: Service(7), class: Class::Ordered, sequence: 1, acknowledged: 0,
///     head: [1, 2][..].into(), parts: [&b"part"[..]].into(),
/// };
/// let mut bytes = frame.prefix(&FrameLimits::default())?;
/// bytes.extend_from_slice(frame.parts[0]); // or one vectored write
/// let read = Decoder::<Vec<u8>>::new(FrameLimits::default()).decode(&mut &bytes[..])?;
/// assert_eq!(read.map(|read| read.parts.to_vec()), Some(vec![b"part".to_vec()]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<P = Vec<u8>> {
    /// The service that the frame is for.
    pub service: Service,
    /// The delivery that the frame asks for.
    pub class: Class,
    /// The place in the session's sequence; 0 for a frame outside the sequence.
    pub sequence: u64,
    /// The last sequence number that the writer has delivered.
    pub acknowledged: u64,
    /// The encoded part.
    pub head: Head,
    /// The raw parts.
    pub parts: Parts<P>,
}

impl<P: AsRef<[u8]>> Frame<P> {
    /// The bytes before the parts: header, head and table. The frame is these bytes and then each part.
    ///
    /// # Errors
    /// [`FrameError::HeadTooLong`], [`FrameError::TooManyParts`] or [`FrameError::BodyTooLong`]: above a limit.
    pub fn prefix(&self, limits: &FrameLimits) -> Result<Vec<u8>, FrameError> {
        let lengths = self.parts.iter().map(|part| part.as_ref().len() as u64);
        let header = Header {
            service: self.service,
            class: self.class,
            head_bytes: u32::try_from(self.head.len()).unwrap_or(u32::MAX),
            parts: u32::try_from(self.parts.len()).unwrap_or(u32::MAX),
            body_bytes: lengths.clone().sum(),
            sequence: self.sequence,
            acknowledged: self.acknowledged,
        };
        header.check(limits)?;
        let mut prefix = Vec::with_capacity(HEADER_BYTES + self.head.len() + 8 * self.parts.len());
        prefix.extend_from_slice(&header.encode());
        prefix.extend_from_slice(&self.head);
        lengths.for_each(|length| prefix.extend_from_slice(&length.to_le_bytes()));
        Ok(prefix)
    }
}
