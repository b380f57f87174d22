//! Tensors on a device to and from DLPack (`dlpack.h`, ABI version 1: `DLManagedTensorVersioned`, `kDLCUDA`).
//!
//! DLPack says where bytes are, not when. That is agreed beside it, as the array API standard has it: who takes a tensor says
//! on which stream it reads, and who gives it orders that stream behind what writes it. So a stream stands on both sides:
//!
//! - [`DeviceTensor::into_dlpack`] is given the reader's ([`Stream::foreign`] where it is another library's), which it orders
//!   behind the tensor, and behind which the memory is given back when the reader has deleted the tensor.
//! - [`DeviceTensor::from_dlpack`] is given one of ours, which its maker was told of (`__dlpack__(stream = ...)`) and has
//!   ordered; what is enqueued there from then on may read.
//!
//! `DL-1` and `DL-2` are those of `payload/interop/dlpack/capsule.rs`; in `DL-2` the bytes are written before what the stream does next.
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

/// A tensor of a device on its way from one framework to another.
pub struct DeviceDlPack(Capsule<DLManagedTensorVersioned>);

impl fmt::Debug for DeviceDlPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceDlPack").finish_non_exhaustive()
    }
}

impl Keeper for DeviceDlPack {}

impl DeviceDlPack {
    /// Takes over a tensor that another framework hands out, the pointer of a capsule `dltensor_versioned` say. `None` of a null
    /// pointer.
    ///
    /// # Safety
    /// It must be a valid `DLManagedTensorVersioned` that nobody else deletes, and whose data nobody writes until it is deleted
    /// (`DL-1`, `DL-2`).
    pub unsafe fn from_raw(managed: *mut DLManagedTensorVersioned) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe { Capsule::from_raw(managed) }.map(DeviceDlPack)
    }

    /// Hands the tensor out; its deleter is the receiver's to call.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        self.0.into_raw()
    }

    /// The version by which it is laid out.
    pub fn version(&self) -> DLPackVersion {
        self.0.get().version
    }

    /// What it describes.
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
    /// The tensor for another framework, which reads it on `reader` and does not write it: nothing is copied. `reader` is
    /// ordered behind the tensor now. It lives until the tensor is deleted, and what reads on other streams is ordered before
    /// something of `reader`'s by then.
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
        // What is first is dropped first: the memory is given back while the reader's stream is still looked at.
        let kept = (self, Arc::clone(reader));
        // SAFETY: DL-2: the tensor keeps its data, and nobody writes it.
        let capsule = unsafe { Capsule::over(device, data, layout.dtype(), layout.shape(), kept) };
        capsule.map(DeviceDlPack).ok_or_else(refused)
    }

    /// A tensor that another framework has handed over, on the device of `stream`, which its maker has ordered behind what writes
    /// it: nothing is copied. It is deleted when it is dropped and the device is done with it.
    ///
    /// # Errors
    /// [`DlPackError`] when it is on no device or another one, of another version, not contiguous, or of elements without a
    /// [`DType`](crate::DType). Then it is deleted at once.
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
        // SAFETY: DL-2: what it describes is valid while `pack` lives.
        let tensor = unsafe { described(&found) }?;
        let layout = TensorLayout::new(tensor.dtype, tensor.shape)?;
        let len_bytes = tensor.len_bytes;
        let address = if len_bytes == 0 {
            0
        } else {
            tensor.data.addr() as u64
        };
        // SAFETY: DL-2: so many bytes of this device, which nobody writes while `pack` lives.
        let allocation = unsafe { Allocation::foreign(address, len_bytes, Box::new(pack)) };
        let memory = DeviceMemory::of(gpu, allocation, len_bytes);
        Ok(DeviceTensor::written(memory, layout, stream)?)
    }
}
