//! Layouts of tensors. The size in bytes of a layout that exists does not overflow.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::element::DType;

/// The maximum number of dimensions of a tensor.
pub const DIMENSIONS_MAX: usize = 32;

/// The reason why a tensor could not be made or read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The number of elements given is not that of the shape.
    #[error("shape {shape:?} holds {} elements, {found} were given", counted(*expected))]
    Shape {
        /// The shape asked for.
        shape: Vec<usize>,
        /// The number of elements of that shape; `None` if it overflows.
        expected: Option<usize>,
        /// The number of elements given.
        found: usize,
    },
    /// The elements are of another type.
    #[error("the tensor holds {found:?}, not {expected:?}")]
    DType {
        /// The type asked for.
        expected: DType,
        /// The type of the tensor's elements.
        found: DType,
    },
    /// The tensor does not fit into memory.
    #[error("there is no memory for a tensor of {} bytes", counted(*len_bytes))]
    Memory {
        /// The number of bytes needed; `None` if it overflows.
        len_bytes: Option<usize>,
    },
}

crate::debug_is_report!(TensorError);

/// A number in an error; `None` if it overflows.
fn counted(number: Option<usize>) -> String {
    number.map_or_else(
        || format!("more than {}", usize::MAX),
        |number| number.to_string(),
    )
}

/// The element type and the shape of a dense, row-major tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedLayout")]
pub struct TensorLayout {
    dtype: DType,
    shape: Arc<[usize]>,
}

/// A decoded layout that has not been checked.
#[derive(Deserialize)]
struct UncheckedLayout {
    dtype: DType,
    shape: Arc<[usize]>,
}

impl TryFrom<UncheckedLayout> for TensorLayout {
    type Error = TensorError;

    fn try_from(said: UncheckedLayout) -> Result<Self, TensorError> {
        TensorLayout::new(said.dtype, said.shape)
    }
}

/// The number of elements of a shape; 1 for a scalar. `None` if it overflows.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, dimension| product.checked_mul(*dimension))
}

/// The number of bytes of a tensor of this type and shape; `None` if it overflows.
pub fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    element_count(shape)?.checked_mul(dtype.size_bytes())
}

/// Returns an error unless a tensor of this type and shape has exactly `len_bytes` bytes.
pub fn check_shape(dtype: DType, shape: &[usize], len_bytes: usize) -> Result<(), TensorError> {
    if byte_count(dtype, shape) == Some(len_bytes) {
        return Ok(());
    }
    Err(TensorError::Shape {
        shape: shape.to_vec(),
        expected: element_count(shape),
        found: len_bytes / dtype.size_bytes(),
    })
}

/// The size of a tensor in bytes; `None` if it overflows an `isize`.
fn bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    byte_count(dtype, shape).filter(|bytes| *bytes <= isize::MAX as usize)
}

/// The strides of a dense, row-major array: for each dimension, the number of elements from one index to the next.
pub(super) fn dense_strides(shape: &[usize]) -> Vec<usize> {
    let mut step = 1_usize;
    let outwards = shape.iter().rev().map(|dimension| {
        let stride = step;
        // An overflow is possible only in an array without elements, and harmless there.
        step = step.saturating_mul(*dimension);
        stride
    });
    let mut strides: Vec<_> = outwards.collect();
    strides.reverse();
    strides
}

impl TensorLayout {
    /// The layout of a tensor with these dimensions, outermost first. A scalar has none.
    ///
    /// # Errors
    /// [`TensorError::Memory`] when the size in bytes overflows, or there are more than [`DIMENSIONS_MAX`] dimensions.
    pub fn new(dtype: DType, shape: impl Into<Arc<[usize]>>) -> Result<Self, TensorError> {
        let shape = shape.into();
        if shape.len() > DIMENSIONS_MAX || bytes(dtype, &shape).is_none() {
            return Err(TensorError::Memory { len_bytes: None });
        }
        Ok(TensorLayout { dtype, shape })
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The size of the tensor in bytes.
    pub fn len_bytes(&self) -> usize {
        // `new` has checked that it does not overflow.
        bytes(self.dtype, &self.shape).unwrap_or(0)
    }
}

impl fmt::Display for TensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_cannot_be_counted_is_none() {
        assert!(TensorLayout::new(DType::F32, [usize::MAX, 2]).is_err());
        assert!(TensorLayout::new(DType::F32, [1; 33]).is_err());
        let scalar = TensorLayout::new(DType::F64, []).unwrap();
        assert_eq!((scalar.len_bytes(), scalar.to_string().as_str()), (8, "F64[]"));
        let none = TensorLayout::new(DType::U8, [3, 0]).unwrap();
        assert_eq!(none.len_bytes(), 0);
    }

    #[test]
    fn acc_04_a_layout_travels_and_a_hostile_one_is_refused() {
        let layout = TensorLayout::new(DType::BF16, [3, 4]).unwrap();
        let bytes = postcard::to_allocvec(&layout).unwrap();
        assert_eq!(postcard::from_bytes::<TensorLayout>(&bytes).unwrap(), layout);
        let hostile = postcard::to_allocvec(&(DType::F32, vec![usize::MAX, usize::MAX])).unwrap();
        assert!(postcard::from_bytes::<TensorLayout>(&hostile).is_err());
    }
}
