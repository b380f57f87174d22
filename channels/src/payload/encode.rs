//! The encoder of payloads: turns a value into head and parts, without copying large data.

use std::any::{Any, type_name};
use std::mem::needs_drop;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Wire;
use super::bytes64::Bytes64;
use super::codec::{
    ByteSink, LEVELS_MAX, SerdeError, Shape, Stop, ValueWriter, Way, arrives, say_named, way_of,
};
use super::collector::Collecting;
use super::element::{dtype_of, number_bytes, vec_bytes, vec_dtype_of};
use super::frame::{Form, Offsets, PART_ALIGN, PARTS_MAX, length_at, prefix};
use super::tensor::Tensor;
use crate::error::EncodeError;

/// The maximum length of a head that is built on the stack.
const SMALL: usize = 128;

/// The initial capacity of a head on the heap.
const LARGE: usize = 1024;

/// An encoded value, ready to be copied into a slot. Borrows large data from the value.
pub struct Encoded<'a> {
    form: Form,
    head: HeadBytes,
    parts: Parts<'a>,
}

enum Parts<'a> {
    One(&'a [u8]),
    Tensor(&'a Tensor),
    Shared(Vec<Arc<Bytes64>>),
}

/// The minimum length of bytes that an [`EncodedSegment`] shares, in bytes: fewer are copied in less time.
const SHARED_MIN: usize = 16 << 10;

/// The segments of an encoded value, in order. Most values have one.
pub type EncodedSegments = SmallVec<[EncodedSegment; 1]>;

/// Encoded bytes. Up to 32 of them, such as those of a few numbers, need no memory of their own.
pub type ShortBytes = SmallVec<[u8; 32]>;

/// A stretch of an encoded value: bytes of its own, or those of a tensor, which are shared.
pub struct EncodedSegment(Stretch);

enum Stretch {
    Own(ShortBytes),
    Tensor(Arc<Bytes64>),
}

impl EncodedSegment {
    /// The bytes, if they are the segment's own.
    ///
    /// # Errors
    /// The segment itself: its bytes are shared.
    pub fn into_own(self) -> Result<ShortBytes, Self> {
        match self.0 {
            Stretch::Own(bytes) => Ok(bytes),
            shared @ Stretch::Tensor(_) => Err(EncodedSegment(shared)),
        }
    }
}

impl AsRef<[u8]> for EncodedSegment {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Stretch::Own(bytes) => bytes,
            Stretch::Tensor(bytes) => bytes.as_slice(),
        }
    }
}

/// A byte buffer that starts on the stack and moves to the heap when it grows too long.
pub(super) struct HeadBytes {
    small: [u8; SMALL],
    small_len: usize,
    large: Vec<u8>,
}

impl HeadBytes {
    pub(super) fn new() -> Self {
        HeadBytes {
            small: [0; SMALL],
            small_len: 0,
            large: Vec::new(),
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        if self.large.is_empty() {
            self.small.get(..self.small_len).unwrap_or_default()
        } else {
            &self.large
        }
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        if self.large.is_empty() {
            let end = self.small_len + bytes.len();
            if let Some(room) = self.small.get_mut(self.small_len..end) {
                room.copy_from_slice(bytes);
                self.small_len = end;
                return;
            }
            self.spill();
        }
        self.large.extend_from_slice(bytes);
    }

    #[inline(never)]
    fn spill(&mut self) {
        self.large.reserve(LARGE);
        self.large
            .extend_from_slice(self.small.get(..self.small_len).unwrap_or_default());
    }
}

impl ByteSink for HeadBytes {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> bool {
        self.extend(bytes);
        true
    }
}

/// Writes the head of a value. Returns `false` if the value has to be encoded by name.
#[inline]
pub(super) fn write_head<T: serde::Serialize, S: ByteSink, const NAMED: bool>(
    value: &T,
    shape: Option<&Shape>,
    head: S,
) -> Result<bool, EncodeError> {
    let mut writer = ValueWriter::<_, NAMED>::new(head, shape);
    let written = value.serialize(&mut writer);
    // A `Serialize` may go on after an error: what has stopped the writer counts.
    match (writer.stop, written) {
        (Some(Stop::Unpacked), _) => Ok(false),
        (Some(Stop::TooDeep), _) => Err(too_deep::<T>()),
        (_, written) => written.map(|()| true).map_err(refused::<T>),
    }
}

/// Encodes a value.
///
/// # Errors
/// [`EncodeError`] when the value's `Serialize` fails, the value would be decoded as a different one, or it has more
/// parts than a payload may have.
#[inline]
pub fn encode<T: Wire>(value: &T) -> Result<Encoded<'_>, EncodeError> {
    encode_as(value, way_of::<T>, true)
}

/// Encodes a value in the form that `way` returns. A value encoded by name is decoded again and compared only if
/// `is_compared`.
#[inline]
pub(crate) fn encode_as<T: Wire>(
    value: &T,
    way: impl FnOnce() -> Way,
    is_compared: bool,
) -> Result<Encoded<'_>, EncodeError> {
    let any: &dyn Any = value;
    if let (Some(dtype), Some(bytes)) = (vec_dtype_of::<T>(), vec_bytes(value)) {
        return Ok(Encoded::raw(Form::Numbers(dtype), bytes));
    }
    if let (Some(dtype), Some(bytes)) = (dtype_of::<T>(), number_bytes(value)) {
        let mut head = HeadBytes::new();
        head.extend(bytes);
        return Ok(Encoded {
            form: Form::Number(dtype),
            head,
            parts: Parts::Shared(Vec::new()),
        });
    }
    if let Some(text) = any.downcast_ref::<String>() {
        return Ok(Encoded::raw(Form::Text, text.as_bytes()));
    }
    if let Some(tensor) = any.downcast_ref::<Tensor>() {
        let mut head = HeadBytes::new();
        write_head::<_, _, false>(&tensor.head(0), None, &mut head)?;
        return Ok(Encoded {
            form: Form::Tree,
            head,
            parts: Parts::Tensor(tensor),
        });
    }
    if let Way::Packed(shape) = way() {
        let mut encoded = Encoded::tree(Form::Tree);
        // A value that owns nothing contains no tensor.
        let collecting = needs_drop::<T>().then(Collecting::begin);
        let written = write_head::<_, _, false>(value, Some(shape), &mut encoded.head);
        let parts = collecting.map(Collecting::end).unwrap_or_default();
        if written? {
            encoded.add(parts)?;
            return Ok(encoded);
        }
        say_named::<T>();
    }
    named(value, is_compared)
}

/// Encodes a value by name. Decodes it again and compares both if `is_compared`.
#[inline(never)]
fn named<T: Wire>(value: &T, is_compared: bool) -> Result<Encoded<'_>, EncodeError> {
    let mut encoded = Encoded::tree(Form::Named);
    let collecting = Collecting::begin();
    let written = write_head::<_, _, true>(value, None, &mut encoded.head);
    let parts = collecting.end();
    written?;
    if is_compared {
        arrives::<T>(encoded.head.as_slice(), &parts).map_err(another::<T>)?;
    }
    encoded.add(parts)?;
    Ok(encoded)
}

#[cold]
fn too_deep<T>() -> EncodeError {
    EncodeError::TooDeep {
        type_name: type_name::<T>(),
        levels_max: LEVELS_MAX,
    }
}

#[cold]
fn another<T>(error: SerdeError) -> EncodeError {
    match error.is_too_deep() {
        true => too_deep::<T>(),
        false => EncodeError::Another {
            type_name: type_name::<T>(),
            error,
        },
    }
}

#[cold]
fn refused<T>(error: SerdeError) -> EncodeError {
    EncodeError::Serialize {
        type_name: type_name::<T>(),
        error,
    }
}

impl<'a> Encoded<'a> {
    fn raw(form: Form, bytes: &'a [u8]) -> Self {
        Encoded {
            form,
            head: HeadBytes::new(),
            parts: Parts::One(bytes),
        }
    }

    /// A value whose head and parts are not written yet.
    #[inline]
    fn tree(form: Form) -> Self {
        Encoded {
            form,
            head: HeadBytes::new(),
            parts: Parts::Shared(Vec::new()),
        }
    }

    #[inline]
    fn add(&mut self, parts: Vec<Arc<Bytes64>>) -> Result<(), EncodeError> {
        if parts.len() > PARTS_MAX {
            return Err(EncodeError::TooLarge);
        }
        self.parts = Parts::Shared(parts);
        Ok(())
    }

    /// Whether the value is encoded by name.
    pub(crate) fn is_named(&self) -> bool {
        self.form == Form::Named
    }

    fn count(&self) -> usize {
        match &self.parts {
            Parts::One(_) | Parts::Tensor(_) => 1,
            Parts::Shared(parts) => parts.len(),
        }
    }

    fn part(&self, index: usize) -> &[u8] {
        match &self.parts {
            Parts::One(part) => part,
            Parts::Tensor(tensor) => tensor.bytes(),
            Parts::Shared(parts) => parts.get(index).map_or(&[], |part| part.as_slice()),
        }
    }

    /// Calls `visit` with the offset and bytes of every part. Returns the length of the frame.
    fn frame(&self, mut visit: impl FnMut(usize, &[u8])) -> Option<usize> {
        let head_len = self.head.as_slice().len();
        let offsets = Offsets::of(head_len, self.count())?;
        let mut end = offsets.head + head_len;
        let mut next = offsets.first_part;
        for index in 0..self.count() {
            let part = self.part(index);
            visit(next, part);
            end = next.checked_add(part.len())?;
            next = end.checked_next_multiple_of(PART_ALIGN)?;
        }
        Some(end)
    }

    /// The length of the encoded value in bytes.
    pub fn len_bytes(&self) -> usize {
        self.frame(|_, _| {}).unwrap_or(usize::MAX)
    }

    /// Calls `visit` with the head and every part: all that differs between values of one length.
    pub fn visit(&self, mut visit: impl FnMut(&[u8])) {
        visit(self.head.as_slice());
        (0..self.count()).for_each(|index| visit(self.part(index)));
    }

    /// Writes the encoded value to the start of `out`.
    ///
    /// # Errors
    /// [`EncodeError::Buffer`] when `out` is shorter than [`len_bytes`](Self::len_bytes), [`EncodeError::TooLarge`]
    /// when the head is too long for the payload format.
    pub fn write_to(&self, out: &mut [u8]) -> Result<(), EncodeError> {
        let (need_bytes, have_bytes) = (self.len_bytes(), out.len());
        let short = || EncodeError::Buffer {
            need_bytes,
            have_bytes,
        };
        if need_bytes > have_bytes {
            return Err(short());
        }
        let head = self.head.as_slice();
        let prefix = prefix(head.len(), self.count(), self.form).ok_or(EncodeError::TooLarge)?;
        let offsets = Offsets::of(head.len(), self.count()).ok_or(EncodeError::TooLarge)?;
        // The parts are written first: their cache lines and those of the small stores below are then fetched in
        // parallel.
        let (mut end, mut fits) = (offsets.first_part, true);
        self.frame(|offset, part| {
            // Old data of the slot must not reach the readers.
            let gap = out.get_mut(end..offset).map(|gap| gap.fill(0));
            end = offset + part.len();
            let place = out.get_mut(offset..end).map(|place| place.copy_from_slice(part));
            fits &= gap.is_some() && place.is_some();
        });
        let head_end = offsets.head + head.len();
        let before = if self.count() == 0 {
            head_end
        } else {
            offsets.first_part
        };
        let before = out.get_mut(..before).filter(|_| fits).ok_or_else(short)?;
        let mut put = |offset: usize, bytes: &[u8]| -> Result<(), EncodeError> {
            let place = before.get_mut(offset..offset + bytes.len());
            place.ok_or_else(short)?.copy_from_slice(bytes);
            Ok(())
        };
        put(0, &prefix)?;
        for index in 0..self.count() {
            put(length_at(index), &(self.part(index).len() as u64).to_le_bytes())?;
        }
        put(offsets.head, head)?;
        before.get_mut(head_end..).unwrap_or_default().fill(0);
        Ok(())
    }

    /// The encoded value as segments, which make the same bytes one after the other. A long tensor is shared from where it
    /// lies, and everything else is copied, among it tensors over memory of the user's ([`Tensor::from_kept`]). So segments
    /// may be dropped where no user code may run.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] when the head is too long for the payload format.
    pub fn into_segments(mut self) -> Result<EncodedSegments, EncodeError> {
        let (head_len, count) = (self.head.as_slice().len(), self.count());
        let prefix = prefix(head_len, count, self.form).ok_or(EncodeError::TooLarge)?;
        let mut segments = EncodedSegments::new();
        let before = length_at(count) + head_len + PART_ALIGN;
        let mut own = ShortBytes::with_capacity(self.len_bytes().min(before.max(SHARED_MIN)));
        own.extend_from_slice(&prefix);
        for index in 0..count {
            own.extend_from_slice(&(self.part(index).len() as u64).to_le_bytes());
        }
        if head_len < SHARED_MIN {
            own.extend_from_slice(self.head.as_slice());
        } else {
            let own = std::mem::replace(&mut own, std::mem::take(&mut self.head.large).into());
            segments.push(EncodedSegment(Stretch::Own(own)));
        }
        let mut end = length_at(count) + head_len;
        for index in 0..count {
            let part = self.part(index);
            let gap = end.next_multiple_of(PART_ALIGN) - end;
            end += gap + part.len();
            own.resize(own.len() + gap, 0);
            match self.shared(index) {
                Some(shared) => {
                    let before = std::mem::take(&mut own);
                    if !before.is_empty() {
                        segments.push(EncodedSegment(Stretch::Own(before)));
                    }
                    segments.push(EncodedSegment(Stretch::Tensor(shared)));
                }
                None => own.extend_from_slice(part),
            }
        }
        if !own.is_empty() {
            segments.push(EncodedSegment(Stretch::Own(own)));
        }
        Ok(segments)
    }

    /// The number of bytes that the segments of this value share.
    pub(crate) fn shared_bytes(&self) -> usize {
        let parts = (0..self.count()).filter_map(|index| self.shared(index));
        parts.map(|part| part.as_slice().len()).sum()
    }

    /// A part, if it is a long tensor's that any thread may drop: its owner is no user code.
    fn shared(&self, index: usize) -> Option<Arc<Bytes64>> {
        let part = match &self.parts {
            Parts::One(_) => None,
            Parts::Tensor(tensor) => tensor.part(),
            Parts::Shared(parts) => parts.get(index).map(Arc::clone),
        };
        part.filter(|part| !part.is_users() && part.as_slice().len() >= SHARED_MIN)
    }

    /// Copies the encoded value to the heap.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len_bytes()];
        match self.write_to(&mut bytes) {
            Ok(()) => bytes,
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)] // makes a tensor over memory of another owner
mod tests {
    use super::super::{DType, decode};
    use super::*;

    fn in_segments<T: Wire>(value: &T) -> (usize, Vec<u8>) {
        let segments = encode(value).unwrap().into_segments().unwrap();
        let bytes = segments.iter().flat_map(|segment| segment.as_ref()).copied();
        (segments.len(), bytes.collect())
    }

    #[test]
    fn segments_make_the_encoded_value_and_share_its_long_tensors() {
        let tensor = |bytes: usize| Tensor::from_raw(DType::U8, &[bytes], &vec![7; bytes]).unwrap();
        let (short, long) = (tensor(100), tensor(SHARED_MIN + 1));
        let value = (
            short.clone(),
            long.clone(),
            "text".to_owned(),
            short,
            long.clone(),
        );
        let (count, bytes) = in_segments(&value);
        assert_eq!(bytes, encode(&value).unwrap().to_vec());
        assert_eq!(count, 4, "what is before each of the two long tensors, and these");
        assert!(decode::<(Tensor, Tensor, String, Tensor, Tensor)>(&bytes).unwrap() == value);
        assert_eq!(in_segments(&long), (2, encode(&long).unwrap().to_vec()));
        let text = ("x".repeat(SHARED_MIN), 7_u8);
        assert_eq!(in_segments(&text), (2, encode(&text).unwrap().to_vec()));
        for number in [0_u64, 7] {
            assert_eq!(in_segments(&number), (1, encode(&number).unwrap().to_vec()));
        }
        let keeper: Box<Vec<u64>> = Box::new(vec![0; SHARED_MIN]);
        let bytes = super::super::bytes_of(&keeper);
        let skipped = bytes.as_ptr().addr().wrapping_neg() % PART_ALIGN;
        let bytes: *const [u8] = &bytes[skipped..][..SHARED_MIN];
        // SAFETY: the keeper owns the bytes, which nobody writes.
        let users = unsafe { Tensor::from_kept(DType::U8, [SHARED_MIN], bytes, keeper) };
        assert_eq!(
            in_segments(&users.unwrap().unwrap()).0,
            1,
            "the owner may be user code"
        );
        let segments = encode(&long).unwrap().into_segments().unwrap();
        assert_eq!(segments[1].as_ref().as_ptr(), long.bytes().as_ptr());
    }
}
