//! The header of a frame.

use serde::{Deserialize, Serialize};

use super::{FrameError, FrameLimits};

/// The length of a header in bytes.
pub const HEADER_BYTES: usize = 40;

const MAGIC: [u8; 4] = *b"SVF1";
const VERSION: u8 = 1;

/// The receiver of a frame within a process. The cluster knows [`Service::HANDSHAKE`] and [`Service::SESSION`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Service(pub u16);

crate::id_key!(Service as u16: |service| service.0);

impl Service {
    /// Frames of the handshake.
    pub const HANDSHAKE: Service = Service(0);
    /// Frames of the session itself: acknowledgements.
    pub const SESSION: Service = Service(1);
}

/// The delivery that a frame asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Exactly once, in the order of sending.
    Ordered,
    /// Outside the sequence: the frame may be lost, repeated or reordered, and its service has to cope.
    Loose,
    /// Only the acknowledgement in the header counts.
    Acknowledgement,
    /// Exactly once, in the order of sending: a stretch of a message that is longer than a frame.
    Chunk,
}

impl Class {
    #[inline]
    fn number(self) -> u8 {
        match self {
            Class::Ordered => 0,
            Class::Loose => 1,
            Class::Acknowledgement => 2,
            Class::Chunk => 3,
        }
    }

    #[inline]
    fn of(number: u8) -> Result<Self, FrameError> {
        match number {
            0 => Ok(Class::Ordered),
            1 => Ok(Class::Loose),
            2 => Ok(Class::Acknowledgement),
            3 => Ok(Class::Chunk),
            found => Err(FrameError::Class { found }),
        }
    }
}

/// The header of a frame, without magic and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The service that the frame is for.
    pub service: Service,
    /// The delivery that the frame asks for.
    pub class: Class,
    /// The length of the head in bytes.
    pub head_bytes: u32,
    /// The number of parts.
    pub parts: u32,
    /// The length of all parts together in bytes.
    pub body_bytes: u64,
    /// The place in the session's sequence; 0 for a frame outside the sequence.
    pub sequence: u64,
    /// The last sequence number that the writer has delivered.
    pub acknowledged: u64,
}

impl Header {
    /// The bytes of the header.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let [m0, m1, m2, m3] = MAGIC;
        let [s0, s1] = self.service.0.to_le_bytes();
        let words = [
            [m0, m1, m2, m3, VERSION, self.class.number(), s0, s1],
            (u64::from(self.parts) << 32 | u64::from(self.head_bytes)).to_le_bytes(),
            self.body_bytes.to_le_bytes(),
            self.sequence.to_le_bytes(),
            self.acknowledged.to_le_bytes(),
        ];
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    /// The number of bytes between the header and the parts: those of the head and of the table of lengths.
    #[inline]
    pub(super) fn prefix_bytes(&self) -> usize {
        self.head_bytes as usize + 8 * self.parts as usize
    }

    /// Reads a header and holds it against the limits.
    ///
    /// # Errors
    /// Any [`FrameError`] but [`FrameError::Parts`].
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES], limits: &FrameLimits) -> Result<Self, FrameError> {
        let [m0, m1, m2, m3, version, class, s0, s1, rest @ ..] = bytes;
        let found = [*m0, *m1, *m2, *m3];
        if found != MAGIC {
            return Err(FrameError::Magic { found });
        }
        if *version != VERSION {
            return Err(FrameError::Version {
                found: *version,
                known: VERSION,
            });
        }
        let [h0, h1, h2, h3, p0, p1, p2, p3, rest @ ..] = rest;
        let mut words = rest.chunks_exact(8).map(word);
        let header = Header {
            service: Service(u16::from_le_bytes([*s0, *s1])),
            class: Class::of(*class)?,
            head_bytes: u32::from_le_bytes([*h0, *h1, *h2, *h3]),
            parts: u32::from_le_bytes([*p0, *p1, *p2, *p3]),
            body_bytes: words.next().unwrap_or_default(),
            sequence: words.next().unwrap_or_default(),
            acknowledged: words.next().unwrap_or_default(),
        };
        header.check(limits)?;
        Ok(header)
    }

    /// Holds the lengths against the limits.
    #[inline]
    pub(super) fn check(&self, limits: &FrameLimits) -> Result<(), FrameError> {
        if self.head_bytes > limits.head_bytes_max {
            return Err(FrameError::HeadTooLong {
                bytes: self.head_bytes,
                limit: limits.head_bytes_max,
            });
        }
        if self.parts > limits.parts_max {
            return Err(FrameError::TooManyParts {
                parts: self.parts,
                limit: limits.parts_max,
            });
        }
        if self.body_bytes > limits.body_bytes_max {
            return Err(FrameError::BodyTooLong {
                bytes: self.body_bytes,
                limit: limits.body_bytes_max,
            });
        }
        Ok(())
    }
}

/// The little-endian number in up to eight bytes.
#[inline]
pub(super) fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => {
            let bytes = bytes.iter().rev();
            bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
        }
    }
}
