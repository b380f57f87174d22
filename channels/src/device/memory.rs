//! Device memory, and spans of it.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::allocation::Allocation;
use super::copy::Place;
use super::error::DeviceError;
use super::gpu::{Context, Gpu};
use super::handles::IpcHandle;
use super::reclaimer::Resource;

/// Device memory, allocated by this process or mapped from another one. New memory is not initialised.
///
/// Dropping it never waits. The memory is released when the device has done all work that was enqueued before the drop.
pub struct DeviceMemory {
    gpu: Gpu,
    /// `None` only during the drop.
    allocation: Option<Allocation>,
    bytes: usize,
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes on {:?}", self.bytes, self.gpu)
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

/// The longest wait of an allocation for memory that was dropped before.
const RECLAIM_TIMEOUT: Duration = Duration::from_secs(1);

impl Context {
    fn allocate(&self, bytes: usize) -> Result<Allocation, DeviceError> {
        let mapped = self
            .exports_descriptors
            .then(|| self.calls.map_new(self.ordinal, bytes));
        match mapped {
            // Some containers report this ability and then refuse the call.
            None | Some(Err(DeviceError::Call { code: 800 | 801, .. })) => self.calls.alloc_plain(bytes),
            Some(mapped) => mapped,
        }
    }
}

impl DeviceMemory {
    /// Allocates memory. If the device supports it, the memory can be shared as a descriptor, and the allocation is
    /// rounded up to pieces of about 2 MiB. Otherwise it is legacy memory (`cuMemAlloc`).
    ///
    /// If the device has no memory left while dropped memory waits for its release, the call blocks for at most a
    /// second until that memory is released, and tries once more.
    ///
    /// # Errors
    /// [`DeviceError::Call`] if the device has no memory left.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self, DeviceError> {
        let context = &gpu.context;
        context.bind()?;
        // Memory that was dropped before may be free by now.
        context.reclaimer.reclaim();
        let allocation = match context.allocate(bytes) {
            Err(DeviceError::Call {
                code: OUT_OF_MEMORY, ..
            }) if context.reclaimer.wait_for_memory(RECLAIM_TIMEOUT) => context.allocate(bytes),
            other => other,
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

    /// The device of the memory.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The size that was requested, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the memory on the device.
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

    /// A readable part of the memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`].
    pub fn span(&self, offset: usize, bytes: usize) -> Result<Span<'_>, DeviceError> {
        DeviceError::check_range(offset, bytes, self.bytes)?;
        Ok(Span {
            memory: self,
            offset,
            bytes,
        })
    }

    /// A writable part of the memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`].
    pub fn span_mut(&mut self, offset: usize, bytes: usize) -> Result<SpanMut<'_>, DeviceError> {
        let span = self.span(offset, bytes)?;
        Ok(SpanMut { span })
    }

    /// A writable part of the memory, without an exclusive borrow: the caller's protocol guarantees that nothing else
    /// uses the part.
    pub(super) fn span_owned(&self, offset: usize, bytes: usize) -> Result<SpanMut<'_>, DeviceError> {
        let span = self.span(offset, bytes)?;
        Ok(SpanMut { span })
    }

    /// Exports the memory as a descriptor for another process of this host.
    pub(super) fn export_descriptor(&self) -> Result<OwnedFd, DeviceError> {
        self.gpu.bind()?;
        self.gpu.context.calls.export_descriptor(self.allocation()?)
    }

    /// Exports legacy memory as a handle for another process of this host.
    pub(super) fn export_plain(&self) -> Result<IpcHandle, DeviceError> {
        self.gpu.bind()?;
        self.gpu.context.calls.export_plain(self.allocation()?)
    }

    /// Maps memory of another process from its exported descriptor. `whole_bytes` is the allocated size, `bytes` the
    /// requested one.
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

    /// Opens legacy memory of another process.
    pub(super) fn import_plain(gpu: &Gpu, exported: IpcHandle, bytes: usize) -> Result<Self, DeviceError> {
        gpu.bind()?;
        let allocation = gpu.context.calls.open_plain(exported, bytes)?;
        Ok(DeviceMemory::of(gpu, allocation, bytes))
    }

    /// Whether the memory can be exported as a descriptor.
    pub(super) fn is_mapped(&self) -> bool {
        self.allocation.as_ref().is_some_and(Allocation::is_mapped)
    }

    /// The allocated size in bytes, after rounding.
    pub(super) fn whole_bytes(&self) -> usize {
        self.allocation.as_ref().map_or(0, Allocation::bytes)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // If the context cannot be bound any more, its memory cannot be released either.
        if let Some(allocation) = self.allocation.take()
            && self.gpu.bind().is_ok()
        {
            self.gpu.context.reclaimer.retire(Resource::Device(allocation));
        }
    }
}

/// A readable part of device memory.
#[derive(Clone, Copy, Debug)]
pub struct Span<'m> {
    memory: &'m DeviceMemory,
    offset: usize,
    bytes: usize,
}

impl<'m> Span<'m> {
    /// A part of this span.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`].
    pub fn part(self, offset: usize, bytes: usize) -> Result<Span<'m>, DeviceError> {
        DeviceError::check_range(offset, bytes, self.bytes)?;
        self.memory.span(self.offset + offset, bytes)
    }

    /// The address of the span on the device.
    pub fn address(&self) -> u64 {
        self.memory.address() + self.offset as u64
    }

    /// The length of the span in bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.memory.gpu.context
    }

    pub(super) fn place(&self) -> Result<Place<'_>, DeviceError> {
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

/// A writable part of device memory.
#[derive(Debug)]
pub struct SpanMut<'m> {
    pub(super) span: Span<'m>,
}

impl SpanMut<'_> {
    /// The address of the span on the device.
    pub fn address(&self) -> u64 {
        self.span.address()
    }

    /// The length of the span in bytes.
    pub fn len_bytes(&self) -> usize {
        self.span.len_bytes()
    }
}
