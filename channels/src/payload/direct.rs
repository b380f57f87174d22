//! Fast paths into a slot, for values whose frame is known before they are encoded. They write the same bytes as
//! [`encode`](super::encode).

use std::any::{Any, TypeId, type_name};
use std::mem::needs_drop;

use super::Wire;
use super::codec::{ByteSink, ValueWriter, Way};
use super::element::{dtype_of, number_bytes, vec_bytes, vec_dtype_of};
use super::frame::{Form, Offsets, length_at, prefix};
use crate::error::EncodeError;

/// The number of bytes before the head of a frame without parts.
const HEAD: usize = length_at(0);

/// A buffer of fixed size. `len` is the number of bytes written.
struct Room<'a> {
    left: &'a mut [u8],
    len: usize,
}

impl ByteSink for Room<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> bool {
        let Some((first, left)) = std::mem::take(&mut self.left).split_at_mut_checked(bytes.len()) else {
            return false;
        };
        first.copy_from_slice(bytes);
        (self.left, self.len) = (left, self.len + bytes.len());
        true
    }
}

/// Writes the frame of a value that owns nothing, and so contains no tensor, to `out`. Returns the length of the frame.
/// Returns `None` for other values and if the frame does not fit.
#[inline]
pub(crate) fn write_short<T: Wire>(
    value: &T,
    way: impl FnOnce() -> Way,
    out: &mut [u8],
) -> Option<Result<usize, EncodeError>> {
    if needs_drop::<T>() {
        return None;
    }
    let (before, room) = out.split_first_chunk_mut::<HEAD>()?;
    if let (Some(dtype), Some(number)) = (dtype_of::<T>(), number_bytes(value)) {
        room.get_mut(..number.len())?.copy_from_slice(number);
        *before = prefix(number.len(), 0, Form::Number(dtype))?;
        return Some(Ok(HEAD + number.len()));
    }
    let Way::Packed(shape) = way() else {
        return None;
    };
    let mut writer = ValueWriter::<_, false>::new(Room { left: room, len: 0 }, Some(shape));
    let written = value.serialize(&mut writer);
    // A value that does not fit, or is not packed, takes the slow path.
    if writer.stop.is_some() {
        return None;
    }
    if let Err(error) = written {
        return Some(Err(EncodeError::Serialize {
            type_name: type_name::<T>(),
            error,
        }));
    }
    *before = prefix(writer.sink.len, 0, Form::Tree)?;
    Some(Ok(HEAD + writer.sink.len))
}

/// Whether values of this type are encoded and decoded without running user code: numbers, `Vec`s of numbers, and text.
#[inline]
pub(crate) fn is_plain<T: 'static>() -> bool {
    dtype_of::<T>().is_some() || vec_dtype_of::<T>().is_some() || TypeId::of::<T>() == TypeId::of::<String>()
}

/// The frame of a value that consists of one part: a `Vec` of numbers, or a `String`.
pub(crate) struct Whole<'a> {
    prefix: [u8; HEAD],
    part: &'a [u8],
    at: usize,
}

impl<'a> Whole<'a> {
    /// Makes the frame of `value`. Returns `None` for other types.
    #[inline]
    pub(crate) fn of<T: Wire>(value: &'a T) -> Option<Self> {
        let any: &dyn Any = value;
        let (form, part) = match vec_dtype_of::<T>() {
            Some(dtype) => (Form::Numbers(dtype), vec_bytes(value)?),
            None => (Form::Text, any.downcast_ref::<String>()?.as_bytes()),
        };
        let at = Offsets::of(0, 1)?.first_part;
        at.checked_add(part.len())?;
        Some(Whole {
            prefix: prefix(0, 1, form)?,
            part,
            at,
        })
    }

    #[inline]
    pub(crate) fn len_bytes(&self) -> usize {
        self.at + self.part.len()
    }

    /// Writes the frame to `out`, which must be as long as the frame.
    ///
    /// # Errors
    /// [`EncodeError::Buffer`] when `out` has another length.
    #[inline]
    pub(crate) fn write_to(&self, out: &mut [u8]) -> Result<(), EncodeError> {
        let (need_bytes, have_bytes) = (self.len_bytes(), out.len());
        let Some((before, part)) = out
            .split_at_mut_checked(self.at)
            .filter(|(_, part)| part.len() == self.part.len())
        else {
            return Err(EncodeError::Buffer {
                need_bytes,
                have_bytes,
            });
        };
        // The part is written first: its cache lines and those of the small stores below are then fetched in parallel.
        part.copy_from_slice(self.part);
        // Old data of the slot must not reach the readers.
        before.fill(0);
        let words: [(usize, &[u8]); 2] = [
            (0, &self.prefix),
            (length_at(0), &(self.part.len() as u64).to_le_bytes()),
        ];
        for (offset, bytes) in words {
            if let Some(place) = before.get_mut(offset..offset + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Tensor, encode, way_of};
    use super::*;

    fn whole<T: Wire>(value: &T) -> Option<Vec<u8>> {
        let frame = Whole::of(value)?;
        let mut bytes = vec![9; frame.len_bytes()];
        frame.write_to(&mut bytes).unwrap();
        Some(bytes)
    }

    fn short<T: Wire>(value: &T) -> Option<Vec<u8>> {
        let mut bytes = [9; 40];
        let len = write_short(value, way_of::<T>, &mut bytes)?.unwrap();
        Some(bytes[..len].to_vec())
    }

    #[test]
    fn the_short_ways_write_what_encode_writes() {
        fn same<T: Wire>(value: T, way: fn(&T) -> Option<Vec<u8>>) {
            assert_eq!(way(&value).unwrap(), encode(&value).unwrap().to_vec());
        }
        same(7_u64, short);
        same((), short);
        same(-1.5_f32, short);
        same(u64::MAX, short);
        same(true, short);
        same((u64::MAX, 1.5_f32, Some(true)), short);
        same(vec![1_u16, 2, 3], whole);
        same(Vec::<f64>::new(), whole);
        same("grüß dich".to_owned(), whole);
        same(String::new(), whole);
    }

    #[test]
    fn other_values_take_the_long_way() {
        assert!(short(&"a".to_owned()).is_none() && short(&vec![1_u8]).is_none());
        assert!(short(&[u64::MAX; 4]).is_none(), "its head is too long");
        assert!(whole(&7_u64).is_none() && whole(&vec!["a".to_owned()]).is_none());
        assert!(whole(&Tensor::from_slice(&[1_u8], &[1]).unwrap()).is_none());
        let frame = vec![1_u8; 3];
        let refused = Whole::of(&frame).unwrap().write_to(&mut [0; 66]);
        assert!(matches!(
            refused,
            Err(EncodeError::Buffer {
                need_bytes: 67,
                have_bytes: 66
            })
        ));
    }
}
