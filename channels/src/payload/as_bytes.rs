//! Vectors of numbers within other values, as one run of bytes instead of number by number.
//!
//! A vector that is a whole payload travels as bytes in any case. In a field of a struct, serde sees each number by itself,
//! which takes some nanoseconds for each. A field with `#[serde(with = "selvedge::as_bytes")]` is copied at once. The bytes are
//! those of this machine, so both sides must have the same byte order, as all processes of a runtime do.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Batch {
//!     label: String,
//!     #[serde(with = "selvedge_channels::as_bytes")]
//!     rows: Vec<f32>,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let batch = Batch { label: "train".to_owned(), rows: vec![0.5; 1024] };
//! let bytes = selvedge_channels::encode(&batch)?.to_vec();
//! assert_eq!(selvedge_channels::decode::<Batch>(&bytes)?.rows, batch.rows);
//! # Ok(())
//! # }
//! ```

use std::any::Any;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::element::{DType, read_vec, vec_bytes, vec_dtype_of};

/// Serialises a `Vec` of primitive numbers as bytes, and any other value as its type does.
///
/// # Errors
/// The errors of the serialiser.
pub fn serialize<T: Serialize + 'static, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    match vec_bytes(value) {
        Some(bytes) => serializer.serialize_bytes(bytes),
        None => value.serialize(serializer),
    }
}

/// Deserialises what [`serialize`] has written.
///
/// # Errors
/// The errors of the deserialiser; the bytes are no whole number of numbers, or there is no memory for them.
pub fn deserialize<'de, T: Deserialize<'de> + 'static, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let Some(dtype) = vec_dtype_of::<T>() else {
        return T::deserialize(deserializer);
    };
    let mut vector = None::<T>;
    deserializer.deserialize_bytes(Numbers {
        vector: &mut vector,
        dtype,
    })?;
    vector.ok_or_else(|| D::Error::custom("bug in selvedge, please report: a vector of numbers was not set"))
}

/// Reads a vector of numbers.
struct Numbers<'a> {
    /// An `Option` of the vector's type.
    vector: &'a mut (dyn Any + 'static),
    dtype: DType,
}

impl Visitor<'_> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a vector of numbers")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<(), E> {
        let read = read_vec(self.vector, self.dtype, bytes);
        read.ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode, encode};
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Batch {
        label: String,
        #[serde(with = "super")]
        rows: Vec<f64>,
        #[serde(with = "super")]
        names: Vec<String>,
    }

    #[test]
    fn numbers_in_a_field_are_one_run_of_bytes() {
        for len in [0, 1, 1000] {
            let batch = Batch {
                label: "train".to_owned(),
                rows: (0..len).map(|x| f64::from(x) - 0.5).collect(),
                names: vec!["a".to_owned(); 3],
            };
            let bytes = encode(&batch).unwrap().to_vec();
            assert_eq!(decode::<Batch>(&bytes).unwrap(), batch);
            let rows = super::super::bytes_of(&batch.rows);
            assert!(rows.is_empty() || bytes.windows(rows.len()).any(|part| part == rows));
        }
    }

    #[test]
    fn bytes_that_are_no_numbers_are_refused() {
        assert!(decode::<Batch>(&batch_with_rows_of(16)).is_ok());
        assert!(decode::<Batch>(&batch_with_rows_of(7)).is_err());
    }

    /// An encoded batch whose rows have this number of bytes.
    fn batch_with_rows_of(len: usize) -> Vec<u8> {
        #[derive(Clone, Serialize, Deserialize)]
        struct Raw {
            label: String,
            #[serde(with = "super")]
            rows: Vec<u8>,
            names: Vec<String>,
        }
        let raw = Raw {
            label: String::new(),
            rows: vec![0; len],
            names: Vec::new(),
        };
        encode(&raw).unwrap().to_vec()
    }
}
