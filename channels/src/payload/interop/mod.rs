//! Conversions to and from the tensors of other libraries, without a copy if their memory allows it. Each feature has
//! one file or folder.

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "bytes")]
mod bytes;
#[cfg(feature = "dlpack")]
pub(super) mod dlpack;
#[cfg(feature = "ndarray")]
mod ndarray;
