//! Byte rings: a stream of bytes from one writer to one reader, through a ring in a segment.
//!
//! - `BYTES-1` the writer alone stores the number of bytes written, the reader alone that of the bytes read. Both only rise,
//!   and differ by at most the capacity.
//! - `BYTES-2` the bytes between the two numbers belong to the reader, all others to the writer.
//! - `BYTES-3` each number of the other end is read once, and checked before it is used.
//! - `BYTES-4` an end that is about to sleep announces that in its doorbell and looks once more (`BELL-1`). The other end
//!   claims the wake-up after each change (`BELL-2`), and wakes by means of its own, such as an event descriptor.
//!
//! An end never waits here. Bytes that the peer changes while they are copied arrive changed, which is for the reader to check.

mod reader;
mod writer;

pub use reader::ByteReader;
pub use writer::ByteWriter;

use std::sync::atomic::AtomicU64;

use crate::error::{ChannelError, SegmentError};
use crate::memory::region::Region;
use crate::wait::doorbell::Doorbell;

/// The bytes that a ring needs beside its capacity.
pub const BYTE_RING_HEADER: usize = 256;

/// The bytes after which a copy is interrupted to let the other end see how far it is. So the two ends of a long message copy at
/// the same time; an end that told of its copy when all of it is done would wait while the other end copies.
const PUBLISHED_BYTES: usize = 32 << 10;

/// The offset of the number of bytes written.
const WRITTEN: usize = 0;
/// The offset of the number of bytes read.
const READ: usize = 64;
const READER_BELL: usize = 128;
const WRITER_BELL: usize = 192;

/// The memory of a ring, as one end has it.
struct RingMemory {
    region: Region,
    /// A power of two.
    capacity: usize,
    reader_bell: Doorbell,
    writer_bell: Doorbell,
}

impl RingMemory {
    /// A ring over a region that was zeroed when it was made.
    fn attach(region: Region) -> Result<Self, ChannelError> {
        let capacity = region.len_bytes().saturating_sub(BYTE_RING_HEADER);
        if !capacity.is_power_of_two() {
            return Err(ChannelError::InvalidSpec {
                what: "the capacity of a byte ring: a power of two",
                value: capacity as u64,
                least: 1,
            });
        }
        let bell = |offset| Doorbell::at(region.sub(offset, Doorbell::BYTES)?);
        let (reader_bell, writer_bell) = (bell(READER_BELL)?, bell(WRITER_BELL)?);
        Ok(RingMemory {
            region,
            capacity,
            reader_bell,
            writer_bell,
        })
    }

    #[inline]
    fn word(&self, offset: usize) -> Result<&AtomicU64, SegmentError> {
        self.region.atomic_u64(offset)
    }

    /// The one or two pieces of the ring that hold `len` bytes from number `from` on, each with its offset in the region.
    /// `len` is at most the capacity.
    #[inline]
    fn pieces(&self, from: u64, len: usize) -> [(usize, usize); 2] {
        // The remainder by a power of two.
        let start = (from as usize) & (self.capacity - 1);
        let first = len.min(self.capacity - start);
        [(BYTE_RING_HEADER + start, first), (BYTE_RING_HEADER, len - first)]
    }
}

/// The difference of the two numbers, which is at most `most`.
#[inline]
fn distance(ahead: u64, behind: u64, most: usize) -> Result<usize, ChannelError> {
    let distance = usize::try_from(ahead.wrapping_sub(behind)).unwrap_or(usize::MAX);
    if distance > most {
        return Err(ChannelError::Corrupt {
            what: "a number of bytes that no honest end of a byte ring has",
        });
    }
    Ok(distance)
}

#[cfg(test)]
mod tests;
