//! The description of another framework's tensor, checked before it is trusted.
#![allow(unsafe_code)] // reads lists of a C structure

use std::ffi::c_void;

use super::raw::DLTensor;
use super::{DlPackError, dtype_of};
use crate::payload::element::DType;
use crate::payload::layout::{byte_count, dense_strides};

/// A checked description of another framework's tensor.
pub(crate) struct Described {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    /// The address of the first element; any address if there are no elements.
    pub(crate) data: *mut c_void,
    pub(crate) len_bytes: usize,
}

/// Checks a description: contiguous elements of a known type, with a size that does not overflow.
///
/// # Safety
/// `shape` and `strides` are null or point to one number per dimension. The numbers are not written during the call.
pub(crate) unsafe fn described(found: &DLTensor) -> Result<Described, DlPackError> {
    let malformed = |what| DlPackError::Malformed { what };
    let dtype = dtype_of(found.dtype)?;
    let dimensions = usize::try_from(found.ndim).map_err(|_| malformed("fewer than no dimensions"))?;
    // SAFETY: the caller promises it.
    let shape = unsafe { numbers(found.shape, dimensions) };
    let shape: Result<Vec<usize>, _> = shape
        .ok_or_else(|| malformed("no shape"))?
        .into_iter()
        .map(usize::try_from)
        .collect();
    let shape = shape.map_err(|_| malformed("a dimension below 0"))?;
    let len_bytes = byte_count(dtype, &shape);
    let len_bytes = len_bytes
        .filter(|len| isize::try_from(*len).is_ok())
        .ok_or_else(|| malformed("more than memory"))?;
    // SAFETY: the caller promises it.
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

/// Copies `count` numbers. Returns `None` for a null pointer, unless `count` is 0.
///
/// # Safety
/// `at` is null or points to `count` numbers, which are not written during the call.
unsafe fn numbers(at: *const i64, count: usize) -> Option<Vec<i64>> {
    if count == 0 || at.is_null() {
        return (count == 0).then(Vec::new);
    }
    // SAFETY: the caller promises it.
    Some(unsafe { std::slice::from_raw_parts(at, count) }.to_vec())
}

/// Whether these are the strides of a row-major, contiguous array. The stride of a dimension of size 1 does not matter.
fn is_contiguous(shape: &[usize], strides: &[i64]) -> bool {
    let dense = dense_strides(shape);
    let mut all = shape.iter().zip(strides).zip(dense);
    all.all(|((size, stride), dense)| *size == 1 || usize::try_from(*stride) == Ok(dense))
}
