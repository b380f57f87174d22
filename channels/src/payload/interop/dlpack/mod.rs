//! Conversions between tensors and DLPack (`dlpack.h`, ABI version 0: `DLManagedTensor`), the interface through which
//! frameworks exchange tensors. Device tensors use ABI version 1, in `device/dlpack.rs`.
//!
//! `DL-1` and `DL-2` are defined in `capsule.rs`.
//!
//! The crate `dlpark` was considered (0.10.0 of October 2026: maintained, MSRV 1.88, no copies). It could replace `raw`
//! and `capsule`, some 220 lines; the table of element types, the checks with named errors and the conversions on both
//! sides would stay. In return come 11 000 lines with over 400 uses of `unsafe`, two further crates, and an interface
//! that broke twice in October. The C interface itself does not change. So it is declared here.
#![allow(unsafe_code)] // a C interface

mod capsule;
mod described;
pub mod raw;

use std::ffi::c_void;
use std::fmt;
use std::ptr;

pub(crate) use self::capsule::Capsule;
pub(crate) use self::described::described;
use self::raw::{DLDataType, DLDevice, DLManagedTensor, DLTensor};
use crate::payload::bytes64::Bytes64;
use crate::payload::element::DType;
use crate::payload::{Tensor, TensorError};

/// The reason why a tensor of another framework cannot be taken over.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DlPackError {
    /// The tensor is not in host memory.
    #[error("the tensor lies on a device of DLPack type {device_type}, not in memory: copy it there first")]
    Device {
        /// The tensor's `DLDeviceType`.
        device_type: i32,
    },
    /// The tensor is not on an NVIDIA device.
    #[error("the tensor is of DLPack device type {device_type}, not on a device of NVIDIA")]
    NotCuda {
        /// The tensor's `DLDeviceType`.
        device_type: i32,
    },
    /// The tensor has the layout of another version of DLPack.
    #[error("the tensor is of DLPack {major}.{minor}, and 1 is known here")]
    Version {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
    /// An operation on the device failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    OnDevice(#[from] crate::device::DeviceError),
    /// The type of the elements has no [`DType`].
    #[error("elements of DLPack code {code} with {bits} bits and {lanes} lanes have no DType")]
    DType {
        /// The `DLDataTypeCode` of the elements.
        code: u8,
        /// The number of bits of an element.
        bits: u8,
        /// The number of lanes of an element.
        lanes: u16,
    },
    /// The tensor is not row-major and contiguous.
    #[error("the tensor has strides {strides:?}, and is not contiguous: make it so first")]
    Strides {
        /// The strides, in elements.
        strides: Vec<i64>,
    },
    /// The description of the tensor is inconsistent.
    #[error("the tensor is malformed: {what}")]
    Malformed {
        /// The inconsistency.
        what: &'static str,
    },
    /// The tensor does not fit into memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

crate::debug_is_report!(DlPackError);

/// A tensor that is handed from one framework to another.
pub struct DlPack(Capsule<DLManagedTensor>);

impl fmt::Debug for DlPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DlPack").finish_non_exhaustive()
    }
}

impl DlPack {
    /// Takes over a tensor that another framework hands out, from a Python capsule for example. Returns `None` for a
    /// null pointer.
    ///
    /// # Safety
    /// The pointer must be to a valid `DLManagedTensor` that no other code deletes, and whose data is not written until
    /// it is deleted (`DL-1`, `DL-2`).
    pub unsafe fn from_raw(managed: *mut DLManagedTensor) -> Option<Self> {
        // SAFETY: the caller promises it.
        unsafe { Capsule::from_raw(managed) }.map(DlPack)
    }

    /// Hands the tensor out. The receiver has to call its deleter.
    pub fn into_raw(self) -> *mut DLManagedTensor {
        self.0.into_raw()
    }

    /// The description of the tensor.
    pub fn tensor(&self) -> DLTensor {
        self.0.get().dl_tensor
    }
}

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const BOOL: u8 = 6;

const TYPES: [(DType, u8, u8); 13] = [
    (DType::U8, UINT, 8),
    (DType::U16, UINT, 16),
    (DType::U32, UINT, 32),
    (DType::U64, UINT, 64),
    (DType::I8, INT, 8),
    (DType::I16, INT, 16),
    (DType::I32, INT, 32),
    (DType::I64, INT, 64),
    (DType::F32, FLOAT, 32),
    (DType::F64, FLOAT, 64),
    (DType::F16, FLOAT, 16),
    (DType::BF16, BFLOAT, 16),
    (DType::Bool, BOOL, 8),
];

fn code_of(dtype: DType) -> Option<DLDataType> {
    let (_, code, bits) = TYPES.into_iter().find(|(known, ..)| *known == dtype)?;
    Some(DLDataType { code, bits, lanes: 1 })
}

fn dtype_of(found: DLDataType) -> Result<DType, DlPackError> {
    let DLDataType { code, bits, lanes } = found;
    let known = TYPES
        .into_iter()
        .find(|(_, its_code, its_bits)| (*its_code, *its_bits, 1) == (code, bits, lanes));
    known
        .map(|(dtype, ..)| dtype)
        .ok_or(DlPackError::DType { code, bits, lanes })
}

impl Tensor {
    /// Converts the tensor for another framework. Its bytes are not copied, unless they lie in a slot. The receiver
    /// must not write them.
    ///
    /// # Errors
    /// [`TensorError::Memory`].
    pub fn into_dlpack(self) -> Result<DlPack, TensorError> {
        let no_memory = || TensorError::Memory {
            len_bytes: Some(self.bytes().len()),
        };
        let bytes = self.part().ok_or_else(no_memory)?;
        let data = bytes.as_slice().as_ptr().cast_mut().cast::<c_void>();
        let device = DLDevice {
            device_type: raw::CPU,
            device_id: 0,
        };
        // SAFETY: DL-2: `bytes` keeps the data alive, and its other holders only read it.
        let capsule = unsafe { Capsule::over(device, data, self.dtype(), self.shape(), bytes) };
        capsule.map(DlPack).ok_or_else(no_memory)
    }

    /// Makes a tensor from one that another framework has handed over. Bytes on a 64-byte boundary are not copied.
    ///
    /// # Errors
    /// [`DlPackError`] when the tensor is not in host memory, not contiguous, or malformed, or its elements have no
    /// [`DType`].
    pub fn from_dlpack(pack: DlPack) -> Result<Tensor, DlPackError> {
        let found = pack.tensor();
        let device_type = found.device.device_type;
        if device_type != raw::CPU {
            return Err(DlPackError::Device { device_type });
        }
        // SAFETY: DL-2: the description is valid while `pack` lives.
        let tensor = unsafe { described(&found) }?;
        let (dtype, len_bytes) = (tensor.dtype, tensor.len_bytes);
        if len_bytes == 0 {
            return Ok(Tensor::from_raw(dtype, &tensor.shape, &[])?);
        }
        let bytes = ptr::slice_from_raw_parts(tensor.data.cast::<u8>().cast_const(), len_bytes);
        if Bytes64::can_keep(bytes) {
            // SAFETY: DL-2: the bytes are valid and unwritten until the deleter is called. The keeper calls it when it
            // is dropped.
            let kept = unsafe { Bytes64::kept(bytes, Box::new(pack)) };
            let what = "no data";
            return Ok(Tensor::over(
                dtype,
                tensor.shape,
                kept.ok_or(DlPackError::Malformed { what })?,
            ));
        }
        // SAFETY: DL-2: `pack` lives to the end of this function.
        let slice = unsafe { &*bytes };
        Ok(Tensor::from_raw(dtype, &tensor.shape, slice)?)
    }
}
