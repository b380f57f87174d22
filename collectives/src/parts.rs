//! Parts of a contribution: tensors in one block of memory, one after the other, each on a 64-byte boundary.

use std::sync::Arc;

use selvedge_channels::{DType, Tensor, TensorError, check_shape, element_count};
use serde::{Deserialize, Serialize};

/// The alignment of parts in bytes: the distance between the starts of two parts is a multiple of it.
pub(crate) const ALIGN: usize = 64;

/// A dense array of numbers that is read in place.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The type of its elements.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub shape: &'a [usize],
    /// The bytes, row-major.
    pub bytes: &'a [u8],
}

impl<'a> From<&'a Tensor> for Part<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Part {
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            bytes: tensor.bytes(),
        }
    }
}

impl Part<'_> {
    /// Returns an error if the number of bytes does not match the shape.
    pub(crate) fn check(&self) -> Result<(), TensorError> {
        check_shape(self.dtype, self.shape, self.bytes.len())
    }
}

/// The type and shape of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) dtype: DType,
    pub(crate) shape: Arc<[usize]>,
}

/// The position of a part in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) dtype: DType,
    pub(crate) offset: usize,
    pub(crate) count: usize,
}

impl Span {
    pub(crate) fn len_bytes(&self) -> usize {
        self.count * self.dtype.size_bytes()
    }
}

impl Head {
    /// Returns the number of elements; `None` if it overflows.
    pub(crate) fn count(&self) -> Option<usize> {
        element_count(&self.shape)
    }

    fn name(&self) -> String {
        format!("{:?}{:?}", self.dtype, self.shape).to_lowercase()
    }

    /// Returns this head with another first dimension; `None` for a scalar, or if `change` returns `None`.
    pub(crate) fn with_first(&self, change: impl FnOnce(usize) -> Option<usize>) -> Option<Head> {
        let mut shape = self.shape.to_vec();
        let first = shape.first_mut()?;
        *first = change(*first)?;
        Some(Head {
            dtype: self.dtype,
            shape: shape.into(),
        })
    }
}

/// The types and shapes of a rank's tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heads(pub(crate) Vec<Head>);

impl Heads {
    pub(crate) fn of<'a>(parts: impl Iterator<Item = (DType, &'a [usize])>) -> Self {
        let head = |(dtype, shape): (DType, &[usize])| Head {
            dtype,
            shape: shape.into(),
        };
        Heads(parts.map(head).collect())
    }

    /// Returns the positions of the parts, the first on the boundary at or after `start`, and their end; `None` if an
    /// address overflows.
    pub(crate) fn spans(&self, start: usize) -> Option<(Vec<Span>, usize)> {
        let mut next = start.checked_next_multiple_of(ALIGN)?;
        let mut spans = Vec::with_capacity(self.0.len());
        for head in &self.0 {
            let span = Span {
                dtype: head.dtype,
                offset: next,
                count: head.count()?,
            };
            let len = span.count.checked_mul(head.dtype.size_bytes())?;
            next = next.checked_add(len)?.checked_next_multiple_of(ALIGN)?;
            spans.push(span);
        }
        Some((spans, next))
    }

    /// Returns the heads of the parts of `ranks` ranks, one after the other; `None` for a scalar, or if a dimension
    /// overflows.
    pub(crate) fn gathered(&self, ranks: usize) -> Option<Heads> {
        let longer = |head: &Head| head.with_first(|first| first.checked_mul(ranks));
        self.0.iter().map(longer).collect::<Option<Vec<_>>>().map(Heads)
    }

    /// Returns a description for error messages.
    pub(crate) fn describe(&self) -> String {
        match self.0.as_slice() {
            [] => "nothing".to_owned(),
            heads => heads.iter().map(Head::name).collect::<Vec<_>>().join(", "),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Plain data is written into memory, which cannot fail.
        postcard::to_allocvec(self).unwrap_or_default()
    }
}

/// Heads, and all values that follow from them. Made once, and reused while a rank brings the same types and shapes.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) heads: Heads,
    /// The encoded heads, which stand at the start of a block.
    pub(crate) encoded: Vec<u8>,
    pub(crate) signature: u64,
    /// The positions of the parts, behind the encoded heads.
    pub(crate) spans: Vec<Span>,
    /// The number of bytes of a block with heads and parts, and that of the parts alone.
    pub(crate) end: usize,
    pub(crate) len: usize,
}

impl Template {
    pub(crate) fn of(heads: Heads) -> Result<Self, TensorError> {
        Template::with(heads.encode(), heads)
    }

    fn with(encoded: Vec<u8>, heads: Heads) -> Result<Self, TensorError> {
        let (spans, end) = heads
            .spans(encoded.len())
            .ok_or(TensorError::Memory { len_bytes: None })?;
        let start = spans.first().map_or(end, |span| span.offset);
        Ok(Template {
            signature: signature(&encoded),
            len: end - start,
            heads,
            encoded,
            spans,
            end,
        })
    }

    /// Decodes the heads that another rank has written at the start of its block; `None` if the bytes are not valid
    /// heads.
    pub(crate) fn decode(encoded: Vec<u8>) -> Option<Self> {
        let heads = postcard::from_bytes(&encoded).ok()?;
        Template::with(encoded, heads).ok()
    }

    /// Whether the template has these types and shapes.
    pub(crate) fn is_of<'a>(&self, parts: impl ExactSizeIterator<Item = (DType, &'a [usize])>) -> bool {
        let same =
            |(head, (dtype, shape)): (&Head, (DType, &[usize]))| head.dtype == dtype && *head.shape == *shape;
        self.heads.0.len() == parts.len() && self.heads.0.iter().zip(parts).all(same)
    }
}

/// Returns a hash: equal for equal heads, and rarely equal for others (FNV-1a).
fn signature(encoded: &[u8]) -> u64 {
    encoded.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_at_the_begin_of_a_block_is_heads_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(template) = Template::decode(bytes) {
                let mut end = template.encoded.len();
                for span in &template.spans {
                    prop_assert!(span.offset >= end && span.offset.is_multiple_of(ALIGN));
                    end = span.offset.checked_add(span.len_bytes()).unwrap();
                }
                prop_assert!(end <= template.end);
            }
        }

        #[test]
        fn heads_are_written_and_read(shapes in prop::collection::vec(prop::collection::vec(0usize..100, 0..4), 0..5)) {
            let parts = shapes.iter().map(|shape| (DType::F16, shape.as_slice()));
            let template = Template::of(Heads::of(parts.clone())).unwrap();
            prop_assert!(template.is_of(parts.collect::<Vec<_>>().into_iter()));
            let read = Template::decode(template.encoded.clone()).unwrap();
            prop_assert_eq!((read.signature, &read.spans, read.end), (template.signature, &template.spans, template.end));
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        for shape in [[usize::MAX, 2], [1 << 40, 1 << 40], [usize::MAX, 1]] {
            let heads = Heads::of([(DType::F64, shape.as_slice())].into_iter());
            assert!(Template::of(heads).is_err(), "{shape:?}");
        }
        let bytes = [0_u8; 7];
        let part = Part {
            dtype: DType::F32,
            shape: &[2],
            bytes: &bytes,
        };
        assert!(matches!(part.check(), Err(TensorError::Shape { found: 1, .. })));
    }
}
