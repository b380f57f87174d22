//! Frames: the messages of the control channel, each with the metadata of one slot.

use serde::{Deserialize, Serialize};

use crate::device::tensor::DeviceTensor;
use crate::payload::TensorLayout;

/// A message without its data on the device. As in any channel, a fault may be sent in its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DeviceFrame {
    pub(super) content: Content,
    /// The encoded value that contained the tensors; empty for tensors alone.
    pub(super) value: Vec<u8>,
}

/// The tensors of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Content {
    /// Tensors of these layouts are in the slot.
    Tensors(Vec<TensorLayout>),
    /// Tensors of the layouts of the first message are in the slot.
    AsFirst,
    /// Tensors of this process, sent by pointer and event. The memory of the slot is not used.
    #[serde(skip)]
    Given(Vec<DeviceTensor>),
}

/// The alignment of each tensor in a slot. It suffices for vector loads of any kernel, and is also the alignment of the
/// driver's allocations.
pub(super) const ALIGN: usize = 256;

/// The offsets of a message's tensors in its slot. Both sides compute them from the layouts, so a reader need not trust
/// the writer's offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorOffsets {
    offsets: Vec<usize>,
    /// The number of bytes in use in the slot.
    pub(super) bytes: usize,
}

impl TensorOffsets {
    /// Computes the places for these layouts, or returns `None` if their size overflows.
    pub(super) fn of(layouts: &[TensorLayout]) -> Option<Self> {
        let mut offsets = Vec::with_capacity(layouts.len());
        let mut bytes = 0_usize;
        for layout in layouts {
            let offset = bytes.checked_next_multiple_of(ALIGN)?;
            offsets.push(offset);
            bytes = offset.checked_add(layout.len_bytes())?;
        }
        Some(TensorOffsets { offsets, bytes })
    }

    pub(super) fn offset(&self, index: usize) -> Option<usize> {
        self.offsets.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::DType;

    fn layout(len: usize) -> TensorLayout {
        TensorLayout::new(DType::U8, [len]).unwrap()
    }

    #[test]
    fn acc_20_places_follow_from_layouts_alone() {
        let places = TensorOffsets::of(&[layout(1), layout(0), layout(257), layout(8)]).unwrap();
        assert_eq!(places.offsets, [0, 256, 256, 768]);
        assert_eq!(places.bytes, 776);
        assert_eq!(TensorOffsets::of(&[]).unwrap().bytes, 0);
        let huge = layout(isize::MAX as usize);
        assert_eq!(TensorOffsets::of(&[huge.clone(), huge.clone(), huge]), None);
    }
}
