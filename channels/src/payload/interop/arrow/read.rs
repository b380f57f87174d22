//! The arrays over a part. The head and the part may come from another process, so everything is checked.
#![allow(unsafe_code)] // buffers over the bytes of the part

use std::ptr::NonNull;
use std::slice::Iter;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, BufferSpec, layout};
use arrow_schema::{DataType, Schema};

use super::super::super::bytes64::Bytes64;
use super::super::super::{PART_ALIGN, from_packed};
use super::{ArrowBatchError, Head, Node, check};

fn malformed<T>(why: impl std::fmt::Display) -> Result<T, ArrowBatchError> {
    Err(ArrowBatchError::Malformed(why.to_string()))
}

/// Makes the batch, whose buffers are the part.
///
/// # Errors
/// [`ArrowBatchError`].
pub(super) fn batch(head: &Head, part: Arc<Bytes64>) -> Result<RecordBatch, ArrowBatchError> {
    let schema: Schema = from_packed(&head.schema).or_else(malformed)?;
    check::schema(&schema)?;
    let mut arrays = ArraysLeft {
        len_bytes: part.as_slice().len(),
        body: over(part),
        nodes: head.nodes.iter(),
        lengths: head.lengths.iter(),
        next: 0,
    };
    let rows = check::length(head.rows, arrays.len_bytes)?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        columns.push(make_array(arrays.array(field.data_type())?));
    }
    if arrays.nodes.next().is_some() || arrays.lengths.next().is_some() {
        return malformed("it has more arrays than columns");
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).or_else(malformed)
}

/// A buffer that is the whole part.
fn over(part: Arc<Bytes64>) -> Buffer {
    let bytes = part.as_slice();
    let (base, len) = (NonNull::from(bytes).cast::<u8>(), bytes.len());
    // SAFETY: `len` bytes from `base`, which nobody writes and which do not move as long as the part exists; the buffer and all of its
    // slices hold it.
    unsafe { Buffer::from_custom_allocation(base, len, part) }
}

/// The arrays that have not been read yet.
struct ArraysLeft<'a> {
    body: Buffer,
    len_bytes: usize,
    nodes: Iter<'a, Node>,
    lengths: Iter<'a, u64>,
    /// The offset of the next buffer.
    next: usize,
}

impl ArraysLeft<'_> {
    /// The next array, of this type, with its children.
    fn array(&mut self, data_type: &DataType) -> Result<ArrayData, ArrowBatchError> {
        let Some(node) = self.nodes.next() else {
            return malformed("it has fewer arrays than columns");
        };
        let len = check::length(node.len, self.len_bytes)?;
        let nulls = node.has_nulls.then(|| self.buffer()).transpose()?;
        let specs = layout(data_type).buffers;
        let mut buffers = Vec::new();
        for index in 0..node.buffers {
            let buffer = self.buffer()?;
            // arrow-rs takes a buffer as elements before it looks at the rest of the length.
            let width = match specs.get(index as usize) {
                Some(BufferSpec::FixedWidth { byte_width, .. }) => *byte_width,
                _ => 1,
            };
            if width > 0 && !buffer.len().is_multiple_of(width) {
                return malformed("a buffer ends in an element");
            }
            buffers.push(buffer);
        }
        let mut children = Vec::new();
        for child in child_types(data_type) {
            children.push(self.array(child)?);
        }
        if let DataType::Struct(_) = data_type
            && children.iter().any(|child| child.len() != len)
        {
            return malformed("a field of a struct has another length");
        }
        let array = ArrayData::builder(data_type.clone())
            .len(len)
            .null_bit_buffer(nulls)
            .buffers(buffers)
            .child_data(children);
        array.build().or_else(malformed)
    }

    /// The next buffer.
    fn buffer(&mut self) -> Result<Buffer, ArrowBatchError> {
        let length = self
            .lengths
            .next()
            .and_then(|length| usize::try_from(*length).ok());
        let end = length.and_then(|length| self.next.checked_add(length));
        match (length, end.filter(|end| *end <= self.len_bytes)) {
            (Some(length), Some(end)) => {
                let buffer = self.body.slice_with_length(self.next, length);
                self.next = end.next_multiple_of(PART_ALIGN).min(self.len_bytes);
                Ok(buffer)
            }
            _ => malformed("a buffer is longer than its part"),
        }
    }
}

/// The types of the children of an array of this type.
pub(super) fn child_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Dictionary(_, values) => vec![values],
        _ => Vec::new(),
    }
}
