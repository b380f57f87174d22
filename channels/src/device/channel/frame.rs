//! What travels on the control path beside each slot: what lies in it.

use serde::{Deserialize, Serialize};

use crate::device::tensor::DeviceTensor;
use crate::payload::TensorLayout;

/// A message, but for what is on the device. A fault travels in its stead, as in any channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) content: Content,
    /// What the tensors were taken out of; empty for tensors alone.
    pub(super) value: Vec<u8>,
}

/// What lies in the slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Content {
    /// These tensors are in the slot.
    Tensors(Vec<TensorLayout>),
    /// The same as in the first message.
    AsFirst,
    /// Tensors of this process, by pointer and event; the slot's own memory is not used.
    #[serde(skip)]
    Given(Vec<DeviceTensor>),
}

/// Tensors lie in a slot one after the other, each from such a boundary on: what vector loads of any kernel want, and what
/// the driver gives itself.
pub(super) const ALIGN: usize = 256;

/// Where a message's tensors lie in its slot. Both sides compute it from the layouts, so there is nothing to believe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    offsets: Vec<usize>,
    /// Bytes of the slot that are used.
    pub(super) bytes: usize,
}

impl Places {
    /// `None` when they cannot be counted.
    pub(super) fn of(layouts: &[TensorLayout]) -> Option<Self> {
        let mut offsets = Vec::with_capacity(layouts.len());
        let mut bytes = 0_usize;
        for layout in layouts {
            let offset = bytes.checked_next_multiple_of(ALIGN)?;
            offsets.push(offset);
            bytes = offset.checked_add(layout.len_bytes())?;
        }
        Some(Places { offsets, bytes })
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
        let places = Places::of(&[layout(1), layout(0), layout(257), layout(8)]).unwrap();
        assert_eq!(places.offsets, [0, 256, 256, 768]);
        assert_eq!(places.bytes, 776);
        assert_eq!(Places::of(&[]).unwrap().bytes, 0);
        let huge = layout(isize::MAX as usize);
        assert_eq!(Places::of(&[huge.clone(), huge.clone(), huge]), None);
    }
}
