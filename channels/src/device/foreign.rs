//! Streams of other libraries.
#![allow(unsafe_code)] // believes a handle of the driver's

use std::ffi::c_void;

use super::error::DeviceError;
use super::gpu::Gpu;
use super::handles::StreamHandle;
use super::stream::Stream;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

impl Stream {
    /// Another library's stream (`CUstream`; null for the legacy default one), to be used as one of ours: ordered behind events, and
    /// counted where memory is given back. It is not destroyed with this.
    ///
    /// # Safety
    /// It is a stream of the device's primary context, and lives until this is dropped.
    ///
    /// # Errors
    /// [`DeviceError::StreamPerThread`] for `CU_STREAM_PER_THREAD`, [`DeviceError::Call`].
    pub unsafe fn foreign(gpu: &Gpu, raw: *mut c_void) -> Result<Self, DeviceError> {
        if raw.addr() == PER_THREAD {
            return Err(DeviceError::StreamPerThread { device: gpu.id() });
        }
        gpu.bind()?;
        // SAFETY: the caller's promise; the context stays while the stream has its device.
        let handle = unsafe { StreamHandle::foreign(raw) };
        Ok(Stream::of_foreign(gpu, handle))
    }
}
