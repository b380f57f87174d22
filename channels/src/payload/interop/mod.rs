//! Tensors of others, without a copy where their memory allows it. One feature, one file or folder.

#[cfg(feature = "bytes")]
mod bytes;
#[cfg(feature = "dlpack")]
pub(super) mod dlpack;
#[cfg(feature = "ndarray")]
mod ndarray;
