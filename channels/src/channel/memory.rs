//! What a channel takes, before it is taken.

use super::shared::whole_bytes;
use crate::error::{ChannelError, MemoryLimit};
use crate::segment::{Provider, room};
use crate::shared::SharedSpec;

/// The shared memory of one channel between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMemory {
    /// Bytes from the start; the pages of slots that are never used stay unused.
    pub bytes: u64,
    /// Bytes once payloads of the largest size allowed have been sent. While readers are still on outgrown memory, that
    /// is there as well: never more than the new.
    pub grown_bytes: u64,
    /// What bounds the memory of a segment here, and how many bytes that leaves.
    pub limit: Option<(MemoryLimit, u64)>,
}

impl ChannelMemory {
    pub(super) fn of(spec: &SharedSpec, provider: Provider) -> Result<Self, ChannelError> {
        let bytes = whole_bytes(spec)? as u64;
        let grown = u64::from(spec.slots).saturating_mul(spec.max_bytes);
        let grows = spec.max_bytes > spec.slot_bytes;
        Ok(ChannelMemory {
            bytes,
            grown_bytes: if grows { bytes.saturating_add(grown) } else { bytes },
            limit: room(provider),
        })
    }

    /// Whether the channel can be made and can grow to its cap.
    pub fn fits(&self) -> bool {
        self.limit
            .is_none_or(|(_, has_bytes)| self.grown_bytes <= has_bytes)
    }
}
