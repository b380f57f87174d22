//! Errors of frames.

use thiserror::Error;

/// The reason why bytes are no frame, or why a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first bytes are not those of a frame.
    #[error("the bytes {found:02x?} are no frame: does another program use this address?")]
    Magic {
        /// The bytes in place of the magic.
        found: [u8; 4],
    },
    /// The frame has another layout.
    #[error("a frame of layout {found}, and this build reads layout {known}: run one build everywhere")]
    Version {
        /// The version of the frame.
        found: u8,
        /// The version that this build reads.
        known: u8,
    },
    /// The class is none of the known ones.
    #[error(
        "a frame of the unknown class {found}: the peer violates the protocol, or its bytes were damaged"
    )]
    Class {
        /// The number in place of a class.
        found: u8,
    },
    /// The head is longer than allowed.
    #[error("a head of {bytes} bytes, and {limit} are allowed: send the data as parts")]
    HeadTooLong {
        /// The length of the head in bytes.
        bytes: u32,
        /// The limit in bytes.
        limit: u32,
    },
    /// The frame has more parts than allowed.
    #[error("{parts} parts, and {limit} are allowed: put several buffers into one part")]
    TooManyParts {
        /// The number of parts.
        parts: u32,
        /// The limit.
        limit: u32,
    },
    /// The parts are longer than allowed.
    #[error("{bytes} bytes of parts, and {limit} are allowed: send several frames")]
    BodyTooLong {
        /// The length of all parts in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The lengths of the parts do not add up to the length of the body.
    #[error("parts that do not add up to the {body} bytes of the body: the peer violates the protocol")]
    Parts {
        /// The length of the body in bytes.
        body: u64,
    },
    /// A chunk that makes no message with the chunks before it.
    #[error("a chunk of a long message {0}: the peer violates the protocol")]
    Chunk(&'static str),
    /// A message in chunks is longer than allowed.
    #[error("a message of {bytes} bytes, and {limit} are allowed: send several messages")]
    MessageTooLong {
        /// The length of the message's body in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// No memory can be had for what the peer has announced.
    #[error("no memory for {bytes} bytes that are announced: send less at a time")]
    NoMemory {
        /// The announced length in bytes.
        bytes: usize,
    },
}
