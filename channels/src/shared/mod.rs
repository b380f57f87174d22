//! The channel between processes: one writer, N readers, K slots in a segment. It uses the protocol of
//! [`ring`](mod@crate::ring), over bytes.
//!
//! A payload of up to 40 bytes lies in the cache line of its slot's stamp, so that a small message moves a single line.
//! A payload larger than `slot_bytes` makes the channel grow: the writer puts it into a new segment (generation + 1)
//! and writes the id of that segment into the slot's header; a reader maps the segment when it first sees the id.
//!
//! - `SHM-1` stamps and tails work as `cursor.rs` says (`RING-1` to `RING-3`, `RING-6`); each endpoint has one owner.
//! - `SHM-2` generations only rise; a segment is released when every message in it has been passed.
//! - `SHM-3` every number in the segment is read once and checked before it is used.
//! - `SHM-4` an endpoint that finds no progress reads the state word, and does not wait for a peer that has died.
//! - `SHM-5` records of a message are claimed by its reader, or left to the writer: `record_claim.rs`.
//! - `SHM-6` the value of a message that took the bypass is there before the message is published: `bypass.rs`.
//!
//! States, layout and races: `channels/README.md`.

mod bypass;
mod claims;
mod growth;
mod layout;
mod owned_loan;
mod reader;
mod record_claim;
mod writer;

use layout::SlotOffsets;

pub use bypass::Bypass;
pub(crate) use layout::MappedChannel;
pub use layout::{format, poison};
pub use owned_loan::OwnedLoan;
pub use reader::SharedReader;
pub(crate) use writer::Lent;
pub use writer::SharedWriter;

use serde::{Deserialize, Serialize};

use crate::error::{ChannelError, SegmentError};

/// The smallest valid `slot_bytes`.
pub const SLOT_BYTES_MIN: u64 = 1000;

/// The shape of a shared channel, known to all endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSpec {
    /// The number of slots: messages that can be in flight.
    pub slots: u32,
    /// The capacity of a slot in bytes before the channel grows; at least [`SLOT_BYTES_MIN`].
    pub slot_bytes: u64,
    /// The number of readers.
    pub readers: u32,
    /// The size in bytes of the largest payload that the channel may ever carry.
    pub max_bytes: u64,
}

impl SharedSpec {
    /// The number of bytes that the channel needs in its region.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] if a number is below its minimum, [`ChannelError::Segment`] if the size overflows.
    pub fn size_bytes(&self) -> Result<usize, ChannelError> {
        Ok(self.places()?.end)
    }

    fn places(&self) -> Result<SlotOffsets, ChannelError> {
        let bounds = [
            ("slots", u64::from(self.slots), 1),
            ("readers", u64::from(self.readers), 1),
            ("buffer_bytes", self.slot_bytes, SLOT_BYTES_MIN),
        ];
        if let Some((what, value, least)) = bounds.into_iter().find(|(_, value, least)| value < least) {
            return Err(ChannelError::InvalidSpec { what, value, least });
        }
        Ok(SlotOffsets::of(self).ok_or_else(SegmentError::unaddressable)?)
    }
}
