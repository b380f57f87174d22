//! The channel between processes: one writer, N readers, K slots in a segment. Same protocol as [`ring`](mod@crate::ring),
//! over bytes.
//!
//! ```text
//! | control line | cursor line per reader … | header line per slot … | K payloads of `slot_bytes` … |
//! ```
//!
//! A slot's header holds stamp, kind, generation and length; a payload of up to 40 bytes lies in the header itself,
//! so that a small hop costs one cache line. A payload above `slot_bytes` makes the channel grow: the writer puts
//! it into a new segment (generation + 1) whose id stands in the header; readers map it on sight.
//!
//! - `SHM-1` message `i` lies in slot `i % K` and may be read once the stamp is `i + 1`.
//! - `SHM-2` a slot is written only when every cursor has passed what lay there.
//! - `SHM-3` generations only rise; a segment is given back when every message in it has been passed.
//! - `SHM-4` every number read from the segment is checked once before it is believed.

mod growth;
mod reader;
mod writer;

pub use reader::SharedReader;
pub use writer::SharedWriter;

use serde::{Deserialize, Serialize};

use crate::error::ChannelError;
use crate::region::Region;
use std::sync::atomic::Ordering;

/// The smallest `slot_bytes`.
pub const SLOT_BYTES_MIN: u64 = 1000;

const LINE: usize = 64;
const VERSION: u64 = u64::from_le_bytes(*b"slvring1");
const STATE: usize = 16;
/// Set by a writer that has found no space, see [`ring`](mod@crate::ring).
const BLOCKED: usize = 24;
const OPEN: u32 = 0;
const CLOSED: u32 = 1;
/// A cursor of a reader that is gone.
const GONE: u64 = u64::MAX;

/// Offsets in a slot's header.
mod slot {
    pub(super) const STAMP: usize = 0;
    pub(super) const KIND: usize = 8;
    pub(super) const GENERATION: usize = 12;
    pub(super) const LEN: usize = 16;
    pub(super) const INLINE: usize = 24;
    pub(super) const INLINE_MAX: usize = 40;
    pub(super) const PID_FD: usize = 24;
    pub(super) const NONCE: usize = 32;
    pub(super) const SEGMENT_LEN: usize = 40;
    pub(super) const STRIDE: usize = 48;
}

/// What a slot holds.
mod kind {
    pub(super) const VALUE: u32 = 0;
    pub(super) const FAILED: u32 = 1;
    pub(super) const CANCELLED: u32 = 2;
}

/// The shape of a shared channel, known to both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSpec {
    /// Messages that may be under way.
    pub slots: u32,
    /// Bytes of a slot before the channel grows; at least [`SLOT_BYTES_MIN`].
    pub slot_bytes: u64,
    /// Number of readers.
    pub readers: u32,
    /// The largest payload ever.
    pub max_bytes: u64,
}

impl SharedSpec {
    fn check(&self) -> Result<(), ChannelError> {
        let bounds = [
            ("slots", u64::from(self.slots), 1),
            ("readers", u64::from(self.readers), 1),
            ("buffer_bytes", self.slot_bytes, SLOT_BYTES_MIN),
        ];
        match bounds.into_iter().find(|(_, value, least)| value < least) {
            Some((what, value, least)) => Err(ChannelError::InvalidSpec { what, value, least }),
            None => Ok(()),
        }
    }

    fn stride(&self) -> Option<usize> {
        usize::try_from(self.slot_bytes)
            .ok()?
            .checked_next_multiple_of(LINE)
    }

    fn headers_offset(&self) -> Option<usize> {
        (self.readers as usize).checked_add(1)?.checked_mul(LINE)
    }

    fn payload_offset(&self) -> Option<usize> {
        self.headers_offset()?
            .checked_add((self.slots as usize).checked_mul(LINE)?)
    }

    /// Bytes the channel needs in its region.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] when a number is below its least value, [`ChannelError::TooLarge`] when the
    /// product overflows.
    pub fn size_bytes(&self) -> Result<usize, ChannelError> {
        self.check()?;
        let size = || {
            self.payload_offset()?
                .checked_add(self.stride()?.checked_mul(self.slots as usize)?)
        };
        size().ok_or(ChannelError::TooLarge {
            need_bytes: u64::MAX,
            max_bytes: usize::MAX as u64,
        })
    }
}

/// Prepares a fresh, zeroed region; once, by whoever creates the channel. Touches every page, so that the first
/// messages do not pay for page faults.
///
/// # Errors
/// [`ChannelError`] when spec or region do not fit.
pub fn format(region: &Region, spec: &SharedSpec) -> Result<(), ChannelError> {
    let size = spec.size_bytes()?;
    for page in (0..size).step_by(4096) {
        region.atomic_u64(page)?.store(0, Ordering::Relaxed);
    }
    region.atomic_u32(STATE)?.store(OPEN, Ordering::Relaxed);
    // SYNC ring-formatted: pairs with the acquire load in `Place::attach`.
    region.atomic_u64(0)?.store(VERSION, Ordering::Release);
    Ok(())
}

/// A channel's place in memory, as one end sees it.
struct Place {
    region: Region,
    spec: SharedSpec,
    headers: usize,
    payload: usize,
    stride: usize,
}

impl Place {
    fn attach(region: Region, spec: &SharedSpec) -> Result<Self, ChannelError> {
        let size = spec.size_bytes()?;
        let overflow = ChannelError::Corrupt {
            what: "a spec that overflows",
        };
        let (Some(headers), Some(payload), Some(stride)) =
            (spec.headers_offset(), spec.payload_offset(), spec.stride())
        else {
            return Err(overflow);
        };
        let region = region.sub(0, size)?;
        if region.atomic_u64(0)?.load(Ordering::Acquire) != VERSION {
            return Err(ChannelError::Corrupt {
                what: "the region holds no channel of this version",
            });
        }
        Ok(Place {
            region,
            spec: spec.clone(),
            headers,
            payload,
            stride,
        })
    }

    /// Offset of the header of the slot that message `number` lies in.
    #[inline]
    fn header(&self, number: u64) -> usize {
        self.headers + (number % u64::from(self.spec.slots)) as usize * LINE
    }

    /// Offset of the payload of message `number` in a payload area of slots `stride` apart.
    #[inline]
    fn within(&self, number: u64, stride: usize) -> usize {
        (number % u64::from(self.spec.slots)) as usize * stride
    }

    #[inline]
    fn cursor(&self, reader: u32) -> usize {
        (reader as usize + 1) * LINE
    }

    fn is_closed(&self) -> Result<bool, ChannelError> {
        // SYNC ring-closed.
        Ok(self.region.atomic_u32(STATE)?.load(Ordering::Acquire) != OPEN)
    }
}
