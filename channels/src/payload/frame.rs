//! The frame around head and parts: their offsets, and the checks before they are trusted.

use super::element::DType;
use crate::error::DecodeError;

/// The alignment of parts, and of payloads in a slot.
pub const PART_ALIGN: usize = 64;
/// The maximum number of parts of a value.
pub(super) const PARTS_MAX: usize = u16::MAX as usize;
/// The number of bytes before the lengths of the parts.
const PREFIX: usize = 8;
const VERSION: u8 = 1;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "parts are raw little-endian numbers"
);

/// The kind of value in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A value packed in the head. The parts are the bytes of its tensors.
    Tree,
    /// A value encoded by name in the head. The parts are the bytes of its tensors.
    Named,
    /// A number of this type, as its bytes in the head.
    Number(DType),
    /// Text, as one part of UTF-8.
    Text,
    /// Numbers of this type, as one part.
    Numbers(DType),
}

impl Form {
    pub(super) fn code(self) -> u8 {
        match self {
            Form::Tree => 0,
            Form::Text => 1,
            Form::Named => 2,
            Form::Numbers(dtype) => 0x10 | dtype as u8,
            Form::Number(dtype) => 0x20 | dtype as u8,
        }
    }
}

/// The offsets in a frame.
pub(super) struct Offsets {
    pub(super) head: usize,
    pub(super) first_part: usize,
}

impl Offsets {
    /// Computes the offsets of the head and of the first part. Returns `None` on overflow.
    pub(super) fn of(head_len: usize, parts: usize) -> Option<Self> {
        let head = parts.checked_mul(8)?.checked_add(PREFIX)?;
        let first_part = head.checked_add(head_len)?.checked_next_multiple_of(PART_ALIGN)?;
        Some(Offsets { head, first_part })
    }
}

/// The offset of the length of a part.
pub(super) const fn length_at(part: usize) -> usize {
    PREFIX + 8 * part
}

/// Makes the first bytes of a frame. Returns `None` if a number does not fit.
pub(super) fn prefix(head_len: usize, parts: usize, form: Form) -> Option<[u8; PREFIX]> {
    let [h0, h1, h2, h3] = u32::try_from(head_len).ok()?.to_le_bytes();
    let [p0, p1] = u16::try_from(parts).ok()?.to_le_bytes();
    Some([h0, h1, h2, h3, p0, p1, form.code(), VERSION])
}

/// The part of a frame that has no head and exactly one part, which ends with the frame. `None` for any other frame and
/// for bytes that are not a frame. The position and length of the part follow from the length of the frame alone. So a
/// processor can fetch the part while it still waits for the cache line that the checks read, which saves the transfer
/// of one line between two cores.
#[inline]
pub(super) fn whole_part(bytes: &[u8], form: Form) -> Option<&[u8]> {
    let (before, part) = bytes.split_at_checked(PART_ALIGN)?;
    let expected = prefix(0, 1, form)?;
    let length = before.get(length_at(0)..)?.first_chunk()?;
    (before.first_chunk()? == &expected && u64::from_le_bytes(*length) == part.len() as u64).then_some(part)
}

/// The bytes of the number in a frame that contains only a number. `None` for any other frame and for bytes that are
/// not a frame.
#[inline]
pub(super) fn number_head(bytes: &[u8], dtype: DType) -> Option<&[u8]> {
    let (found, head) = bytes.split_first_chunk()?;
    (*found == prefix(dtype.size_bytes(), 0, Form::Number(dtype))?).then_some(head)
}

/// A frame that has been checked.
pub(super) struct Frame<'a> {
    pub(super) head: &'a [u8],
    pub(super) parts: usize,
    /// Whether the head is encoded by name.
    pub(super) is_named: bool,
    bytes: &'a [u8],
    first_part: usize,
}

fn malformed<T>(what: &'static str) -> Result<T, DecodeError> {
    Err(DecodeError::Malformed(what))
}

impl<'a> Frame<'a> {
    /// Checks the frame of a value of this form.
    #[inline]
    pub(super) fn parse(bytes: &'a [u8], form: Form) -> Result<Self, DecodeError> {
        Self::of_forms(bytes, |found| found == form.code())
    }

    /// Checks the frame of a value with a tree in its head, packed or by name.
    #[inline]
    pub(super) fn parse_tree(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::of_forms(bytes, |found| {
            found == Form::Tree.code() || found == Form::Named.code()
        })
    }

    #[inline]
    fn of_forms(bytes: &'a [u8], fits: impl FnOnce(u8) -> bool) -> Result<Self, DecodeError> {
        let Some([h0, h1, h2, h3, p0, p1, found, version]) = bytes.first_chunk::<PREFIX>().copied() else {
            return malformed("it ends in its own header");
        };
        if version != VERSION {
            return malformed("it is of another version");
        }
        if !fits(found) {
            return malformed("it holds another kind of value");
        }
        let parts = usize::from(u16::from_le_bytes([p0, p1]));
        let head_len = u32::from_le_bytes([h0, h1, h2, h3]) as usize;
        let Some(offsets) = Offsets::of(head_len, parts) else {
            return malformed("its head is longer than memory");
        };
        let head = offsets
            .head
            .checked_add(head_len)
            .and_then(|end| bytes.get(offsets.head..end));
        let Some(head) = head else {
            return malformed("its head is longer than the payload");
        };
        Ok(Frame {
            head,
            parts,
            is_named: found == Form::Named.code(),
            bytes,
            first_part: offsets.first_part,
        })
    }

    /// The parts in order. After a part that does not fit, all following items are errors.
    pub(super) fn parts(&self) -> impl Iterator<Item = Result<&'a [u8], DecodeError>> {
        let mut next = Some(self.first_part);
        let bytes = self.bytes;
        (0..self.parts).map(move |part| {
            let cut = part_at(bytes, part, next);
            next = cut.and_then(|(_, end)| end.checked_next_multiple_of(PART_ALIGN));
            match cut {
                Some((part, _)) => Ok(part),
                None => malformed("a part is longer than the payload"),
            }
        })
    }

    /// The only part of a value that must have exactly one.
    #[inline]
    pub(super) fn only_part(&self) -> Result<&'a [u8], DecodeError> {
        match (self.parts, part_at(self.bytes, 0, Some(self.first_part))) {
            (1, Some((part, _))) => Ok(part),
            (1, None) => malformed("a part is longer than the payload"),
            _ => malformed("it should have exactly one part"),
        }
    }
}

/// The bytes of part number `part`, which starts at `start`, and the offset of its end.
#[inline]
fn part_at(bytes: &[u8], part: usize, start: Option<usize>) -> Option<(&[u8], usize)> {
    let start = start?;
    let length = bytes.get(length_at(part)..)?.first_chunk()?;
    let end = start.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((bytes.get(start..end)?, end))
}
