//! Conversions between tensors and `bytes::Bytes`.
#![allow(unsafe_code)] // keeps the bytes of another owner

use std::sync::Arc;

use bytes::Bytes;

use super::super::bytes64::Bytes64;
use super::super::element::DType;
use super::super::layout::check_shape;
use super::super::{Tensor, TensorError};

/// The owner that keeps a tensor's bytes alive for a `Bytes`.
struct TensorBytes(Arc<Bytes64>);

impl AsRef<[u8]> for TensorBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Tensor {
    /// Makes a tensor from raw row-major bytes. Bytes on a 64-byte boundary are not copied.
    ///
    /// # Errors
    /// The errors of [`from_raw`](Self::from_raw).
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: Bytes) -> Result<Tensor, TensorError> {
        check_shape(dtype, shape, bytes.len())?;
        let slice: *const [u8] = &raw const *bytes;
        // SAFETY: the bytes of a `Bytes` do not move and are not written as long as it or a clone exists; `Bytes`
        // guarantees this.
        let kept = unsafe { Bytes64::kept(slice, Box::new(bytes.clone())) };
        match kept {
            Some(kept) => Ok(Tensor::over(dtype, shape, kept)),
            None => Tensor::from_raw(dtype, shape, &bytes),
        }
    }

    /// The row-major bytes of the tensor. They are shared without a copy, unless they lie in a slot.
    ///
    /// # Errors
    /// [`TensorError::Memory`].
    pub fn into_bytes(self) -> Result<Bytes, TensorError> {
        let no_memory = TensorError::Memory {
            len_bytes: Some(self.bytes().len()),
        };
        Ok(Bytes::from_owner(TensorBytes(self.part().ok_or(no_memory)?)))
    }
}
