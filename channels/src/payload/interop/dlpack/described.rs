//! What another framework says of its tensor, checked before it is believed.
#![allow(unsafe_code)] // reads lists of a C structure

use std::ffi::c_void;

use super::raw::DLTensor;
use super::{DlPackError, dtype_of};
use crate::payload::element::DType;
use crate::payload::layout::dense_strides;
use crate::payload::tensor::count;

/// What a tensor is that another framework describes.
pub(crate) struct Described {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    /// Where its first element is; anything where it has none.
    pub(crate) data: *mut c_void,
    pub(crate) len_bytes: usize,
}

/// Checks what is described: contiguous elements of a type known here, as many as can be counted.
///
/// # Safety
/// Shape and strides are null, or have as many numbers as there are dimensions, which nobody writes meanwhile.
pub(crate) unsafe fn described(found: &DLTensor) -> Result<Described, DlPackError> {
    let malformed = |what| DlPackError::Malformed { what };
    let dtype = dtype_of(found.dtype)?;
    let dimensions = usize::try_from(found.ndim).map_err(|_| malformed("fewer than no dimensions"))?;
    // SAFETY: the caller's promise.
    let shape = unsafe { numbers(found.shape, dimensions) };
    let shape: Result<Vec<usize>, _> = shape
        .ok_or_else(|| malformed("no shape"))?
        .into_iter()
        .map(usize::try_from)
        .collect();
    let shape = shape.map_err(|_| malformed("a dimension below 0"))?;
    let len_bytes = count(&shape).and_then(|count| count.checked_mul(dtype.size_bytes()));
    let len_bytes = len_bytes
        .filter(|len| isize::try_from(*len).is_ok())
        .ok_or_else(|| malformed("more than memory"))?;
    // SAFETY: the caller's promise.
    let strides = unsafe { numbers(found.strides, dimensions) };
    if let Some(strides) = strides
        && len_bytes > 0
        && !is_contiguous(&shape, &strides)
    {
        return Err(DlPackError::Strides { strides });
    }
    let offset = usize::try_from(found.byte_offset).map_err(|_| malformed("an offset above memory"))?;
    if found.data.is_null() && len_bytes > 0 {
        return Err(malformed("no data"));
    }
    Ok(Described {
        dtype,
        shape,
        data: found.data.wrapping_byte_add(offset),
        len_bytes,
    })
}

/// A list of so many numbers; none of a null pointer.
///
/// # Safety
/// There are so many, and nobody writes them meanwhile.
unsafe fn numbers(at: *const i64, count: usize) -> Option<Vec<i64>> {
    if count == 0 || at.is_null() {
        return (count == 0).then(Vec::new);
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(at, count) }.to_vec())
}

/// Whether these are the strides of a row-major, contiguous array; that of a dimension of one says nothing.
fn is_contiguous(shape: &[usize], strides: &[i64]) -> bool {
    let dense = dense_strides(shape);
    let mut all = shape.iter().zip(strides).zip(dense);
    all.all(|((size, stride), dense)| *size == 1 || usize::try_from(*stride) == Ok(dense))
}
