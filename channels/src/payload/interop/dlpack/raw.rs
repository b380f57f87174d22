//! The C structures of DLPack, with the names of `dlpack.h`.

use std::ffi::c_void;

/// `kDLCPU`.
pub const CPU: i32 = 1;
/// `kDLCUDA`.
pub const CUDA: i32 = 2;
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
pub const READ_ONLY: u64 = 1;
/// The supported major version of [`DLManagedTensorVersioned`]. Other versions have a different layout.
pub const MAJOR: u32 = 1;

/// The device that holds a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// The `DLDeviceType`, for example [`CPU`].
    pub device_type: i32,
    /// The number of the device among those of its type.
    pub device_id: i32,
}

/// The type of the elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// The `DLDataTypeCode`.
    pub code: u8,
    /// The number of bits of one lane.
    pub bits: u8,
    /// The number of lanes; 1 for scalars.
    pub lanes: u16,
}

/// The description of a tensor, which does not own the data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The begin of the allocation.
    pub data: *mut c_void,
    /// The device that holds the data.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The size of each dimension.
    pub shape: *mut i64,
    /// The stride of each dimension in elements; null for a row-major, contiguous tensor.
    pub strides: *mut i64,
    /// The offset of the first element from `data`.
    pub byte_offset: u64,
}

/// A tensor with its owner, in ABI version 0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The description of the tensor.
    pub dl_tensor: DLTensor,
    /// The owner's context.
    pub manager_ctx: *mut c_void,
    /// The function that releases the tensor; `None` if nothing is to be released.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A version of DLPack.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another major version has another layout.
    pub major: u32,
    /// Another minor version has the same layout.
    pub minor: u32,
}

/// A tensor with its owner, in ABI version 1.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version that determines the layout of the following fields.
    pub version: DLPackVersion,
    /// The owner's context.
    pub manager_ctx: *mut c_void,
    /// The function that releases the tensor; `None` if nothing is to be released.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// A set of flags, for example [`READ_ONLY`].
    pub flags: u64,
    /// The description of the tensor.
    pub dl_tensor: DLTensor,
}
