//! Allocations of device memory and pinned host memory, and copies between them.
//!
//! Memory that other processes map is created with the driver's virtual memory functions: a physical allocation, an
//! address range, and a mapping of the allocation into the range. It is exported as a file descriptor. It lives until
//! its last user releases it, whichever process created it. Releasing it does not wait for the device, which
//! `cuMemFree` may do.
//!
//! A system that cannot export descriptors has legacy memory instead (`cuMemAlloc`). Its creator must not release it
//! before the other processes have closed it.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use super::abi::{
    AccessDescription, AllocationProperties, IpcHandle, LAZY_PEER_ACCESS, Location, MINIMUM, ON_DEVICE,
    PINNED, POSIX_DESCRIPTOR, READ_WRITE,
};
use super::calls::Calls;
use super::error::DeviceError;
use super::handles::{ContextHandle, Ordinal, StreamHandle};

/// `CU_MEMHOSTALLOC_PORTABLE`.
const PORTABLE: u32 = 1;

#[derive(Debug)]
enum AllocationKind {
    /// A mapping of a virtual memory allocation. The allocation is released together with the mapping.
    Mapped { allocation: u64 },
    /// Legacy memory of this process (`cuMemAlloc`).
    Plain,
    /// Legacy memory of another process (`cuMemAlloc` there), opened here.
    Opened,
    /// Memory of another library, which is returned to that library when this value is dropped.
    #[cfg(feature = "dlpack")]
    Foreign { _keeper: Box<dyn Keeper> },
}

/// An owner that keeps another library's memory alive.
#[cfg(feature = "dlpack")]
pub(super) trait Keeper: std::fmt::Debug + Send + Sync {}

/// Device memory. [`Calls::free`] consumes it; without that call the memory stays until the process ends.
#[derive(Debug)]
pub(super) struct Allocation {
    address: u64,
    bytes: usize,
    kind: AllocationKind,
}

impl Allocation {
    /// Wraps another library's memory.
    ///
    /// # Safety
    /// There are `bytes` bytes at `address` on the context's device, and nothing writes them while `keeper` lives.
    #[cfg(feature = "dlpack")]
    pub(super) unsafe fn foreign(address: u64, bytes: usize, keeper: Box<dyn Keeper>) -> Self {
        let kind = AllocationKind::Foreign { _keeper: keeper };
        Allocation { address, bytes, kind }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.kind, AllocationKind::Mapped { .. })
    }

    /// The address of a part of the allocation, checked against its bounds.
    fn at(&self, offset: usize, bytes: usize) -> Result<u64, DeviceError> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(self.address + offset as u64);
        }
        Err(DeviceError::OutOfBounds {
            offset,
            need_bytes: bytes,
            have_bytes: self.bytes,
        })
    }
}

/// Host memory that the device reads and writes concurrently with the host. Consumed by [`Calls::free_pinned`].
#[derive(Debug)]
pub(super) struct Pinned {
    base: NonNull<u8>,
    /// The bytes in use, and the bytes of the whole allocation. All of them are initialised.
    bytes: usize,
    capacity: usize,
}

// SAFETY: the value owns its bytes, which move with it.
unsafe impl Send for Pinned {}
// SAFETY: through a shared reference the length is read, and the bytes by callers of `bytes`, which requires that no
// copy into them is in flight. `upload` writes the bytes, and its caller uses them alone.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The size of the whole allocation in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the number of bytes in use, at most the capacity.
    pub(super) fn of(mut self, bytes: usize) -> Self {
        self.bytes = bytes.min(self.capacity);
        self
    }

    fn check(&self, bytes: usize) -> Result<(), DeviceError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(DeviceError::OutOfBounds {
            offset: 0,
            need_bytes: bytes,
            have_bytes: self.bytes,
        })
    }

    /// The bytes in use.
    ///
    /// # Safety
    /// No copy into the memory is in flight.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: `self.bytes` bytes of an allocation that lives as long as `self` and was zeroed when it was made.
        // Nothing writes them meanwhile: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

fn on(device: Ordinal) -> Location {
    Location {
        kind: ON_DEVICE,
        id: device.number(),
    }
}

fn properties(device: Ordinal) -> AllocationProperties {
    AllocationProperties {
        kind: PINNED,
        handle_types: POSIX_DESCRIPTOR,
        location: on(device),
        windows: 0,
        flags: [0; 8],
    }
}

impl Calls {
    /// Allocates memory that can be exported as a descriptor. `bytes` is rounded up to the mapping granularity of the
    /// device.
    pub(super) fn map_new(&self, device: Ordinal, bytes: usize) -> Result<Allocation, DeviceError> {
        let properties = properties(device);
        let mut granularity = 0;
        // SAFETY: writes one number to a place for one number, and reads the properties.
        let code =
            unsafe { (self.functions.granularity)(&raw mut granularity, &raw const properties, MINIMUM) };
        self.check("cuMemGetAllocationGranularity", code)?;
        let too_large = DeviceError::OutOfBounds {
            offset: 0,
            need_bytes: bytes,
            have_bytes: isize::MAX as usize,
        };
        let whole = bytes.max(1).checked_next_multiple_of(granularity.max(1));
        let whole = whole.ok_or(too_large)?;
        let mut allocation = 0;
        // SAFETY: writes one number to a place for one number, and reads the properties; the flags must be 0, and are.
        let code = unsafe {
            (self.functions.allocation_create)(&raw mut allocation, whole, &raw const properties, 0)
        };
        self.check("cuMemCreate", code)?;
        self.map(device, allocation, whole)
    }

    /// Maps memory of another process from the descriptor that the process exported.
    pub(super) fn map_descriptor(
        &self,
        device: Ordinal,
        descriptor: BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<Allocation, DeviceError> {
        let mut allocation = 0;
        let descriptor = std::ptr::without_provenance_mut(descriptor.as_raw_fd() as usize);
        // SAFETY: writes one number to a place for one number. The descriptor is passed as the value of a pointer, and
        // the driver validates it.
        let code =
            unsafe { (self.functions.allocation_import)(&raw mut allocation, descriptor, POSIX_DESCRIPTOR) };
        self.check("cuMemImportFromShareableHandle", code)?;
        self.map(device, allocation, bytes)
    }

    /// Maps a whole allocation, and releases the allocation if that fails.
    fn map(&self, device: Ordinal, allocation: u64, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number to a place for one number; the zeros ask for no particular address or alignment.
        let code = unsafe { (self.functions.address_reserve)(&raw mut address, bytes, 0, 0, 0) };
        if let Err(error) = self.check("cuMemAddressReserve", code) {
            self.let_go(allocation);
            return Err(error);
        }
        // SAFETY: the range was just reserved, and only this function knows the allocation.
        let code = unsafe { (self.functions.map)(address, bytes, 0, allocation, 0) };
        if let Err(error) = self.check("cuMemMap", code) {
            self.let_go(allocation);
            self.give_back(address, bytes);
            return Err(error);
        }
        let mapped = Allocation {
            address,
            bytes,
            kind: AllocationKind::Mapped { allocation },
        };
        let access = AccessDescription {
            location: on(device),
            flags: READ_WRITE,
        };
        // SAFETY: the range was just mapped; the driver reads one description.
        let code = unsafe { (self.functions.access)(address, bytes, &raw const access, 1) };
        if let Err(error) = self.check("cuMemSetAccess", code) {
            self.free(mapped);
            return Err(error);
        }
        Ok(mapped)
    }

    fn let_go(&self, allocation: u64) {
        // SAFETY: an allocation of this process, released once. The result is ignored: nothing else can be done.
        unsafe { (self.functions.allocation_release)(allocation) };
    }

    fn give_back(&self, address: u64, bytes: usize) {
        // SAFETY: an address range of this process without a mapping. The result is ignored: nothing else can be done.
        unsafe { (self.functions.address_free)(address, bytes) };
    }

    /// Allocates legacy memory.
    pub(super) fn alloc_plain(&self, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number to a place for one number.
        let code = unsafe { (self.functions.memory_alloc)(&raw mut address, bytes.max(1)) };
        self.check("cuMemAlloc_v2", code)?;
        Ok(Allocation {
            address,
            bytes: bytes.max(1),
            kind: AllocationKind::Plain,
        })
    }

    /// Exports memory as a descriptor, for another process of this host.
    pub(super) fn export_descriptor(&self, memory: &Allocation) -> Result<OwnedFd, DeviceError> {
        let AllocationKind::Mapped { allocation } = memory.kind else {
            return Err(DeviceError::NotShareable {
                why: "it is of the kind that travels as a handle",
            });
        };
        let mut descriptor: c_int = -1;
        let to = (&raw mut descriptor).cast::<c_void>();
        // SAFETY: writes a descriptor to a place for one descriptor; the allocation lives as long as `memory`.
        let code = unsafe { (self.functions.allocation_export)(to, allocation, POSIX_DESCRIPTOR, 0) };
        self.check("cuMemExportToShareableHandle", code)?;
        if descriptor < 0 {
            return Err(DeviceError::NotShareable {
                why: "the driver gave no descriptor",
            });
        }
        // SAFETY: a new descriptor, whose ownership the driver has passed to the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Exports legacy memory as a handle, for another process of this host.
    pub(super) fn export_plain(&self, memory: &Allocation) -> Result<IpcHandle, DeviceError> {
        let mut handle = IpcHandle([0; 64]);
        // SAFETY: writes 64 bytes to a place for 64 bytes; the memory lives as long as `memory`.
        let code = unsafe { (self.functions.memory_export)(&raw mut handle, memory.address) };
        self.check("cuIpcGetMemHandle", code).map(|()| handle)
    }

    /// Opens legacy memory of another process, with a length of `bytes`.
    pub(super) fn open_plain(&self, handle: IpcHandle, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number to a place for one number; the driver validates the 64 bytes of the handle.
        let code = unsafe { (self.functions.memory_import)(&raw mut address, handle, LAZY_PEER_ACCESS) };
        self.check("cuIpcOpenMemHandle_v2", code)?;
        Ok(Allocation {
            address,
            bytes,
            kind: AllocationKind::Opened,
        })
    }

    /// Releases device memory. Results of the driver are ignored: there is no caller to report to, and nothing else can
    /// be done.
    pub(super) fn free(&self, memory: Allocation) {
        let Allocation { address, bytes, kind } = memory;
        match kind {
            AllocationKind::Mapped { allocation } => {
                // SAFETY: `map` has mapped this whole range, and by `DEV-2` nothing uses it any more.
                unsafe { (self.functions.unmap)(address, bytes) };
                self.let_go(allocation);
                self.give_back(address, bytes);
            }
            AllocationKind::Plain => {
                // SAFETY: from `alloc_plain`, and by `DEV-2` nothing uses it any more.
                unsafe { (self.functions.memory_free)(address) };
            }
            AllocationKind::Opened => {
                // SAFETY: from `open_plain`, and by `DEV-2` nothing in this process uses it any more.
                unsafe { (self.functions.memory_close)(address) };
            }
            #[cfg(feature = "dlpack")]
            AllocationKind::Foreign { .. } => {}
        }
    }

    /// Allocates zeroed host memory that the device can access.
    pub(super) fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        let mut base = std::ptr::null_mut();
        // SAFETY: writes an address to a place for one address.
        let code = unsafe { (self.functions.host_alloc)(&raw mut base, bytes.max(1), PORTABLE) };
        self.check("cuMemHostAlloc", code)?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(DeviceError::Call {
            call: "cuMemHostAlloc",
            code: 2,
            name: String::new(),
        })?;
        // SAFETY: `bytes` bytes of a new allocation that nothing else refers to.
        unsafe { base.write_bytes(0, bytes) };
        let capacity = bytes;
        Ok(Pinned {
            base,
            bytes,
            capacity,
        })
    }

    /// Frees pinned host memory.
    pub(super) fn free_pinned(&self, memory: Pinned) {
        // SAFETY: from `pin`, and by `DEV-2` nothing uses it any more.
        unsafe { (self.functions.host_free)(memory.base.as_ptr().cast()) };
    }

    /// Enqueues a copy of `bytes` to the device through `staged`. No copy may be in flight in `staged`, and the caller
    /// must retire it in every case.
    pub(super) fn upload(
        &self,
        to: (&Allocation, usize),
        bytes: &[u8],
        staged: &Pinned,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let address = to.0.at(to.1, bytes.len())?;
        staged.check(bytes.len())?;
        // SAFETY: both ranges have that many bytes. They do not overlap: `staged` is memory of the driver, and only
        // this call uses it now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), staged.base.as_ptr(), bytes.len()) };
        if bytes.is_empty() {
            return Ok(());
        }
        let from = staged.base.as_ptr().cast();
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2).
        let code = unsafe { (self.functions.copy_up)(address, from, bytes.len(), stream.raw()) };
        self.check("cuMemcpyHtoDAsync_v2", code)
    }

    /// Enqueues a copy from the device to `staged`. No copy may be in flight in `staged`. The caller must not read it
    /// before the stream has reached the end of the copy, and must retire it in every case.
    pub(super) fn download(
        &self,
        from: (&Allocation, usize),
        staged: &Pinned,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let address = from.0.at(from.1, staged.bytes)?;
        if staged.bytes == 0 {
            return Ok(());
        }
        let to = staged.base.as_ptr().cast();
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2).
        let code = unsafe { (self.functions.copy_down)(to, address, staged.bytes, stream.raw()) };
        self.check("cuMemcpyDtoHAsync_v2", code)
    }

    /// Enqueues a copy within the device.
    pub(super) fn copy(
        &self,
        to: (&Allocation, usize),
        from: (&Allocation, usize),
        bytes: usize,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let (to, from) = (to.0.at(to.1, bytes)?, from.0.at(from.1, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2).
        let code = unsafe { (self.functions.copy_over)(to, from, bytes, stream.raw()) };
        self.check("cuMemcpyDtoDAsync_v2", code)
    }

    /// Enqueues a device-to-device copy. Each range is on the device of its context.
    pub(super) fn copy_across(
        &self,
        to: (&Allocation, usize, &ContextHandle),
        from: (&Allocation, usize, &ContextHandle),
        bytes: usize,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let (to_address, from_address) = (to.0.at(to.1, bytes)?, from.0.at(from.1, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        let (to_context, from_context) = (to.2.raw(), from.2.raw());
        // SAFETY: both ranges have that many bytes and stay until the copy is done (DEV-2); both contexts live (DEV-1).
        let code = unsafe {
            (self.functions.copy_across)(
                to_address,
                to_context,
                from_address,
                from_context,
                bytes,
                stream.raw(),
            )
        };
        self.check("cuMemcpyPeerAsync", code)
    }

    /// Enqueues an operation that sets every byte of a range to `byte`.
    pub(super) fn fill(
        &self,
        to: (&Allocation, usize),
        bytes: usize,
        byte: u8,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let to = to.0.at(to.1, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range has that many bytes and stays until they are written (DEV-2).
        let code = unsafe { (self.functions.fill)(to, byte, bytes, stream.raw()) };
        self.check("cuMemsetD8Async", code)
    }
}
