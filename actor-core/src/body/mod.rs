//! Bodies: encoded values on their way, as segments that are shared and never copied.
//!
//! A body that is sent has the encoded head of a value in one segment, and each long tensor in a segment of its own, where
//! the tensor lies. A body that has arrived is one segment, [`BodyMemory`], of which long tensors become views. A short body
//! is within the `Body` itself.

mod memory;
mod pool;

use std::any::Any;
use std::collections::VecDeque;

use bytes::Bytes;
use selvedge_channels::Traits;
use selvedge_channels::payload::{EncodedSegment, EncodedSegments, ShortBytes};
use selvedge_cluster::frame::PartMemory;

pub use memory::LentMemory;
pub(crate) use memory::{BodyMemory, BodyRoom};

use crate::failure::Failure;

/// Bytes in shared segments. A clone shares them, or copies a few.
#[derive(Clone, Debug)]
pub struct Body(Segments);

#[derive(Debug)]
enum Segments {
    /// A few bytes, without memory of their own.
    Short(ShortBytes),
    One(Bytes),
    /// None of them is empty.
    Many(VecDeque<Bytes>),
}

impl Clone for Segments {
    /// Copies a few bytes at once; the vector's own clone copies them one by one.
    fn clone(&self) -> Self {
        match self {
            Segments::Short(short) => Segments::Short(ShortBytes::from_slice(short)),
            Segments::One(one) => Segments::One(one.clone()),
            Segments::Many(many) => Segments::Many(many.clone()),
        }
    }
}

impl Body {
    /// A body without bytes.
    pub(crate) const EMPTY: Body = Body(Segments::One(Bytes::new()));

    /// Encodes a value, whose long tensors are shared.
    ///
    /// # Errors
    /// [`Failure::Channel`]: the value cannot be encoded.
    pub(crate) fn encoded<T>(value: &T, traits: &Traits<T>) -> Result<Self, Failure> {
        let segments = (traits.codec()?.encode_segments)(value);
        Ok(Body::of_segments(segments.map_err(Failure::of_channel)?))
    }

    fn of_segments(mut segments: EncodedSegments) -> Self {
        Body(match segments.len() {
            0 | 1 => segments.pop().map_or(Body::EMPTY.0, in_one),
            _ => {
                let own = segments.into_iter().map(EncodedSegment::into_own);
                Segments::Many(own.map(in_bytes).collect())
            }
        })
    }

    /// Decodes a value. Long tensors are views of the bytes.
    ///
    /// # Errors
    /// [`Failure::Channel`]: the bytes do not decode to a `T`.
    pub(crate) fn decoded<T>(&self, traits: &Traits<T>) -> Result<T, Failure> {
        match &self.0 {
            Segments::Short(short) => (traits.codec()?.decode)(short).map_err(Failure::of_channel),
            Segments::One(one) => decoded(one, traits),
            Segments::Many(_) => decoded(&self.to_bytes(), traits),
        }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Segments::Short(short) => short.len(),
            Segments::One(one) => one.len(),
            Segments::Many(many) => many.iter().map(Bytes::len).sum(),
        }
    }

    /// Whether the bytes lie in memory that others may share, so that the drop may run anybody's code.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self.0, Segments::Short(_))
    }

    /// Whether there are no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments().all(<[u8]>::is_empty)
    }

    /// The segments, in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match &self.0 {
            Segments::Short(short) => (Some(short.as_slice()), None),
            Segments::One(one) => (Some(one.as_ref()), None),
            Segments::Many(many) => (None, Some(many)),
        };
        one.into_iter()
            .chain(many.into_iter().flatten().map(Bytes::as_ref))
    }

    /// Copies the bytes, as far as there is room.
    pub(crate) fn copy_to(&self, mut room: &mut [u8]) {
        for segment in self.segments() {
            let length = segment.len().min(room.len());
            let (here, rest) = room.split_at_mut(length);
            here.copy_from_slice(segment.get(..length).unwrap_or_default());
            room = rest;
        }
    }

    /// Cuts off the first bytes, at most `most` of them.
    pub(crate) fn split_to(&mut self, most: usize) -> Body {
        match &mut self.0 {
            Segments::Short(short) => {
                let rest = ShortBytes::from_slice(short.get(most..).unwrap_or_default());
                let mut cut = std::mem::replace(short, rest);
                cut.truncate(most);
                Body(Segments::Short(cut))
            }
            Segments::One(one) => Body(Segments::One(one.split_to(most.min(one.len())))),
            Segments::Many(many) => {
                let (mut cut, mut room) = (VecDeque::new(), most);
                while let Some(mut first) = many.pop_front_if(|_| room > 0) {
                    let taken = first.split_to(room.min(first.len()));
                    room -= taken.len();
                    cut.push_back(taken);
                    if !first.is_empty() {
                        many.push_front(first);
                    }
                }
                Body(Segments::Many(cut))
            }
        }
    }

    /// The bytes in one piece, which nobody else keeps. They are copied if they are few, or if there are several segments.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Segments::One(one) => one,
            Segments::Short(_) | Segments::Many(_) => self.to_bytes(),
        }
    }

    /// The bytes in one piece. They are copied if they are few, or if there are several segments.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Segments::Short(short) => Bytes::copy_from_slice(short),
            Segments::One(one) => one.clone(),
            Segments::Many(many) => {
                // Without memory the process ends, as for any vector.
                let mut memory = BodyMemory::announced(self.len()).unwrap_or_default();
                many.iter().for_each(|segment| memory.put(segment));
                memory.into()
            }
        }
    }

    /// The bytes as a vector. They are copied if they are few, if there are several segments, or if others share them.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Segments::Short(short) => short.to_vec(),
            Segments::One(one) => one.into(),
            Segments::Many(many) => many.into_iter().flatten().collect(),
        }
    }
}

fn in_one(segment: EncodedSegment) -> Segments {
    match segment.into_own() {
        Ok(short) if !short.spilled() => Segments::Short(short),
        long => Segments::One(in_bytes(long)),
    }
}

/// The bytes of a segment: its own, or those that it shares.
fn in_bytes(own: Result<ShortBytes, EncodedSegment>) -> Bytes {
    own.map_or_else(Bytes::from_owner, |own| match own.spilled() {
        true => own.into_vec().into(),
        false => Bytes::copy_from_slice(&own),
    })
}

/// Decodes a value. Long tensors are views of the bytes.
///
/// # Errors
/// [`Failure::Channel`]: the bytes do not decode to a `T`.
#[allow(unsafe_code)] // the bytes stay where they are as long as somebody keeps them
pub(crate) fn decoded<T>(bytes: &Bytes, traits: &Traits<T>) -> Result<T, Failure> {
    let keeper = || Box::new(bytes.clone()) as Box<dyn Any + Send + Sync>;
    // SAFETY: the bytes of a `Bytes` do not move and are not written as long as it or a clone exists; `Bytes` guarantees
    // this.
    let decoded = unsafe { (traits.codec()?.decode_kept)(bytes, &keeper) };
    decoded.map_err(Failure::of_channel)
}

impl Default for Body {
    fn default() -> Self {
        Body::EMPTY
    }
}

impl From<EncodedSegments> for Body {
    fn from(segments: EncodedSegments) -> Self {
        Body::of_segments(segments)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body(Segments::One(bytes))
    }
}

impl From<BodyMemory> for Body {
    fn from(memory: BodyMemory) -> Self {
        match memory {
            BodyMemory::Short(short) => Body(Segments::Short(short)),
            long => Bytes::from(long).into(),
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from(text).into()
    }
}

impl PartialEq for Body {
    /// Compares the bytes, however they are cut into segments.
    fn eq(&self, other: &Self) -> bool {
        let [mine, others] = [self, other].map(|body| body.segments().flatten());
        self.len() == other.len() && mine.eq(others)
    }
}

impl Eq for Body {}

#[cfg(test)]
mod tests {
    use selvedge_channels::{DType, Tensor};

    use super::*;

    fn tensor(bytes: usize) -> Tensor {
        Tensor::filled(DType::U8, [bytes], |bytes| {
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = (at % 251) as u8;
            }
        })
        .unwrap()
    }

    #[test]
    fn a_body_shares_long_tensors_however_it_is_cut_and_its_reader_has_views() {
        let value = (tensor(1 << 20), 7_u32, tensor(1 << 17));
        let whole = Body::encoded(&value, &Traits::LETTER).unwrap();
        for most in [1 << 14, 100_000, 1 << 20, 1 << 30] {
            let (mut rest, mut memory) = (whole.clone(), BodyMemory::announced(whole.len()).unwrap());
            let mut is_shared = false;
            while !rest.is_empty() {
                let cut = rest.split_to(most);
                assert!(cut.len() == most || rest.is_empty());
                let range = value.0.bytes().as_ptr_range();
                is_shared |= cut.segments().any(|segment| range.contains(&segment.as_ptr()));
                cut.segments().for_each(|segment| memory.put(segment));
            }
            assert!(is_shared);
            let arrived = Body::from(Bytes::from(memory));
            assert_eq!(arrived, whole);
            let decoded: (Tensor, u32, Tensor) = arrived.decoded(&Traits::LETTER).unwrap();
            assert!(decoded == value);
            let range = arrived.to_bytes().as_ptr_range();
            assert!(range.contains(&decoded.0.bytes().as_ptr()), "it is a view");
            drop(arrived);
            assert!(decoded == value, "the views keep the bytes");
        }
    }

    #[test]
    fn small_values_are_one_segment() {
        let body = Body::encoded(&("text".to_owned(), 7_u8), &Traits::LETTER).unwrap();
        assert_eq!(body.segments().count(), 1);
        assert!(matches!(body.0, Segments::Short(_)));
        assert_eq!(Body::from(body.clone().into_vec()), body);
        assert_eq!(
            body.decoded::<(String, u8)>(&Traits::LETTER).unwrap(),
            ("text".to_owned(), 7)
        );
        for most in 0..body.len() + 2 {
            let mut rest = body.clone();
            let cut = rest.split_to(most);
            assert_eq!(
                [cut.into_vec(), rest.into_vec()].concat(),
                body.clone().into_vec()
            );
        }
        assert_eq!((Body::EMPTY.len(), Body::default()), (0, Body::EMPTY));
        let failed = Body::from("no number").decoded::<u64>(&Traits::LETTER);
        assert!(matches!(failed, Err(Failure::Channel(_))));
    }
}
