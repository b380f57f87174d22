//! The shared memory that a plan needs, channel by channel, before anything is allocated.

use selvedge_channels::SharedSpec;

use crate::ir::{ChannelId, ChannelPlan, Plan};

/// The memory of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMemory {
    /// The channel.
    pub channel: ChannelId,
    /// Bytes of shared memory at the start. 0 for channels within a process: their slots lie on the heap and hold the
    /// values themselves.
    pub shared_bytes: u64,
    /// Bytes of shared memory once every slot holds the largest payload allowed.
    pub shared_bytes_max: u64,
}

/// The memory of all channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The memory of each channel, by channel id.
    pub channels: Vec<ChannelMemory>,
    /// The number of channels in shared memory.
    pub shared_channels: usize,
    /// The sum of all [`ChannelMemory::shared_bytes`].
    pub shared_bytes: u64,
    /// The sum of all [`ChannelMemory::shared_bytes_max`].
    pub shared_bytes_max: u64,
}

impl Plan {
    /// Returns the memory that the plan's channels need. Sums saturate at the largest number.
    pub fn memory(&self) -> MemoryPlan {
        let mut memory = MemoryPlan::default();
        for channel in &self.channels {
            let taken = of_channel(channel);
            memory.shared_channels += usize::from(channel.is_encoded());
            memory.shared_bytes = memory.shared_bytes.saturating_add(taken.shared_bytes);
            memory.shared_bytes_max = memory.shared_bytes_max.saturating_add(taken.shared_bytes_max);
            memory.channels.push(taken);
        }
        memory
    }
}

fn of_channel(channel: &ChannelPlan) -> ChannelMemory {
    let bytes = |slot_bytes: u64| -> u64 {
        if !channel.is_encoded() {
            return 0;
        }
        let readers = u32::try_from(channel.readers.len()).unwrap_or(u32::MAX);
        let readers = readers.saturating_add(channel.mirrors);
        let spec = SharedSpec {
            slots: channel.slots,
            slot_bytes,
            readers,
            max_bytes: channel.max_bytes,
        };
        spec.size_bytes().map_or(u64::MAX, |bytes| bytes as u64)
    };
    ChannelMemory {
        channel: channel.id,
        shared_bytes: bytes(channel.slot_bytes),
        shared_bytes_max: bytes(channel.slot_bytes.max(channel.max_bytes)),
    }
}
