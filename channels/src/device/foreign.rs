//! Streams of other libraries.
#![allow(unsafe_code)] // trusts a handle of the driver

use std::ffi::c_void;

use super::error::DeviceError;
use super::gpu::Gpu;
use super::handles::StreamHandle;
use super::stream::Stream;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

impl Stream {
    /// Wraps another library's stream (`CUstream`; null for the legacy default stream). The wrapper can be used like a
    /// stream of this library: it can be ordered behind events, and its work is waited for before memory is released.
    /// Dropping the wrapper does not destroy the stream.
    ///
    /// # Safety
    /// `raw` is a stream of the primary context of the device, and lives until the wrapper is dropped.
    ///
    /// # Errors
    /// [`DeviceError::StreamPerThread`] for `CU_STREAM_PER_THREAD`, [`DeviceError::Call`].
    pub unsafe fn foreign(gpu: &Gpu, raw: *mut c_void) -> Result<Self, DeviceError> {
        if raw.addr() == PER_THREAD {
            return Err(DeviceError::StreamPerThread { device: gpu.id() });
        }
        gpu.bind()?;
        // SAFETY: the caller's promise. The context lives as long as the stream, which holds the device.
        let handle = unsafe { StreamHandle::foreign(raw.cast()) };
        Ok(Stream::of_foreign(gpu, handle))
    }
}
