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
//! `DL-1` and `DL-2` are those of `payload/interop/dlpack/mod.rs`; in `DL-2` the bytes are written before what the stream does next.
#![allow(unsafe_code)] // a C interface

use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::allocation::{Allocation, Keeper};
use super::error::DeviceError;
use super::gpu::Gpu;
use super::memory::DeviceMemory;
use super::stream::Stream;
use super::tensor::DeviceTensor;
use crate::payload::dlpack::{
    CUDA, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, MAJOR, READ_ONLY,
};
use crate::payload::{Described, DlPackError, TensorLayout, code_of, described};

/// A tensor of a device on its way from one framework to another.
pub struct DeviceDlPack {
    managed: NonNull<DLManagedTensorVersioned>,
}

// SAFETY: DL-1 and DL-2: it is owned, and what it describes is only read; a deleter may be called on any thread, as every
// framework that takes tensors over relies on.
unsafe impl Send for DeviceDlPack {}
// SAFETY: as for `Send`; shared, it is only read.
unsafe impl Sync for DeviceDlPack {}

impl fmt::Debug for DeviceDlPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceDlPack").finish_non_exhaustive()
    }
}

impl Keeper for DeviceDlPack {}

impl Drop for DeviceDlPack {
    fn drop(&mut self) {
        // SAFETY: DL-1: ours, and alive; a deleter is where every version has it.
        let deleter = unsafe { self.managed.as_ref() }.deleter;
        if let Some(deleter) = deleter {
            // SAFETY: DL-1: called once, by its owner.
            unsafe { deleter(self.managed.as_ptr()) };
        }
    }
}

impl DeviceDlPack {
    /// Takes over a tensor that another framework hands out, the pointer of a capsule `dltensor_versioned` say. `None` of a null
    /// pointer.
    ///
    /// # Safety
    /// It must be a valid `DLManagedTensorVersioned` that nobody else deletes, and whose data nobody writes until it is deleted
    /// (`DL-1`, `DL-2`).
    pub unsafe fn from_raw(managed: *mut DLManagedTensorVersioned) -> Option<Self> {
        NonNull::new(managed).map(|managed| DeviceDlPack { managed })
    }

    /// Hands the tensor out; its deleter is the receiver's to call.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        let managed = self.managed.as_ptr();
        std::mem::forget(self);
        managed
    }

    /// The version by which it is laid out.
    pub fn version(&self) -> DLPackVersion {
        // SAFETY: DL-1: alive; every version begins with it.
        unsafe { self.managed.as_ref() }.version
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
        // SAFETY: DL-1: alive, and of this layout.
        Ok(unsafe { self.managed.as_ref() }.dl_tensor)
    }
}

/// What a tensor that goes out leaves behind until it is deleted. What is first is dropped first: the memory is given back
/// while the reader's stream is still looked at.
struct Sent {
    _tensor: DeviceTensor,
    _reader: Arc<Stream>,
    managed: DLManagedTensorVersioned,
    _shape: Arc<[i64]>,
    _strides: Arc<[i64]>,
}

/// The deleter of [`Sent`].
///
/// # Safety
/// `managed` came from [`DeviceTensor::into_dlpack`] and has not been deleted.
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: whoever calls this says that it is ours.
    let sent = unsafe { (*managed).manager_ctx }.cast::<Sent>();
    // SAFETY: the box that `into_dlpack` took apart, given back once (DL-1).
    drop(unsafe { Box::from_raw(sent) });
}

/// Strides of a dense, row-major tensor, in elements.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut step = 1_usize;
    let mut strides: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let stride = step;
            step = step.saturating_mul(*size);
            stride
        })
        .collect();
    strides.reverse();
    strides
}

fn signed(numbers: &[usize]) -> Arc<[i64]> {
    let signed = numbers
        .iter()
        .map(|number| i64::try_from(*number).unwrap_or(i64::MAX));
    signed.collect()
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
        let shape = signed(self.layout().shape());
        let strides = signed(&strides(self.layout().shape()));
        let refused = || DeviceError::Tensor(crate::TensorError::Memory { len_bytes: None });
        let address = usize::try_from(self.span()?.address()).map_err(|_| refused())?;
        let dl_tensor = DLTensor {
            data: ptr::without_provenance_mut::<c_void>(address),
            device: DLDevice {
                device_type: CUDA,
                device_id: i32::try_from(gpu.index()).unwrap_or(i32::MAX),
            },
            ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
            dtype: code_of(self.layout().dtype()).ok_or_else(refused)?,
            shape: shape.as_ptr().cast_mut(),
            strides: strides.as_ptr().cast_mut(),
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion {
                major: MAJOR,
                minor: 0,
            },
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags: READ_ONLY,
            dl_tensor,
        };
        let sent = Box::into_raw(Box::new(Sent {
            _tensor: self,
            _reader: Arc::clone(reader),
            managed,
            _shape: shape,
            _strides: strides,
        }));
        // SAFETY: just made, and nobody else's.
        let managed = unsafe { &raw mut (*sent).managed };
        // SAFETY: as above.
        unsafe { (*managed).manager_ctx = sent.cast() };
        // DL-1: a valid tensor with a deleter of its own. DL-2: its data is kept by `_tensor`, which nobody writes.
        let managed = NonNull::new(managed).ok_or_else(refused)?;
        Ok(DeviceDlPack { managed })
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
        let Described {
            dtype,
            shape,
            data,
            len_bytes,
        } = unsafe { described(&found) }?;
        let layout = TensorLayout::new(dtype, shape)?;
        let address = if len_bytes == 0 { 0 } else { data.addr() as u64 };
        // SAFETY: DL-2: so many bytes of this device, which nobody writes while `pack` lives.
        let allocation = unsafe { Allocation::foreign(address, len_bytes, Box::new(pack)) };
        let memory = DeviceMemory::of(gpu, allocation, len_bytes);
        Ok(DeviceTensor::written(memory, layout, stream)?)
    }
}
