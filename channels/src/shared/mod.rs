//! The channel between processes: one writer, N readers, K slots in a segment. Same protocol as [`ring`](mod@crate::ring),
//! over bytes.
//!
//! A payload of up to 40 bytes lies in the line of its slot's stamp, so that a small hop costs one cache line. A
//! payload above `slot_bytes` makes the channel grow: the writer puts it into a new segment (generation + 1) whose id
//! stands in the slot's header; readers map it on sight.
//!
//! - `SHM-1` stamps and tails work as `cursor.rs` says (`RING-1` to `RING-3`, `RING-6`); each end has one owner.
//! - `SHM-2` generations only rise; a segment is given back when every message in it has been passed.
//! - `SHM-3` every number read from the segment is read once and checked before it is believed.
//! - `SHM-4` whoever finds no progress looks at the state word, and does not wait for a peer that has died.
//!
//! States, layout and races: `channels/README.md`.

mod claims;
mod growth;
mod layout;
mod reader;
mod writer;

pub(crate) use claims::Claims;
pub use reader::SharedReader;
pub(crate) use writer::Lent;
pub use writer::SharedWriter;

use serde::{Deserialize, Serialize};

use crate::error::{ChannelError, Culprit, SegmentError};
use crate::region::Region;

/// The smallest `slot_bytes`.
pub const SLOT_BYTES_MIN: u64 = 1000;

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
    /// Bytes the channel needs in its region.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] when a number is below its least value, [`ChannelError::Segment`] when
    /// the product overflows.
    pub fn size_bytes(&self) -> Result<usize, ChannelError> {
        let bounds = [
            ("slots", u64::from(self.slots), 1),
            ("readers", u64::from(self.readers), 1),
            ("buffer_bytes", self.slot_bytes, SLOT_BYTES_MIN),
        ];
        if let Some((what, value, least)) = bounds.into_iter().find(|(_, value, least)| value < least) {
            return Err(ChannelError::InvalidSpec { what, value, least });
        }
        let places = layout::Places::of(self).ok_or_else(SegmentError::unaddressable)?;
        Ok(places.end)
    }
}

/// Prepares a fresh, zeroed region; once, by whoever creates the channel, before anybody attaches. Touches the first
/// page of every slot, so that the first small messages do not pay for page faults.
///
/// # Errors
/// [`ChannelError`] when spec or region do not fit.
pub fn format(region: &Region, spec: &SharedSpec) -> Result<(), ChannelError> {
    layout::format(region, spec)
}

/// Says on behalf of `culprit`, a peer that has died, that nothing will move here any more. Both ends find out when they next see
/// no progress: readers after the messages that are there. Ring their bells afterwards. Never waits.
///
/// # Errors
/// [`ChannelError::Corrupt`] when the region holds no channel.
pub fn poison(region: &Region, culprit: Culprit) -> Result<(), ChannelError> {
    layout::poison(region, culprit)
}
