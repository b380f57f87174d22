//! Copies and fills, enqueued on a stream.
#![allow(unsafe_code)] // calls the driver

use super::allocation::Allocation;
use super::calls::Calls;
use super::error::DeviceError;
use super::handles::{ContextHandle, StreamHandle};
use super::pinned::Pinned;

/// A part of device memory: the allocation, and the offset of the part in it.
pub(super) type Place<'m> = (&'m Allocation, usize);

impl Calls {
    /// Enqueues a copy of `bytes` to the device through `staged`. No copy may be in flight in `staged`, which comes from
    /// [`Reclaimer::staging`](super::reclaimer::Reclaimer::staging), and the caller must retire it in every case.
    pub(super) fn upload(
        &self,
        to: Place<'_>,
        bytes: &[u8],
        staged: &mut Pinned,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let address = to.0.at(to.1, bytes.len())?;
        // SAFETY: memory is staged again only when the copies that used it before are done (DEV-2).
        unsafe { staged.write(bytes) }?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2).
        Ok(unsafe { self.cuMemcpyHtoDAsync_v2(address, staged.base(), bytes.len(), stream.raw()) }?)
    }

    /// Enqueues a copy from the device to `staged`. No copy may be in flight in `staged`. The caller must not read it
    /// before the stream has reached the end of the copy, and must retire it in every case.
    pub(super) fn download(
        &self,
        from: Place<'_>,
        staged: &mut Pinned,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let bytes = staged.len_bytes();
        let address = from.0.at(from.1, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2).
        Ok(unsafe { self.cuMemcpyDtoHAsync_v2(staged.base(), address, bytes, stream.raw()) }?)
    }

    /// Enqueues a copy within the device.
    pub(super) fn copy(
        &self,
        to: Place<'_>,
        from: Place<'_>,
        bytes: usize,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let (to, from) = (to.0.at(to.1, bytes)?, from.0.at(from.1, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2).
        Ok(unsafe { self.cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw()) }?)
    }

    /// Enqueues a device-to-device copy. Each range is on the device of its context.
    pub(super) fn copy_across(
        &self,
        to: (Place<'_>, &ContextHandle),
        from: (Place<'_>, &ContextHandle),
        bytes: usize,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let ((to, to_context), (from, from_context)) = (to, from);
        let (to, from) = (to.0.at(to.1, bytes)?, from.0.at(from.1, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        let (to_context, from_context) = (to_context.raw(), from_context.raw());
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2); both contexts live (DEV-1).
        Ok(unsafe { self.cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream.raw()) }?)
    }

    /// Enqueues an operation that sets every byte of a range to `byte`.
    pub(super) fn fill(
        &self,
        to: Place<'_>,
        bytes: usize,
        byte: u8,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let to = to.0.at(to.1, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range has that many bytes and stays until they are written (DEV-2).
        Ok(unsafe { self.cuMemsetD8Async(to, byte, bytes, stream.raw()) }?)
    }
}
