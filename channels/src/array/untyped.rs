//! Work at the own part for code that does not know the type of the elements: their size is enough.

use std::sync::Arc;

use super::error::ArrayError;
use super::memory::ArrayMemory;
use super::split::part_of;
use super::view::ArrayView;
use crate::payload::Element;

/// Writes one element, given by its bytes, to the part of this process.
///
/// # Errors
/// [`ArrayError::Claimed`], [`ArrayError::ReadOnly`]; [`ArrayError::WrongLength`] for bytes of another length.
pub fn fill_own_part(memory: &Arc<ArrayMemory>, element: &[u8]) -> Result<(), ArrayError> {
    fn fill<T: Element>(
        memory: &Arc<ArrayMemory>,
        element: &[u8],
        read: impl Fn([u8; 8]) -> T,
    ) -> Result<(), ArrayError> {
        let mut bits = [0; 8];
        bits.iter_mut().zip(element).for_each(|(bit, byte)| *bit = *byte);
        let range = part_of(memory.spec.len, memory.spec.parts, memory.slot);
        ArrayView::<T>::of_size(memory)?.fill(range, read(bits))
    }
    let (has, wanted) = (element.len(), memory.spec.dtype.size_bytes());
    if has != wanted {
        return Err(ArrayError::WrongLength { has, wanted });
    }
    match wanted {
        1 => fill::<u8>(memory, element, |[a, ..]| a),
        2 => fill::<u16>(memory, element, |[a, b, ..]| u16::from_ne_bytes([a, b])),
        4 => fill::<u32>(memory, element, |[a, b, c, d, ..]| {
            u32::from_ne_bytes([a, b, c, d])
        }),
        _ => fill::<u64>(memory, element, u64::from_ne_bytes),
    }
}

/// Copies the elements of the part of this process from another array, which has the same form.
///
/// # Errors
/// [`ArrayError::Claimed`], [`ArrayError::ReadOnly`]; [`ArrayError::WrongType`] for elements of another type;
/// [`ArrayError::OutOfBounds`] if the other array is shorter.
pub fn copy_own_part(from: &Arc<ArrayMemory>, to: &Arc<ArrayMemory>) -> Result<(), ArrayError> {
    fn copy<T: Element>(from: &Arc<ArrayMemory>, to: &Arc<ArrayMemory>) -> Result<(), ArrayError> {
        let mut range = part_of(to.spec.len, to.spec.parts, to.slot);
        let (from, to) = (ArrayView::<T>::of_size(from)?, ArrayView::<T>::of_size(to)?);
        range.try_for_each(|index| to.set(index, from.get(index)?))
    }
    from.check(to.spec.dtype)?;
    match to.spec.dtype.size_bytes() {
        1 => copy::<u8>(from, to),
        2 => copy::<u16>(from, to),
        4 => copy::<u32>(from, to),
        _ => copy::<u64>(from, to),
    }
}
