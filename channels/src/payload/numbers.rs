//! The frame of numbers that are written in place.

use super::element::{Element, cast_slice, cast_slice_mut};
use super::frame::{Form, Offsets, length_at, prefix};
use super::layout::element_count;
use super::tensor::TensorHead;

/// The frame of a `Vec` of numbers or of a tensor, for numbers that are written later.
#[derive(Clone, Debug)]
pub(crate) struct NumbersFrame {
    prefix: [u8; 8],
    /// The encoded head before a tensor's numbers; empty for a `Vec`.
    head: Vec<u8>,
    part_len: usize,
    part: usize,
}

impl NumbersFrame {
    /// The frame for `len` numbers; `None` if there are too many.
    pub(crate) fn of<E: Element>(len: usize) -> Option<Self> {
        Self::with::<E>(Form::Numbers(E::DTYPE), Vec::new(), len)
    }

    /// The frame of a tensor of this shape; `None` if it is too large.
    pub(crate) fn of_tensor<E: Element>(shape: &[usize]) -> Option<Self> {
        let head = postcard::to_allocvec(&TensorHead::of(E::DTYPE, shape)).ok()?;
        Self::with::<E>(Form::Tree, head, element_count(shape)?)
    }

    fn with<E: Element>(form: Form, head: Vec<u8>, len: usize) -> Option<Self> {
        let part_len = len.checked_mul(size_of::<E>())?;
        let part = Offsets::of(head.len(), 1)?.first_part;
        part.checked_add(part_len)?;
        Some(NumbersFrame {
            prefix: prefix(head.len(), 1, form)?,
            head,
            part_len,
            part,
        })
    }

    /// The length of the frame in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.part + self.part_len
    }

    /// Writes everything except the numbers.
    pub(crate) fn write_prefix(&self, frame: &mut [u8]) {
        let numbers: [(usize, &[u8]); 3] = [
            (0, &self.prefix),
            (length_at(0), &(self.part_len as u64).to_le_bytes()),
            (length_at(1), &self.head),
        ];
        for (offset, bytes) in numbers {
            if let Some(place) = frame.get_mut(offset..offset + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// The numbers in the frame, read-only.
    pub(crate) fn numbers<'a, E: Element>(&self, frame: &'a [u8]) -> &'a [E] {
        frame.get(self.part..).and_then(cast_slice).unwrap_or_default()
    }

    /// The numbers in the frame, for writing.
    pub(crate) fn numbers_mut<'a, E: Element>(&self, frame: &'a mut [u8]) -> &'a mut [E] {
        frame
            .get_mut(self.part..)
            .and_then(cast_slice_mut)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Tensor, decode, encode};
    use super::*;

    #[test]
    fn numbers_written_in_place_are_the_vec_that_encode_writes() {
        let numbers = [1.5_f32, -2.0, 3.25];
        let frame = NumbersFrame::of::<f32>(3).unwrap();
        let words = frame.len_bytes().div_ceil(8);
        let mut aligned = vec![0_u64; words];
        let bytes = cast_bytes(&mut aligned);
        let bytes = &mut bytes[..frame.len_bytes()];
        frame.write_prefix(bytes);
        frame.numbers_mut(bytes).copy_from_slice(&numbers);
        assert_eq!(decode::<Vec<f32>>(bytes).unwrap(), numbers);
        let vector = numbers.to_vec();
        assert_eq!(bytes, encode(&vector).unwrap().to_vec());
        assert!(NumbersFrame::of::<u64>(usize::MAX / 8).is_none());
    }

    #[test]
    fn a_tensor_written_in_place_is_the_one_that_encode_writes() {
        let tensor = Tensor::from_slice(&[1_i16, -2, 3, -4, 5, -6], &[3, 2]).unwrap();
        let frame = NumbersFrame::of_tensor::<i16>(&[3, 2]).unwrap();
        let mut aligned = vec![0_u64; frame.len_bytes().div_ceil(8)];
        let bytes = &mut cast_bytes(&mut aligned)[..frame.len_bytes()];
        frame.write_prefix(bytes);
        frame
            .numbers_mut(bytes)
            .copy_from_slice(tensor.as_slice::<i16>().unwrap());
        assert_eq!(bytes, encode(&tensor).unwrap().to_vec());
        assert!(NumbersFrame::of_tensor::<u64>(&[usize::MAX, 2]).is_none());
    }

    fn cast_bytes(words: &mut [u64]) -> &mut [u8] {
        let len = words.len() * 8;
        // SAFETY: every bit pattern of a `u64` and of its bytes is valid.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len)
        }
    }
}
