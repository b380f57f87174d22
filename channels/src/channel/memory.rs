//! The memory that a channel needs, computed before the channel is made.

use super::shared::whole_bytes;
use crate::error::{ChannelError, MemoryLimit};
use crate::memory::segment::{Provider, room};
use crate::shared::SharedSpec;

/// The shared memory that one channel between processes needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMemory {
    /// The number of bytes before growth. Pages that are never touched take no memory.
    pub bytes: u64,
    /// The number of bytes after payloads of the largest size have been sent. While readers still use outgrown memory,
    /// that memory exists as well; it is never larger than the new memory.
    pub grown_bytes: u64,
    /// The limit on the memory of a segment on this system, with the number of bytes that it leaves.
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

    /// Whether the channel can be made and can grow to its largest size.
    pub fn fits(&self) -> bool {
        self.limit
            .is_none_or(|(_, has_bytes)| self.grown_bytes <= has_bytes)
    }
}
