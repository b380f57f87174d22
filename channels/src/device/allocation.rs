//! Memory as the driver gives it, and copies between places in it.
//!
//! What other processes are to map is made of the driver's virtual memory functions: physical memory, an address range, and
//! the one mapped into the other. It travels as a file descriptor, and lives until its last user has let go, whoever made it.
//! Giving it back does not wait for the device (`cuMemFree` may). Where a system cannot export descriptors there is the older
//! kind, whose owner must not go first.
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
enum Kind {
    /// Mapped from an allocation of the driver's, which is let go with it.
    Mapped { allocation: u64 },
    /// Of `cuMemAlloc`.
    Plain,
    /// Of another process's `cuMemAlloc`.
    Opened,
    /// Another library's, which has it back when this is dropped.
    #[cfg(feature = "dlpack")]
    Foreign { _keeper: Box<dyn Keeper> },
}

/// What keeps another library's memory.
#[cfg(feature = "dlpack")]
pub(super) trait Keeper: std::fmt::Debug + Send + Sync {}

/// Memory of a device. Consumed by [`Calls::free`], else it stays until the process ends.
#[derive(Debug)]
pub(super) struct Allocation {
    address: u64,
    bytes: usize,
    kind: Kind,
}

impl Allocation {
    /// Another library's memory.
    ///
    /// # Safety
    /// So many bytes at this address of the context's device, which nobody writes while `keeper` lives.
    #[cfg(feature = "dlpack")]
    pub(super) unsafe fn foreign(address: u64, bytes: usize, keeper: Box<dyn Keeper>) -> Self {
        let kind = Kind::Foreign { _keeper: keeper };
        Allocation { address, bytes, kind }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.kind, Kind::Mapped { .. })
    }

    /// The address of a part of it.
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

/// Memory of the host that the device reads and writes while the host goes on. Consumed by [`Calls::free_pinned`].
#[derive(Debug)]
pub(super) struct Pinned {
    base: NonNull<u8>,
    /// Bytes in use, and bytes there are, all of them initialised.
    bytes: usize,
    capacity: usize,
}

// SAFETY: it owns its bytes, which move with it.
unsafe impl Send for Pinned {}
// SAFETY: shared, it only tells its length and is read, by those who know that the device is done with it.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Bytes there are.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The same memory, to be used for so many bytes, or as many as there are.
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

    /// Its bytes.
    ///
    /// # Safety
    /// No copy into it is under way.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes of an allocation that lives as long as `self`, zeroed when made; nobody writes them, by the
        // caller's promise.
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
    /// Memory that can be exported as a descriptor; `bytes` are rounded up to what the device maps at a time.
    pub(super) fn map_new(&self, device: Ordinal, bytes: usize) -> Result<Allocation, DeviceError> {
        let properties = properties(device);
        let mut granularity = 0;
        // SAFETY: writes one number where there is room for one, and reads the properties.
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
        // SAFETY: writes one number where there is room for one, and reads the properties; the flags must be 0.
        let code = unsafe {
            (self.functions.allocation_create)(&raw mut allocation, whole, &raw const properties, 0)
        };
        self.check("cuMemCreate", code)?;
        self.map(device, allocation, whole)
    }

    /// Memory of another process, by the descriptor that it was exported as.
    pub(super) fn map_descriptor(
        &self,
        device: Ordinal,
        descriptor: BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<Allocation, DeviceError> {
        let mut allocation = 0;
        let descriptor = std::ptr::without_provenance_mut(descriptor.as_raw_fd() as usize);
        // SAFETY: writes one number where there is room for one; the descriptor is passed as a pointer's value, and what it
        // is worth, the driver looks.
        let code =
            unsafe { (self.functions.allocation_import)(&raw mut allocation, descriptor, POSIX_DESCRIPTOR) };
        self.check("cuMemImportFromShareableHandle", code)?;
        self.map(device, allocation, bytes)
    }

    /// Maps a whole allocation, which is let go where that fails.
    fn map(&self, device: Ordinal, allocation: u64, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number where there is room for one; no wish for the address or its alignment.
        let code = unsafe { (self.functions.address_reserve)(&raw mut address, bytes, 0, 0, 0) };
        if let Err(error) = self.check("cuMemAddressReserve", code) {
            self.let_go(allocation);
            return Err(error);
        }
        // SAFETY: a range that was just reserved, and an allocation that nobody else knows.
        let code = unsafe { (self.functions.map)(address, bytes, 0, allocation, 0) };
        if let Err(error) = self.check("cuMemMap", code) {
            self.let_go(allocation);
            self.give_back(address, bytes);
            return Err(error);
        }
        let mapped = Allocation {
            address,
            bytes,
            kind: Kind::Mapped { allocation },
        };
        let access = AccessDescription {
            location: on(device),
            flags: READ_WRITE,
        };
        // SAFETY: the range was just mapped; one description is read.
        let code = unsafe { (self.functions.access)(address, bytes, &raw const access, 1) };
        if let Err(error) = self.check("cuMemSetAccess", code) {
            self.free(mapped);
            return Err(error);
        }
        Ok(mapped)
    }

    fn let_go(&self, allocation: u64) {
        // SAFETY: an allocation of ours that is let go once. What the driver says changes nothing.
        unsafe { (self.functions.allocation_release)(allocation) };
    }

    fn give_back(&self, address: u64, bytes: usize) {
        // SAFETY: a range of ours with nothing mapped. What the driver says changes nothing.
        unsafe { (self.functions.address_free)(address, bytes) };
    }

    /// Memory of the older kind.
    pub(super) fn alloc_plain(&self, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number where there is room for one.
        let code = unsafe { (self.functions.memory_alloc)(&raw mut address, bytes.max(1)) };
        self.check("cuMemAlloc_v2", code)?;
        Ok(Allocation {
            address,
            bytes: bytes.max(1),
            kind: Kind::Plain,
        })
    }

    /// A descriptor of memory, for another process of this host.
    pub(super) fn export_descriptor(&self, memory: &Allocation) -> Result<OwnedFd, DeviceError> {
        let Kind::Mapped { allocation } = memory.kind else {
            return Err(DeviceError::NotShareable {
                why: "it is of the kind that travels as a handle",
            });
        };
        let mut descriptor: c_int = -1;
        let to = (&raw mut descriptor).cast::<c_void>();
        // SAFETY: writes a descriptor where there is room for one; the allocation lives as long as `memory`.
        let code = unsafe { (self.functions.allocation_export)(to, allocation, POSIX_DESCRIPTOR, 0) };
        self.check("cuMemExportToShareableHandle", code)?;
        if descriptor < 0 {
            return Err(DeviceError::NotShareable {
                why: "the driver gave no descriptor",
            });
        }
        // SAFETY: a new descriptor that the driver has left to us.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// A handle of memory of the older kind, for another process of this host.
    pub(super) fn export_plain(&self, memory: &Allocation) -> Result<IpcHandle, DeviceError> {
        let mut handle = IpcHandle([0; 64]);
        // SAFETY: writes 64 bytes where there is room for them; the memory lives as long as `memory`.
        let code = unsafe { (self.functions.memory_export)(&raw mut handle, memory.address) };
        self.check("cuIpcGetMemHandle", code).map(|()| handle)
    }

    /// Memory of the older kind of another process, `bytes` of it.
    pub(super) fn open_plain(&self, handle: IpcHandle, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number where there is room for one; what the 64 bytes are worth, the driver looks.
        let code = unsafe { (self.functions.memory_import)(&raw mut address, handle, LAZY_PEER_ACCESS) };
        self.check("cuIpcOpenMemHandle_v2", code)?;
        Ok(Allocation {
            address,
            bytes,
            kind: Kind::Opened,
        })
    }

    /// Gives memory back. What the driver says changes nothing: there is nobody to tell, and nothing else to do.
    pub(super) fn free(&self, memory: Allocation) {
        let Allocation { address, bytes, kind } = memory;
        match kind {
            Kind::Mapped { allocation } => {
                // SAFETY: mapped by `map` as a whole, and by `DEV-2` in use no more.
                unsafe { (self.functions.unmap)(address, bytes) };
                self.let_go(allocation);
                self.give_back(address, bytes);
            }
            Kind::Plain => {
                // SAFETY: of `alloc_plain`, and by `DEV-2` in use no more.
                unsafe { (self.functions.memory_free)(address) };
            }
            Kind::Opened => {
                // SAFETY: of `open_plain`, and by `DEV-2` in use no more here.
                unsafe { (self.functions.memory_close)(address) };
            }
            #[cfg(feature = "dlpack")]
            Kind::Foreign { .. } => {}
        }
    }

    /// Zeroed memory of the host that the device can reach.
    pub(super) fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        let mut base = std::ptr::null_mut();
        // SAFETY: writes an address where there is room for one.
        let code = unsafe { (self.functions.host_alloc)(&raw mut base, bytes.max(1), PORTABLE) };
        self.check("cuMemHostAlloc", code)?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(DeviceError::Call {
            call: "cuMemHostAlloc",
            code: 2,
            name: String::new(),
        })?;
        // SAFETY: so many bytes that nobody else knows.
        unsafe { base.write_bytes(0, bytes) };
        let capacity = bytes;
        Ok(Pinned {
            base,
            bytes,
            capacity,
        })
    }

    /// Gives memory of the host back.
    pub(super) fn free_pinned(&self, memory: Pinned) {
        // SAFETY: of `pin`, and by `DEV-2` in use no more.
        unsafe { (self.functions.host_free)(memory.base.as_ptr().cast()) };
    }

    /// Enqueues a copy of `bytes` to the device, by way of `staged`, in which no copy is under way and which is to be retired
    /// whatever becomes of it.
    pub(super) fn upload(
        &self,
        to: (&Allocation, usize),
        bytes: &[u8],
        staged: &Pinned,
        stream: &StreamHandle,
    ) -> Result<(), DeviceError> {
        let address = to.0.at(to.1, bytes.len())?;
        staged.check(bytes.len())?;
        // SAFETY: as many bytes at both, which do not overlap: one is the driver's, and nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), staged.base.as_ptr(), bytes.len()) };
        if bytes.is_empty() {
            return Ok(());
        }
        let from = staged.base.as_ptr().cast();
        // SAFETY: both places have so many bytes and stay until the copy is done (DEV-2).
        let code = unsafe { (self.functions.copy_up)(address, from, bytes.len(), stream.raw()) };
        self.check("cuMemcpyHtoDAsync_v2", code)
    }

    /// Enqueues a copy from the device to `staged`, in which no copy is under way, which is not to be looked at before the
    /// stream has come there, and which is to be retired whatever becomes of it.
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
        // SAFETY: both places have so many bytes and stay until the copy is done (DEV-2).
        let code = unsafe { (self.functions.copy_down)(to, address, staged.bytes, stream.raw()) };
        self.check("cuMemcpyDtoHAsync_v2", code)
    }

    /// Enqueues a copy from place to place on the device.
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
        // SAFETY: both places have so many bytes and stay until the copy is done (DEV-2).
        let code = unsafe { (self.functions.copy_over)(to, from, bytes, stream.raw()) };
        self.check("cuMemcpyDtoDAsync_v2", code)
    }

    /// Enqueues a copy from place to place, each on the device of its context.
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
        // SAFETY: both places have so many bytes and stay until the copy is done (DEV-2); both contexts live (DEV-1).
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

    /// Enqueues that every byte of a place becomes `byte`.
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
        // SAFETY: the place has so many bytes and stays until they are written (DEV-2).
        let code = unsafe { (self.functions.fill)(to, byte, bytes, stream.raw()) };
        self.check("cuMemsetD8Async", code)
    }
}
