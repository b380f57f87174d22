//! The decoder of payloads, to values and views. The bytes may come from another process: every length is checked
//! before it is used, and memory is allocated only in proportion to the bytes.
#![allow(unsafe_code)] // makes one borrowed tensor

use std::any::TypeId;
use std::sync::Arc;

use super::bytes64::Bytes64;
use super::codec::ValueReader;
use super::element::{
    DType, cast_slice, dtype_of, number_from_bytes, same_type, vec_dtype_of, vec_from_bytes,
};
use super::frame::{Form, Frame, number_head, whole_part};
use super::tensor::{Tensor, TensorHead};
use super::{Wire, collector};
use crate::error::DecodeError;

fn malformed(what: &'static str) -> DecodeError {
    DecodeError::Malformed(what)
}

/// Decodes the head, all of whose bytes must be used. An error contains its place in the value.
#[inline]
fn read<T: for<'de> serde::Deserialize<'de>, const NAMED: bool>(head: &[u8]) -> Result<T, DecodeError> {
    let mut reader = ValueReader::<NAMED>::new(head);
    let read = T::deserialize(&mut reader).and_then(|value| reader.finish().map(|()| value));
    read.map_err(|source| DecodeError::Deserialize {
        type_name: std::any::type_name::<T>(),
        source,
    })
}

/// The bytes of a `Vec` of numbers of this type.
#[inline]
fn numbers(bytes: &[u8], dtype: DType) -> Result<&[u8], DecodeError> {
    match whole_part(bytes, Form::Numbers(dtype)) {
        Some(part) => Ok(part),
        None => Frame::parse(bytes, Form::Numbers(dtype))?.only_part(),
    }
}

/// Decodes a value.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `T`.
#[inline]
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    if let Some(dtype) = dtype_of::<T>() {
        let number = number_head(bytes, dtype).ok_or(malformed("it is not a number of this type"))?;
        return number_from_bytes(number).ok_or(malformed("its head is not as long as its number"));
    }
    if let Some(dtype) = vec_dtype_of::<T>() {
        let part = numbers(bytes, dtype)?;
        return vec_from_bytes(part).ok_or(malformed("a part's length does not fit its type"));
    }
    if TypeId::of::<T>() == TypeId::of::<String>() {
        return same_type(view_str(bytes)?.to_owned()).ok_or(malformed("it is not a string"));
    }
    let frame = Frame::parse_tree(bytes)?;
    if frame.is_named {
        return named(&frame);
    }
    if !std::mem::needs_drop::<T>() && frame.parts == 0 {
        // The value owns nothing, so it contains no tensor that could ask for a part.
        return read::<T, false>(frame.head);
    }
    collector::providing(copied(&frame)?, || read::<T, false>(frame.head))
}

/// Copies the parts of a value, which its tensors then take.
#[inline]
fn copied(frame: &Frame<'_>) -> Result<Vec<Option<Arc<Bytes64>>>, DecodeError> {
    let mut parts = Vec::new();
    for part in frame.parts() {
        let part = Bytes64::copy_of(part?).ok_or(malformed("there is no memory for a part"))?;
        parts.push(Some(Arc::new(part)));
    }
    Ok(parts)
}

#[inline(never)]
fn named<T: Wire>(frame: &Frame<'_>) -> Result<T, DecodeError> {
    collector::providing(copied(frame)?, || read::<T, true>(frame.head))
}

/// Decodes like [`decode`], but a top-level [`Tensor`] borrows the bytes.
///
/// # Safety
/// `bytes` must stay valid and unwritten as long as the value exists. If `T` is `Tensor`, the value must not be moved
/// out of the place that guarantees this.
#[inline]
pub(crate) unsafe fn decode_in_place<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    if TypeId::of::<T>() != TypeId::of::<Tensor>() {
        return decode(bytes);
    }
    let frame = Frame::parse(bytes, Form::Tree)?;
    let Ok(head) = read::<TensorHead, false>(frame.head) else {
        return decode(bytes);
    };
    // SAFETY: the caller keeps `bytes` and the tensor together.
    match unsafe { Tensor::borrowed(head, frame.only_part()?) } {
        Some(tensor) => same_type(tensor).ok_or(malformed("it is not a tensor")),
        // Unaligned or inconsistent: `decode` copies the bytes or returns the exact error.
        None => decode(bytes),
    }
}

/// A view of a `Vec<E>`. `None` if `E` is not a primitive number or the bytes are not aligned for it; the `Vec` then
/// has to be decoded.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `Vec<E>`.
#[inline]
pub fn view_slice<E: 'static>(bytes: &[u8]) -> Result<Option<&[E]>, DecodeError> {
    let Some(dtype) = dtype_of::<E>() else {
        return Ok(None);
    };
    let part = numbers(bytes, dtype)?;
    if !part.len().is_multiple_of(dtype.size_bytes()) {
        return Err(malformed("a part's length does not fit its type"));
    }
    Ok(cast_slice(part))
}

/// A view of a `String`.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `String`.
#[inline]
pub fn view_str(bytes: &[u8]) -> Result<&str, DecodeError> {
    let part = match whole_part(bytes, Form::Text) {
        Some(part) => part,
        None => Frame::parse(bytes, Form::Text)?.only_part()?,
    };
    std::str::from_utf8(part).map_err(|_| malformed("it is not UTF-8"))
}
