//! The part of a batch: all buffers of its arrays, copied once.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::transform::MutableArrayData;
use arrow_data::{ArrayData, BufferSpec, layout};
use arrow_schema::{ArrowError, DataType};

use super::super::super::element::DType;
use super::super::super::{PART_ALIGN, Tensor, to_packed};
use super::{ArrowBatchError, Head, Node, check};

fn malformed(error: impl std::fmt::Display) -> ArrowBatchError {
    ArrowBatchError::Malformed(error.to_string())
}

/// Encodes a batch: its head, and all its buffers.
///
/// # Errors
/// [`ArrowBatchError::Length`]; [`ArrowBatchError::Malformed`] if there is no memory.
pub(super) fn encoded(batch: &RecordBatch) -> Result<(Head, Tensor), ArrowBatchError> {
    let schema = to_packed(batch.schema_ref().as_ref()).map_err(malformed)?;
    let mut arrays = ArraysWritten::default();
    for column in batch.columns() {
        arrays.add(&own_rows(column.to_data()).map_err(malformed)?)?;
    }
    let body = arrays.body()?;
    for node in &arrays.nodes {
        check::length(node.len, body.bytes().len())?;
    }
    let head = Head {
        schema,
        rows: batch.num_rows() as u64,
        lengths: arrays.buffers.iter().map(|buffer| buffer.len() as u64).collect(),
        nodes: arrays.nodes,
    };
    Ok((head, body))
}

/// The array, or a copy of its rows if it is a slice of a much larger one.
fn own_rows(data: ArrayData) -> Result<ArrayData, ArrowError> {
    if !is_loose(&data) {
        return Ok(data);
    }
    let mut rows = MutableArrayData::try_new(vec![&data], false, data.len())?;
    rows.try_extend(0, 0, data.len())?;
    Ok(rows.freeze())
}

/// Whether an array, or one in it, uses less than half of what its offsets point into.
fn is_loose(data: &ArrayData) -> bool {
    let of_bytes = || data.buffers().get(1).map_or(0, Buffer::len);
    let of_child = || data.child_data().first().map_or(0, ArrayData::len);
    let loose = match data.data_type() {
        DataType::Utf8 | DataType::Binary => is_under_half(data, of_bytes(), |offset: i32| i64::from(offset)),
        DataType::LargeUtf8 | DataType::LargeBinary => is_under_half(data, of_bytes(), |offset: i64| offset),
        DataType::List(_) | DataType::Map(..) => {
            is_under_half(data, of_child(), |offset: i32| i64::from(offset))
        }
        DataType::LargeList(_) => is_under_half(data, of_child(), |offset: i64| offset),
        DataType::Boolean => false,
        // `to_data` of an array has no offset but for a bitmap.
        _ => data.offset() != 0,
    };
    loose || data.child_data().iter().any(is_loose)
}

/// Whether the first and the last offset of an array are apart less than half of `all`.
fn is_under_half<T: arrow_buffer::ArrowNativeType>(
    data: &ArrayData,
    all: usize,
    number: impl Fn(T) -> i64,
) -> bool {
    let offsets = data.buffers().first().map(Buffer::typed_data::<T>);
    let offsets = offsets
        .unwrap_or_default()
        .get(data.offset()..)
        .unwrap_or_default();
    let at = |index: usize| offsets.get(index).copied().map(&number);
    let used = match (at(0), at(data.len())) {
        (Some(first), Some(last)) => usize::try_from(last.saturating_sub(first)).unwrap_or_default(),
        _ => 0,
    };
    used < all / 2 || data.offset() != 0
}

/// The arrays of a batch, each before its children, and their buffers.
#[derive(Default)]
struct ArraysWritten {
    nodes: Vec<Node>,
    buffers: Vec<Buffer>,
}

impl ArraysWritten {
    /// Adds an array and its children.
    fn add(&mut self, data: &ArrayData) -> Result<(), ArrowBatchError> {
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
        let before = self.buffers.len();
        self.buffers.extend(nulls.map(|nulls| nulls.inner().sliced()));
        let has_nulls = self.buffers.len() > before;
        for (index, buffer) in data.buffers().iter().enumerate() {
            self.buffers.push(own_bytes(data, index, buffer));
        }
        self.nodes.push(Node {
            len: data.len() as u64,
            has_nulls,
            buffers: u32::try_from(data.buffers().len()).map_err(malformed)?,
        });
        data.child_data().iter().try_for_each(|child| self.add(child))
    }

    /// All buffers one after the other, each on a boundary.
    fn body(&self) -> Result<Tensor, ArrowBatchError> {
        let padded = self
            .buffers
            .iter()
            .map(|buffer| buffer.len().checked_next_multiple_of(PART_ALIGN));
        let total = padded.sum::<Option<usize>>();
        let total = total.ok_or_else(|| malformed("its buffers are longer than memory"))?;
        let body = Tensor::filled(DType::U8, [total], |mut rest| {
            for buffer in &self.buffers {
                let padded = buffer.len().next_multiple_of(PART_ALIGN);
                let Some((place, behind)) = rest.split_at_mut_checked(padded) else {
                    return;
                };
                if let Some(place) = place.get_mut(..buffer.len()) {
                    place.copy_from_slice(buffer);
                }
                rest = behind;
            }
        });
        body.map_err(malformed)
    }
}

/// The bytes of a buffer that belong to the array: bits from the first one on, and whole elements.
fn own_bytes(data: &ArrayData, index: usize, buffer: &Buffer) -> Buffer {
    match layout(data.data_type()).buffers.get(index) {
        Some(BufferSpec::BitMap) => BooleanBuffer::new(buffer.clone(), data.offset(), data.len()).sliced(),
        Some(BufferSpec::FixedWidth { byte_width, .. }) if *byte_width > 0 => {
            buffer.slice_with_length(0, buffer.len() - buffer.len() % byte_width)
        }
        _ => buffer.clone(),
    }
}
