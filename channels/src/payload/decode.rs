//! The decoder of payloads, to values and views. The bytes may come from another process: every length is checked
//! before it is used, and memory is allocated only in proportion to the bytes. A decoded value contains only what was checked
//! after it was copied, so it is valid even if that process writes the bytes meanwhile. Views have no such guarantee.
#![allow(unsafe_code)] // makes borrowed and kept tensors

use std::any::{Any, TypeId, type_name};
use std::sync::Arc;

use super::Wire;
use super::bytes64::Bytes64;
use super::codec::{LEVELS_MAX, ValueReader};
use super::collector::Providing;
use super::element::{
    DType, cast_slice, dtype_of, number_from_bytes, same_type, vec_dtype_of, vec_from_bytes,
};
use super::frame::{Form, Frame, number_head, whole_part};
use super::tensor::{Tensor, TensorHead};
use crate::error::DecodeError;

fn malformed(what: &'static str) -> DecodeError {
    DecodeError::Malformed(what)
}

/// Decodes the head, all of whose bytes must be used. An error contains its place in the value.
#[inline]
pub(super) fn read<T: for<'de> serde::Deserialize<'de>, const NAMED: bool>(
    head: &[u8],
) -> Result<T, DecodeError> {
    let mut reader = ValueReader::<NAMED>::new(head);
    let read = T::deserialize(&mut reader).and_then(|value| reader.finish().map(|()| value));
    read.map_err(|error| match reader.is_too_deep {
        true => DecodeError::TooDeep {
            type_name: type_name::<T>(),
            levels_max: LEVELS_MAX,
        },
        false => DecodeError::Deserialize {
            type_name: type_name::<T>(),
            error,
        },
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
    decode_with(bytes, &Bytes64::copy_of)
}

/// The minimum length of a tensor that is a view of the bytes it came in, in bytes.
const VIEW_MIN: usize = 4096;

/// The largest multiple of a tensor's length that it keeps in memory as a view of the bytes it came in.
const KEPT_MAX: usize = 8;

/// Decodes like [`decode`], but long tensors are views of the bytes, as far as these are on a 64-byte boundary. Each view
/// has a keeper, which is dropped with it. A tensor that is a small part of the bytes is copied, so that it does not
/// keep all of them.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `T`.
///
/// # Safety
/// The bytes must be valid and unwritten as long as any keeper exists. The drop of a keeper must not run user code.
pub unsafe fn decode_kept<T: Wire>(
    bytes: &[u8],
    keeper: &dyn Fn() -> Box<dyn Any + Send + Sync>,
) -> Result<T, DecodeError> {
    decode_with(bytes, &|part| {
        let is_view = part.len() >= VIEW_MIN.max(bytes.len() / KEPT_MAX) && Bytes64::can_keep(part);
        if !is_view {
            return Bytes64::copy_of(part);
        }
        // SAFETY: the caller promises it.
        unsafe { Bytes64::kept(part, keeper()) }.map(Bytes64::without_user_code)
    })
}

/// Makes the memory of a part from its bytes; `None` if there is none.
type PartMaker<'a> = &'a dyn Fn(&[u8]) -> Option<Bytes64>;

/// Decodes a value, whose tensors get the memory that `memory` makes of their parts.
#[inline]
fn decode_with<T: Wire>(bytes: &[u8], memory: PartMaker<'_>) -> Result<T, DecodeError> {
    if let Some(dtype) = dtype_of::<T>() {
        let number = number_head(bytes, dtype).ok_or(malformed("it is not a number of this type"))?;
        return number_from_bytes(number).ok_or(malformed("its head is not as long as its number"));
    }
    if let Some(dtype) = vec_dtype_of::<T>() {
        let part = numbers(bytes, dtype)?;
        return vec_from_bytes(part).ok_or(malformed("a part's length does not fit its type"));
    }
    if TypeId::of::<T>() == TypeId::of::<String>() {
        let text = String::from_utf8(text(bytes)?.to_vec()).map_err(|_| not_text())?;
        return same_type(text).ok_or(malformed("it is not a string"));
    }
    let frame = Frame::parse_tree(bytes)?;
    if frame.is_named {
        return named(&frame, memory);
    }
    if !std::mem::needs_drop::<T>() && frame.parts == 0 {
        // The value owns nothing, so it contains no tensor that could ask for a part.
        return read::<T, false>(frame.head);
    }
    let _parts = Providing::begin(parts_of(&frame, memory)?);
    read::<T, false>(frame.head)
}

/// The parts of a value in memory of their own, which its tensors then take.
fn parts_of(frame: &Frame<'_>, memory: PartMaker<'_>) -> Result<Vec<Option<Arc<Bytes64>>>, DecodeError> {
    let mut parts = Vec::new();
    for part in frame.parts() {
        let part = memory(part?).ok_or(malformed("there is no memory for a part"))?;
        parts.push(Some(Arc::new(part)));
    }
    Ok(parts)
}

#[inline(never)]
fn named<T: Wire>(frame: &Frame<'_>, memory: PartMaker<'_>) -> Result<T, DecodeError> {
    let _parts = Providing::begin(parts_of(frame, memory)?);
    // A type that asks what is there may check text in one pass and copy it in another.
    let head = frame.head.to_vec();
    read::<T, true>(&head)
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

/// The bytes of a `String`, unchecked.
#[inline]
fn text(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    match whole_part(bytes, Form::Text) {
        Some(part) => Ok(part),
        None => Frame::parse(bytes, Form::Text)?.only_part(),
    }
}

#[cold]
fn not_text() -> DecodeError {
    malformed("it is not UTF-8")
}

/// A view of a `String`. The text was checked where it lies: it is UTF-8 as long as no other process writes it.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `String`.
#[inline]
pub fn view_str(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(text(bytes)?).map_err(|_| not_text())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::encode;
    use super::*;

    /// The bytes of a value on a 64-byte boundary.
    fn encoded<T: Wire>(value: &T) -> Arc<Bytes64> {
        Arc::new(Bytes64::copy_of(&encode(value).unwrap().to_vec()).unwrap())
    }

    fn kept<T: Wire>(bytes: &Arc<Bytes64>, from: usize) -> Result<T, DecodeError> {
        let keeper = || Box::new(Arc::clone(bytes)) as Box<dyn Any + Send + Sync>;
        // SAFETY: the keeper owns the bytes, which nobody writes.
        unsafe { decode_kept(&bytes.as_slice()[from..], &keeper) }
    }

    #[test]
    fn long_tensors_are_views_that_keep_the_bytes_and_small_ones_are_copies() {
        let tensor = |bytes: usize| Tensor::from_raw(DType::U8, &[bytes], &vec![7; bytes]).unwrap();
        let value = (
            tensor(VIEW_MIN),
            tensor(100 * VIEW_MIN),
            tensor(9),
            "text".to_owned(),
        );
        let bytes = encoded(&value);
        let decoded: (Tensor, Tensor, Tensor, String) = kept(&bytes, 0).unwrap();
        assert!(decoded == value);
        let range = bytes.as_slice().as_ptr_range();
        let is_view = |tensor: &Tensor| range.contains(&tensor.bytes().as_ptr());
        let views = [&decoded.0, &decoded.1, &decoded.2].map(is_view);
        assert_eq!(views, [false, true, false]);
        assert_eq!(Arc::strong_count(&bytes), 2, "one view keeps the bytes");
        let mut view = decoded.1;
        view.as_mut_slice::<u8>().unwrap()[0] = 8;
        assert!(!is_view(&view), "what is written is a copy");
        assert_eq!(Arc::strong_count(&bytes), 1);
    }

    thread_local! {
        static LAST_TEXT: Cell<*const u8> = const { Cell::new(std::ptr::null()) };
    }

    /// Keeps the place of the text that it was decoded from.
    #[derive(Clone, Debug)]
    struct Placed;

    impl serde::Serialize for Placed {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str("some text")
        }
    }

    impl serde::de::Visitor<'_> for Placed {
        type Value = Placed;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("text")
        }

        fn visit_str<E>(self, text: &str) -> Result<Placed, E> {
            LAST_TEXT.set(text.as_ptr());
            Ok(self)
        }
    }

    impl<'de> serde::Deserialize<'de> for Placed {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_str(Placed)
        }
    }

    /// Asks what is there, so it is encoded by name.
    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Text(Placed),
    }

    #[test]
    fn types_get_copies_of_their_text_because_a_peer_may_change_the_bytes_after_the_check() {
        fn is_a_copy<T: Wire>(value: &T) -> bool {
            let bytes = encode(value).unwrap().to_vec();
            decode::<T>(&bytes).unwrap();
            !bytes.as_ptr_range().contains(&LAST_TEXT.get())
        }
        assert!(is_a_copy(&(Placed, 1_u8)));
        assert!(is_a_copy(&Untagged::Text(Placed)));
    }

    #[test]
    fn bytes_off_the_boundary_are_copied_and_bytes_that_are_no_value_are_refused() {
        let long = Tensor::from_raw(DType::U8, &[1 << 14], &[7; 1 << 14]).unwrap();
        let shifted = [&[0; 4][..], encode(&long).unwrap().to_vec().as_slice()].concat();
        let shifted = Arc::new(Bytes64::copy_of(&shifted).unwrap());
        assert!(kept::<Tensor>(&shifted, 4).unwrap() == long);
        assert!(kept::<Tensor>(&shifted, 5).is_err());
        assert_eq!(Arc::strong_count(&shifted), 1);
    }
}
