//! Conversion of device tensors to and from DLPack (`dlpack.h`, ABI version 1: `DLManagedTensorVersioned`, `kDLCUDA`).
//!
//! DLPack describes where the bytes are, but not when they are valid. Both sides agree on that out of band, as in the
//! array API standard: the consumer names the stream on which it reads, and the producer orders that stream behind the
//! writes. Therefore both directions take a stream:
//!
//! - [`DeviceTensor::into_dlpack`] takes the stream of the consumer ([`Stream::foreign`] for a stream of another
//!   library). It orders this stream behind the tensor. When the consumer has deleted the tensor, the memory is
//!   released after the work of this stream.
//! - [`DeviceTensor::from_dlpack`] takes a stream of this library. The caller has passed it to the producer
//!   (`__dlpack__(stream = ...)`), which has ordered it behind the writes. Work that is enqueued on it afterwards may
//!   read the tensor.
//!
//! `payload/interop/dlpack/capsule.rs` defines `DL-1` and `DL-2`. Here `DL-2` means that the bytes are written before
//! the next work of the stream.
#![allow(unsafe_code)] // a C interface

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::allocation::{Allocation, Keeper};
use super::error::DeviceError;
use super::gpu::Gpu;
use super::memory::DeviceMemory;
use super::stream::Stream;
use super::tensor::DeviceTensor;
use crate::payload::dlpack::{CUDA, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, MAJOR};
use crate::payload::{Capsule, DlPackError, TensorLayout, described};

/// A device tensor in transfer between two frameworks.
pub struct DeviceDlPack(Capsule<DLManagedTensorVersioned>);

impl fmt::Debug for DeviceDlPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceDlPack").finish_non_exhaustive()
    }
}

impl Keeper for DeviceDlPack {}

impl DeviceDlPack {
    /// Takes ownership of a tensor that another framework hands over, for example the pointer in a capsule
    /// `dltensor_versioned`. Returns `None` for a null pointer.
    ///
    /// # Safety
    /// `managed` is a valid `DLManagedTensorVersioned`. Nothing else deletes it, and nothing writes its data until it
    /// is deleted (`DL-1`, `DL-2`).
    pub unsafe fn from_raw(managed: *mut DLManagedTensorVersioned) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe { Capsule::from_raw(managed) }.map(DeviceDlPack)
    }

    /// Hands the tensor over. The receiver must call its deleter.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        self.0.into_raw()
    }

    /// The DLPack version by which the structure is laid out.
    pub fn version(&self) -> DLPackVersion {
        self.0.get().version
    }

    /// The description of the tensor.
    ///
    /// # Errors
    /// [`DlPackError::Version`].
    pub fn tensor(&self) -> Result<DLTensor, DlPackError> {
        let DLPackVersion { major, minor } = self.version();
        if major != MAJOR {
            return Err(DlPackError::Version { major, minor });
        }
        Ok(self.0.get().dl_tensor)
    }
}

impl DeviceTensor {
    /// Exports the tensor to another framework, which reads it on `reader` and does not write it. Nothing is copied.
    /// `reader` is ordered behind the tensor now, and is kept alive until the tensor is deleted. Reads on other streams
    /// must be ordered before work on `reader` by then.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn into_dlpack(self, reader: &Arc<Stream>) -> Result<DeviceDlPack, DeviceError> {
        let gpu = self.gpu();
        gpu.context.check_same("the stream", &reader.gpu().context)?;
        reader.order_after(self.ready())?;
        let refused = || DeviceError::Tensor(crate::TensorError::Memory { len_bytes: None });
        let address = usize::try_from(self.span()?.address()).map_err(|_| refused())?;
        let data = ptr::without_provenance_mut::<c_void>(address);
        let device = DLDevice {
            device_type: CUDA,
            device_id: i32::try_from(gpu.index()).unwrap_or(i32::MAX),
        };
        let layout = self.layout().clone();
        // Fields drop in order: the tensor is retired while the reader's stream is still observed.
        let kept = (self, Arc::clone(reader));
        // SAFETY: DL-2: the exported value owns the tensor, which keeps its data, and nothing writes that data.
        let capsule = unsafe { Capsule::over(device, data, layout.dtype(), layout.shape(), kept) };
        capsule.map(DeviceDlPack).ok_or_else(refused)
    }

    /// Imports a tensor that another framework has handed over. Nothing is copied. The tensor is on the device of
    /// `stream`, and its producer has ordered `stream` behind the writes. The framework's deleter is called when the
    /// import is dropped and the device no longer uses it.
    ///
    /// # Errors
    /// [`DlPackError`] if the tensor is not on a device, is on another device, has another version, is not contiguous,
    /// or has elements without a [`DType`](crate::DType). In these cases it is deleted at once.
    pub fn from_dlpack(pack: DeviceDlPack, stream: &Stream) -> Result<Self, DlPackError> {
        let found = pack.tensor()?;
        let DLDevice {
            device_type,
            device_id,
        } = found.device;
        if device_type != CUDA {
            return Err(DlPackError::NotCuda { device_type });
        }
        let index = u32::try_from(device_id).unwrap_or(u32::MAX);
        let gpu = stream.gpu();
        if index != gpu.index() {
            gpu.context.check_same("the tensor", &Gpu::open(index)?.context)?;
        }
        // SAFETY: DL-2: the memory that the description refers to is valid while `pack` lives.
        let tensor = unsafe { described(&found) }?;
        let layout = TensorLayout::new(tensor.dtype, tensor.shape)?;
        let len_bytes = tensor.len_bytes;
        let address = if len_bytes == 0 {
            0
        } else {
            tensor.data.addr() as u64
        };
        // SAFETY: DL-2: `len_bytes` bytes of this device, which nothing writes while `pack` lives.
        let allocation = unsafe { Allocation::foreign(address, len_bytes, Box::new(pack)) };
        let memory = DeviceMemory::of(gpu, allocation, len_bytes);
        Ok(DeviceTensor::written(memory, layout, stream)?)
    }
}
