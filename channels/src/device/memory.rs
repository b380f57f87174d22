//! Memory of a device, parts of it, and the way back to the host.
#![allow(unsafe_code)] // reads what the device has written

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::abi::Exported;
use super::allocation::{Allocation, Pinned};
use super::error::DeviceError;
use super::event::Event;
use super::gpu::{Context, Gpu};
use super::retired::Resource;
use super::stream::Stream;

/// Memory of a device, of this process or mapped from another one. Its bytes are whatever was there before.
///
/// Dropping it never waits: it is given back when the device is done with everything that was enqueued before.
pub struct DeviceMemory {
    gpu: Gpu,
    /// `None` only while it is dropped.
    allocation: Option<Allocation>,
    bytes: usize,
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes on {:?}", self.bytes, self.gpu)
    }
}

impl DeviceMemory {
    /// New memory: of the kind that can be shared as a descriptor where the device has it, which comes in pieces of 2 MiB or
    /// so; else of the older kind.
    ///
    /// # Errors
    /// [`DeviceError::Call`] when there is none left.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self, DeviceError> {
        let context = &gpu.context;
        context.bind()?;
        // What was dropped may be what is missing.
        context.retired.sweep();
        let mapped = context
            .exports_descriptors
            .then(|| context.calls.map_new(context.ordinal, bytes));
        let allocation = match mapped {
            // Some containers promise what they then refuse.
            None | Some(Err(DeviceError::Call { code: 800 | 801, .. })) => context.calls.alloc_plain(bytes),
            Some(mapped) => mapped,
        };
        Ok(DeviceMemory::of(gpu, allocation?, bytes))
    }

    pub(super) fn of(gpu: &Gpu, allocation: Allocation, bytes: usize) -> Self {
        DeviceMemory {
            gpu: gpu.clone(),
            allocation: Some(allocation),
            bytes,
        }
    }

    /// Its device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Its size, as it was asked for.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// The address on the device.
    pub fn address(&self) -> u64 {
        self.allocation.as_ref().map_or(0, Allocation::address)
    }

    fn allocation(&self) -> Result<&Allocation, DeviceError> {
        self.allocation.as_ref().ok_or(DeviceError::OutOfBounds {
            offset: 0,
            need_bytes: self.bytes,
            have_bytes: 0,
        })
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`].
    pub fn span(&self, offset: usize, bytes: usize) -> Result<Span<'_>, DeviceError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(DeviceError::OutOfBounds {
                offset,
                need_bytes: bytes,
                have_bytes: self.bytes,
            });
        }
        Ok(Span {
            memory: self,
            offset,
            bytes,
        })
    }

    /// A part of it, to be written.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`].
    pub fn span_mut(&mut self, offset: usize, bytes: usize) -> Result<SpanMut<'_>, DeviceError> {
        let span = self.span(offset, bytes)?;
        Ok(SpanMut { span })
    }

    /// The same, for who knows by a protocol that the part is its own.
    pub(super) fn span_owned(&self, offset: usize, bytes: usize) -> Result<SpanMut<'_>, DeviceError> {
        let span = self.span(offset, bytes)?;
        Ok(SpanMut { span })
    }

    /// A descriptor for another process of this host.
    pub(super) fn export_descriptor(&self) -> Result<OwnedFd, DeviceError> {
        self.gpu.bind()?;
        self.gpu.context.calls.export_descriptor(self.allocation()?)
    }

    /// A handle for another process of this host, of memory of the older kind.
    pub(super) fn export_plain(&self) -> Result<Exported, DeviceError> {
        self.gpu.bind()?;
        let handle = self.gpu.context.calls.export_plain(self.allocation()?)?;
        Ok(handle.into())
    }

    /// Memory of another process, by the descriptor that it was exported as; `whole_bytes` as it was made.
    pub(super) fn import_descriptor(
        gpu: &Gpu,
        descriptor: BorrowedFd<'_>,
        bytes: usize,
        whole_bytes: usize,
    ) -> Result<Self, DeviceError> {
        gpu.bind()?;
        let context = &gpu.context;
        let allocation = context
            .calls
            .map_descriptor(context.ordinal, descriptor, whole_bytes)?;
        Ok(DeviceMemory::of(gpu, allocation, bytes))
    }

    /// Memory of the older kind of another process.
    pub(super) fn import_plain(gpu: &Gpu, exported: Exported, bytes: usize) -> Result<Self, DeviceError> {
        gpu.bind()?;
        let allocation = gpu.context.calls.open_plain(exported.into(), bytes)?;
        Ok(DeviceMemory::of(gpu, allocation, bytes))
    }

    /// Whether it is of the kind that travels as a descriptor.
    pub(super) fn is_mapped(&self) -> bool {
        self.allocation.as_ref().is_some_and(Allocation::is_mapped)
    }

    /// Its size, as it was made.
    pub(super) fn whole_bytes(&self) -> usize {
        self.allocation.as_ref().map_or(0, Allocation::bytes)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // Where the context cannot be had any more, neither can its memory.
        if let Some(allocation) = self.allocation.take()
            && self.gpu.bind().is_ok()
        {
            self.gpu.context.retired.retire(Resource::Device(allocation));
        }
    }
}

/// A part of a device's memory.
#[derive(Clone, Copy, Debug)]
pub struct Span<'m> {
    memory: &'m DeviceMemory,
    offset: usize,
    bytes: usize,
}

impl<'m> Span<'m> {
    /// A part of it.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`].
    pub fn part(self, offset: usize, bytes: usize) -> Result<Span<'m>, DeviceError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(DeviceError::OutOfBounds {
                offset,
                need_bytes: bytes,
                have_bytes: self.bytes,
            });
        }
        self.memory.span(self.offset + offset, bytes)
    }

    /// The address on the device.
    pub fn address(&self) -> u64 {
        self.memory.address() + self.offset as u64
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.memory.gpu.context
    }

    pub(super) fn place(&self) -> Result<(&Allocation, usize), DeviceError> {
        Ok((self.memory.allocation()?, self.offset))
    }

    pub(super) fn check_len(&self, bytes: usize) -> Result<(), DeviceError> {
        if self.bytes == bytes {
            return Ok(());
        }
        Err(DeviceError::OutOfBounds {
            offset: self.offset,
            need_bytes: bytes,
            have_bytes: self.bytes,
        })
    }
}

/// A part of a device's memory that may be written.
#[derive(Debug)]
pub struct SpanMut<'m> {
    pub(super) span: Span<'m>,
}

impl SpanMut<'_> {
    /// The address on the device.
    pub fn address(&self) -> u64 {
        self.span.address()
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.span.len_bytes()
    }
}

/// Bytes on their way to the host. Dropping it waits for nothing.
#[derive(Debug)]
#[must_use = "`wait` has the bytes"]
pub struct Download<'s> {
    stream: &'s Stream,
    arrived: Event,
    /// `None` only while it is dropped.
    staged: Option<Pinned>,
}

impl<'s> Download<'s> {
    /// Of a copy that was just enqueued on `stream`.
    pub(super) fn of(stream: &'s Stream, staged: Pinned) -> Result<Self, DeviceError> {
        match stream.mark() {
            Ok(arrived) => Ok(Download {
                stream,
                arrived,
                staged: Some(staged),
            }),
            Err(error) => {
                stream.gpu().context.retired.retire(Resource::Host(staged));
                Err(error)
            }
        }
    }

    /// Waits for the bytes, and has them read by `read`.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`], [`DeviceError::Call`].
    pub fn wait<R>(self, timeout: Duration, read: impl FnOnce(&[u8]) -> R) -> Result<R, DeviceError> {
        if !self.arrived.is_done()? {
            self.stream.wait(timeout)?;
        }
        self.read(read)
    }

    /// Has the bytes, which have come, read.
    pub(super) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<R, DeviceError> {
        let arrived = self.arrived.is_done()?;
        let staged = self.staged.as_ref().filter(|_| arrived);
        let staged = staged.ok_or(DeviceError::Timeout {
            waited: Duration::ZERO,
        })?;
        // SAFETY: the copy was enqueued before `arrived`, which has come, and there is no other.
        Ok(read(unsafe { staged.bytes() }))
    }
}

impl Drop for Download<'_> {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take()
            && self.stream.gpu().bind().is_ok()
        {
            self.stream.gpu().context.retired.retire(Resource::Host(staged));
        }
    }
}
