//! From a value to head and parts, without copying what is large.

use std::any::Any;
use std::sync::Arc;

use super::element::vec_bytes;
use super::tensor::{Bytes64, Tensor};
use super::{PART_ALIGN, PARTS_MAX, Wire, collector, offsets};
use crate::error::EncodeError;

/// A value ready to be copied into a slot. Heads of up to 64 bytes and a single part need no heap.
pub struct Encoded<'a> {
    head: Head,
    parts: Parts<'a>,
}

enum Head {
    Small([u8; 64], usize),
    Large(Vec<u8>),
}

enum Parts<'a> {
    One(&'a [u8]),
    Shared(Vec<Arc<Bytes64>>),
}

impl Head {
    fn as_slice(&self) -> &[u8] {
        match self {
            Head::Small(bytes, len) => bytes.get(..*len).unwrap_or_default(),
            Head::Large(bytes) => bytes,
        }
    }

    fn of<T: serde::Serialize>(value: &T) -> Result<Head, EncodeError> {
        let mut small = [0u8; 64];
        match postcard::to_slice(value, &mut small) {
            Ok(used) => {
                let len = used.len();
                Ok(Head::Small(small, len))
            }
            Err(postcard::Error::SerializeBufferFull) => Ok(Head::Large(postcard::to_allocvec(value)?)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Encodes a value.
///
/// # Errors
/// [`EncodeError`] when its `Serialize` refuses.
#[inline]
pub fn encode<T: Wire>(value: &T) -> Result<Encoded<'_>, EncodeError> {
    let empty = || Head::Small([0; 64], 0);
    let any: &dyn Any = value;
    if let Some(bytes) = vec_bytes(value) {
        return Ok(Encoded {
            head: empty(),
            parts: Parts::One(bytes),
        });
    }
    if let Some(text) = any.downcast_ref::<String>() {
        return Ok(Encoded {
            head: empty(),
            parts: Parts::One(text.as_bytes()),
        });
    }
    if let Some(tensor) = any.downcast_ref::<Tensor>() {
        let head = Head::of(&tensor.head(0))?;
        return Ok(Encoded {
            head,
            parts: Parts::One(tensor.bytes()),
        });
    }
    // Tried on the stack first, so the value's `Serialize` may run twice; the parts of the last run count.
    let mut small = [0u8; 64];
    let (tried, parts) =
        collector::collecting(|| postcard::to_slice(value, &mut small).map(|used| used.len()));
    let (head, parts) = match tried {
        Ok(len) => (Head::Small(small, len), parts),
        Err(postcard::Error::SerializeBufferFull) => {
            let (head, parts) = collector::collecting(|| postcard::to_allocvec(value));
            (Head::Large(head?), parts)
        }
        Err(error) => return Err(error.into()),
    };
    if parts.len() > PARTS_MAX {
        return Err(EncodeError::TooLarge);
    }
    Ok(Encoded {
        head,
        parts: Parts::Shared(parts),
    })
}

impl Encoded<'_> {
    fn count(&self) -> usize {
        match &self.parts {
            Parts::One(_) => 1,
            Parts::Shared(parts) => parts.len(),
        }
    }

    fn part(&self, index: usize) -> &[u8] {
        match &self.parts {
            Parts::One(part) => part,
            Parts::Shared(parts) => parts.get(index).map_or(&[], |part| part.as_slice()),
        }
    }

    /// Calls `visit` with the offset and bytes of every part; returns the end of the frame.
    fn frame(&self, mut visit: impl FnMut(usize, &[u8])) -> Option<usize> {
        let start = offsets(self.head.as_slice().len(), self.count())?;
        let mut end = start.head + self.head.as_slice().len();
        let mut next = start.next_part;
        for index in 0..self.count() {
            let part = self.part(index);
            visit(next, part);
            end = next.checked_add(part.len())?;
            next = end.checked_next_multiple_of(PART_ALIGN)?;
        }
        Some(end)
    }

    /// Bytes of the encoded value.
    pub fn len_bytes(&self) -> usize {
        self.frame(|_, _| {}).unwrap_or(usize::MAX)
    }

    /// Writes the encoded value to the start of `out`.
    ///
    /// # Errors
    /// [`EncodeError::Buffer`] when `out` is shorter than [`len_bytes`](Self::len_bytes).
    pub fn write_to(&self, out: &mut [u8]) -> Result<(), EncodeError> {
        let (need_bytes, have_bytes) = (self.len_bytes(), out.len());
        let short = || EncodeError::Buffer {
            need_bytes,
            have_bytes,
        };
        let head = self.head.as_slice();
        let head_len = u32::try_from(head.len()).map_err(|_| EncodeError::TooLarge)?;
        let start = offsets(head.len(), self.count()).ok_or(EncodeError::TooLarge)?;
        if need_bytes > have_bytes {
            return Err(short());
        }
        let mut put = |offset: usize, bytes: &[u8]| -> Result<(), EncodeError> {
            let target = offset
                .checked_add(bytes.len())
                .and_then(|end| out.get_mut(offset..end));
            target.ok_or_else(short)?.copy_from_slice(bytes);
            Ok(())
        };
        put(0, &head_len.to_le_bytes())?;
        put(4, &(self.count() as u32).to_le_bytes())?;
        put(start.head, head)?;
        let mut index = 0;
        let mut result = Ok(());
        self.frame(|offset, part| {
            let length = (part.len() as u64).to_le_bytes();
            let written = put(8 + 8 * index, &length).and_then(|()| put(offset, part));
            if result.is_ok() {
                result = written;
            }
            index += 1;
        });
        result
    }

    /// The encoded value on the heap.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len_bytes()];
        match self.write_to(&mut bytes) {
            Ok(()) => bytes,
            Err(_) => Vec::new(),
        }
    }
}
