//! From bytes to a value or a view. The bytes may come from another process: every length is checked before it is
//! believed, and nothing is allocated that the bytes do not pay for.
#![allow(unsafe_code)] // hands out one borrowed tensor

use std::any::{Any, TypeId};
use std::sync::Arc;

use super::element::{cast_slice, is_primitive, vec_from_bytes};
use super::tensor::{Bytes64, Head, Tensor};
use super::{PART_ALIGN, PARTS_MAX, Wire, collector, offsets};
use crate::error::DecodeError;

/// A checked frame.
struct Frame<'a> {
    head: &'a [u8],
    bytes: &'a [u8],
    parts: usize,
    first_part: usize,
}

fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

impl<'a> Frame<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let short = DecodeError::Malformed("it ends in its own header");
        let (Some(head_len), Some(parts)) = (number::<4>(bytes, 0), number::<4>(bytes, 4)) else {
            return Err(short);
        };
        let (head_len, parts) = (
            u32::from_le_bytes(head_len) as usize,
            u32::from_le_bytes(parts) as usize,
        );
        if parts > PARTS_MAX {
            return Err(DecodeError::Malformed("it claims too many parts"));
        }
        let Some(start) = offsets(head_len, parts) else {
            return Err(short);
        };
        let head = start
            .head
            .checked_add(head_len)
            .and_then(|end| bytes.get(start.head..end));
        let head = head.ok_or(DecodeError::Malformed("its head is longer than the payload"))?;
        Ok(Frame {
            head,
            bytes,
            parts,
            first_part: start.next_part,
        })
    }

    /// The parts in order.
    fn parts(&self) -> impl Iterator<Item = Result<&'a [u8], DecodeError>> {
        let mut next = Some(self.first_part);
        let bytes = self.bytes;
        (0..self.parts).map(move |index| {
            let cut = || -> Option<(&'a [u8], usize)> {
                let len = usize::try_from(u64::from_le_bytes(number::<8>(bytes, 8 + 8 * index)?)).ok()?;
                let end = next?.checked_add(len)?;
                Some((bytes.get(next?..end)?, end))
            };
            let (part, end) = cut().ok_or(DecodeError::Malformed("a part is longer than the payload"))?;
            next = end.checked_next_multiple_of(PART_ALIGN);
            Ok(part)
        })
    }

    /// The only part of a value that is one.
    fn only_part(&self) -> Result<&'a [u8], DecodeError> {
        if self.parts != 1 {
            return Err(DecodeError::Malformed("it should have exactly one part"));
        }
        self.parts()
            .next()
            .unwrap_or(Err(DecodeError::Malformed("it should have exactly one part")))
    }
}

fn cast<T: 'static, U: 'static>(value: U) -> Option<T> {
    let mut slot = Some(value);
    let any: &mut dyn Any = &mut slot;
    any.downcast_mut::<Option<T>>().and_then(Option::take)
}

fn read<T: Wire>(head: &[u8]) -> Result<T, DecodeError> {
    postcard::from_bytes(head).map_err(|source| DecodeError::Deserialize {
        type_name: std::any::type_name::<T>(),
        source,
    })
}

fn no_memory() -> DecodeError {
    DecodeError::Malformed("there is no memory for a part")
}

/// Decodes a value.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `T`.
#[inline]
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    let frame = Frame::parse(bytes)?;
    let wrong = DecodeError::Malformed("a part's length does not fit its type");
    if let Some(vector) = frame.only_part().ok().and_then(vec_from_bytes::<T>) {
        return vector.ok_or(wrong);
    }
    if TypeId::of::<T>() == TypeId::of::<String>() {
        let text = text_of(&frame)?.to_owned();
        return cast(text).ok_or(wrong);
    }
    if frame.parts == 0 {
        return read(frame.head);
    }
    let mut parts = Vec::new();
    for part in frame.parts() {
        parts.push(Arc::new(Bytes64::copy_of(part?).ok_or_else(no_memory)?));
    }
    collector::providing(parts, || read(frame.head))
}

/// As [`decode`], but a top-level [`Tensor`] borrows the bytes.
///
/// # Safety
/// `bytes` must stay valid and unwritten as long as the value exists; if `T` is `Tensor` it must not be moved out of
/// the place that guarantees this.
#[inline]
pub(crate) unsafe fn decode_in_place<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    if TypeId::of::<T>() != TypeId::of::<Tensor>() {
        return decode(bytes);
    }
    let frame = Frame::parse(bytes)?;
    let head: Head = postcard::from_bytes(frame.head).map_err(|source| DecodeError::Deserialize {
        type_name: std::any::type_name::<T>(),
        source,
    })?;
    // SAFETY: the caller keeps `bytes` and the tensor together.
    match unsafe { Tensor::borrowed(head, frame.only_part()?) } {
        Some(tensor) => cast(tensor).ok_or(DecodeError::Malformed("it is not a tensor")),
        // Unaligned or inconsistent: the careful way says which.
        None => decode(bytes),
    }
}

/// A `Vec<E>` in place; `None` when `E` is no primitive number, so that it has to be decoded.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `Vec<E>`.
#[inline]
pub fn view_slice<E: 'static>(bytes: &[u8]) -> Result<Option<&[E]>, DecodeError> {
    if !is_primitive::<E>() {
        return Ok(None);
    }
    let part = Frame::parse(bytes)?.only_part()?;
    if !part.len().is_multiple_of(size_of::<E>()) {
        return Err(DecodeError::Malformed("a part's length does not fit its type"));
    }
    Ok(cast_slice(part))
}

/// A `String` in place.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `String`.
pub fn view_str(bytes: &[u8]) -> Result<&str, DecodeError> {
    text_of(&Frame::parse(bytes)?)
}

fn text_of<'a>(frame: &Frame<'a>) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(frame.only_part()?).map_err(|_| DecodeError::Malformed("it is not UTF-8"))
}
