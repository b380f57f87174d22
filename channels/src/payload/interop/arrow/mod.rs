//! Record batches of Apache Arrow as payloads.
//!
//! The buffers of a batch are one part, in the layout of a message of Arrow's IPC: one after the other, each on a 64-byte boundary,
//! column by column, an array before its children. The head has the schema, the lengths of the arrays and of the buffers. A reader
//! that keeps the bytes, as a fetch from the object store does, gets arrays whose buffers are the part.
//!
//! The crates of arrow-rs, of the version that [`ArrowBatch`] uses, are `array`, `buffer` and `schema` here.
//!
//! `check` decides what travels, `write` makes a part, and `read` makes the arrays over one.

mod check;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

pub use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parking_lot::Mutex;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
pub use {arrow_array as array, arrow_buffer as buffer, arrow_schema as schema};

use super::super::bytes64::Bytes64;
use super::super::codec::is_trial;
use super::super::element::DType;
use super::super::tensor::{Tensor, TensorHead};

/// A record batch of Apache Arrow that travels: a [`RecordBatch`] of types that other processes can read.
///
/// Its buffers are copied once, when it is encoded. A process that fetches the batch from the object store of its host reads the buffers
/// where they lie; whoever clones the batch, a column or a slice shares them, and keeps them there. A batch that comes through a
/// channel, or of less than 4 KiB, is copied out once. A batch that was read is sent on without a copy.
///
/// A slice of a batch sends its own rows, if they are less than half of the text, bytes or lists that they point into. Text and
/// bytes as views go with all their buffers, which `gc` of their array cuts.
///
/// ```
/// use std::sync::Arc;
/// use selvedge_channels::arrow::array::{Int64Array, StringArray};
/// use selvedge_channels::arrow::{ArrowBatch, RecordBatch};
/// use selvedge_channels::{decode, encode};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([
///     ("id", Arc::new(Int64Array::from(vec![1, 2])) as _),
///     ("name", Arc::new(StringArray::from(vec![Some("warp"), None])) as _),
/// ])?;
/// let batch = ArrowBatch::new(batch)?;
/// let bytes = encode(&batch)?.to_vec();
/// assert_eq!(decode::<ArrowBatch>(&bytes)?, batch);
/// # Ok(())
/// # }
/// ```
pub struct ArrowBatch {
    batch: RecordBatch,
    /// The batch as it was read or last written, while somebody has its part. A batch that was read is sent on without a copy, and
    /// a value that is encoded by name, and so twice, has the same part both times.
    known: Mutex<Option<Known>>,
}

/// The head of a batch, and its part.
#[derive(Clone)]
struct Known {
    head: Arc<Head>,
    part: Weak<Bytes64>,
}

impl Known {
    /// The head and the part; `None` if the part is gone.
    fn found(&self) -> Option<(Arc<Head>, Tensor)> {
        let part = self.part.upgrade()?;
        let body = Tensor::owned(TensorHead::of(DType::U8, &[part.as_slice().len()]), part)?;
        Some((Arc::clone(&self.head), body))
    }
}

/// An error: a record batch does not travel, or bytes are none.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrowBatchError {
    /// A column has a type that does not travel.
    #[error(
        "column `{column}` has the type {data_type}, which does not travel: cast it, for a union to a struct"
    )]
    Type {
        /// The name of the column.
        column: String,
        /// The type within the column.
        data_type: String,
    },
    /// The type of a column nests too deep.
    #[error("the type of column `{column}` nests more than {levels_max} levels deep")]
    TooDeep {
        /// The name of the column.
        column: String,
        /// The largest number of levels.
        levels_max: usize,
    },
    /// An array has more elements than its batch may claim.
    #[error(
        "an array of {elements} elements in a batch of {len_bytes} bytes: give the batch a column that takes bytes, or cut it"
    )]
    Length {
        /// The number of elements.
        elements: u64,
        /// The number of bytes of the batch's buffers.
        len_bytes: usize,
    },
    /// The batch is malformed.
    #[error("the record batch is malformed: {0}")]
    Malformed(String),
}

crate::debug_is_report!(ArrowBatchError);

impl ArrowBatch {
    /// Makes a batch that travels.
    ///
    /// # Errors
    /// [`ArrowBatchError::Type`] for unions, run-end encoded arrays and views of lists, [`ArrowBatchError::TooDeep`].
    pub fn new(batch: RecordBatch) -> Result<Self, ArrowBatchError> {
        check::schema(batch.schema_ref())?;
        Ok(ArrowBatch::of(batch, None))
    }

    fn of(batch: RecordBatch, known: Option<Known>) -> Self {
        ArrowBatch {
            batch,
            known: Mutex::new(known),
        }
    }

    /// The record batch by itself.
    pub fn into_inner(self) -> RecordBatch {
        self.batch
    }
}

impl Deref for ArrowBatch {
    type Target = RecordBatch;

    fn deref(&self) -> &RecordBatch {
        &self.batch
    }
}

impl TryFrom<RecordBatch> for ArrowBatch {
    type Error = ArrowBatchError;

    fn try_from(batch: RecordBatch) -> Result<Self, ArrowBatchError> {
        ArrowBatch::new(batch)
    }
}

impl From<ArrowBatch> for RecordBatch {
    fn from(batch: ArrowBatch) -> RecordBatch {
        batch.batch
    }
}

impl Clone for ArrowBatch {
    fn clone(&self) -> Self {
        ArrowBatch::of(self.batch.clone(), self.known.lock().clone())
    }
}

impl PartialEq for ArrowBatch {
    fn eq(&self, other: &Self) -> bool {
        self.batch == other.batch
    }
}

impl fmt::Debug for ArrowBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowBatch")
            .field("rows", &self.batch.num_rows())
            .field("schema", self.batch.schema_ref())
            .finish()
    }
}

/// An array of a batch. Its type follows from the schema.
#[derive(Debug, Serialize, Deserialize)]
struct Node {
    len: u64,
    has_nulls: bool,
    buffers: u32,
}

/// A batch on its way, without its part.
#[derive(Serialize, Deserialize)]
struct Head {
    /// The schema, packed.
    schema: Vec<u8>,
    rows: u64,
    /// The arrays, each before its children.
    nodes: Vec<Node>,
    /// The lengths of the buffers in bytes; that of the nulls of an array before those of its values.
    lengths: Vec<u64>,
}

impl Serialize for ArrowBatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut known = self.known.lock();
        let (head, body) = match known.as_ref().and_then(Known::found) {
            Some(found) => found,
            None => {
                let (head, body) = write::encoded(&self.batch).map_err(S::Error::custom)?;
                let head = Arc::new(head);
                *known = body.part().map(|part| Known {
                    head: Arc::clone(&head),
                    part: Arc::downgrade(&part),
                });
                (head, body)
            }
        };
        drop(known);
        (&*head, body).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ArrowBatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (head, body) = <(Head, Tensor)>::deserialize(deserializer)?;
        if is_trial() {
            return Ok(ArrowBatch::of(
                RecordBatch::new_empty(Arc::new(Schema::empty())),
                None,
            ));
        }
        let part = body
            .part()
            .ok_or_else(|| D::Error::custom("no memory for a record batch"))?;
        let batch = read::batch(&head, Arc::clone(&part)).map_err(D::Error::custom)?;
        let known = Known {
            head: Arc::new(head),
            part: Arc::downgrade(&part),
        };
        Ok(ArrowBatch::of(batch, Some(known)))
    }
}
