//! Allocations of device memory.
//!
//! Memory that other processes map is created with the driver's virtual memory functions: a physical allocation, an
//! address range, and a mapping of the allocation into the range. It is exported as a file descriptor. It lives until
//! its last user releases it, whichever process created it. Releasing it does not wait for the device, which
//! `cuMemFree` may do.
//!
//! A system that cannot export descriptors has legacy memory instead (`cuMemAlloc`). Its creator must not release it
//! before the other processes have closed it.
#![allow(unsafe_code)] // calls the driver

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use cudarc::driver::sys::{
    CUdevice, CUipcMem_flags, CUipcMemHandle, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType, CUmemLocation, CUmemLocationType,
};

use super::calls::Calls;
use super::error::DeviceError;
use super::handles::IpcHandle;

/// The form in which allocations are exported to other processes.
const DESCRIPTOR: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

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
    pub(super) fn at(&self, offset: usize, bytes: usize) -> Result<u64, DeviceError> {
        DeviceError::check_range(offset, bytes, self.bytes)?;
        Ok(self.address + offset as u64)
    }
}

fn on(device: CUdevice) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

fn properties(device: CUdevice) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: DESCRIPTOR,
        location: on(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

impl Calls {
    /// Allocates memory that can be exported as a descriptor. `bytes` is rounded up to the mapping granularity of the
    /// device.
    pub(super) fn map_new(&self, device: CUdevice, bytes: usize) -> Result<Allocation, DeviceError> {
        let properties = properties(device);
        let minimum = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let (mut granularity, mut allocation) = (0, 0);
        // SAFETY: writes one number to a place for one number, and reads the properties.
        unsafe { self.cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, minimum) }?;
        let whole = bytes.max(1).checked_next_multiple_of(granularity.max(1));
        let whole = whole.ok_or(DeviceError::OutOfBounds {
            offset: 0,
            need_bytes: bytes,
            have_bytes: isize::MAX as usize,
        })?;
        // SAFETY: writes one number to a place for one number, and reads the properties; the flags must be 0, and are.
        unsafe { self.cuMemCreate(&raw mut allocation, whole, &raw const properties, 0) }?;
        self.map(device, allocation, whole)
    }

    /// Maps memory of another process from the descriptor that the process exported.
    pub(super) fn map_descriptor(
        &self,
        device: CUdevice,
        descriptor: BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<Allocation, DeviceError> {
        let mut allocation = 0;
        let descriptor = std::ptr::without_provenance_mut(descriptor.as_raw_fd() as usize);
        // SAFETY: writes one number to a place for one number. The descriptor is passed as the value of a pointer, and
        // the driver validates it.
        unsafe { self.cuMemImportFromShareableHandle(&raw mut allocation, descriptor, DESCRIPTOR) }?;
        self.map(device, allocation, bytes)
    }

    /// Maps a whole allocation, and releases the allocation if that fails.
    fn map(&self, device: CUdevice, allocation: u64, bytes: usize) -> Result<Allocation, DeviceError> {
        let mut address = 0;
        // SAFETY: writes one number to a place for one number; the zeros ask for no particular address or alignment.
        if let Err(failed) = unsafe { self.cuMemAddressReserve(&raw mut address, bytes, 0, 0, 0) } {
            self.release_allocation(allocation);
            return Err(failed.into());
        }
        // SAFETY: the range was just reserved, and only this function knows the allocation.
        if let Err(failed) = unsafe { self.cuMemMap(address, bytes, 0, allocation, 0) } {
            self.release_allocation(allocation);
            self.release_address(address, bytes);
            return Err(failed.into());
        }
        let mapped = Allocation {
            address,
            bytes,
            kind: AllocationKind::Mapped { allocation },
        };
        let access = CUmemAccessDesc {
            location: on(device),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range was just mapped; the driver reads one description.
        if let Err(failed) = unsafe { self.cuMemSetAccess(address, bytes, &raw const access, 1) } {
            self.free(mapped);
            return Err(failed.into());
        }
        Ok(mapped)
    }

    fn release_allocation(&self, allocation: u64) {
        // SAFETY: an allocation of this process, released once. A failure is ignored: nothing else can be done.
        let _ = unsafe { self.cuMemRelease(allocation) };
    }

    fn release_address(&self, address: u64, bytes: usize) {
        // SAFETY: an address range of this process without a mapping. A failure is ignored: nothing else can be done.
        let _ = unsafe { self.cuMemAddressFree(address, bytes) };
    }

    /// Allocates legacy memory.
    pub(super) fn alloc_plain(&self, bytes: usize) -> Result<Allocation, DeviceError> {
        let (mut address, bytes) = (0, bytes.max(1));
        // SAFETY: writes one number to a place for one number.
        unsafe { self.cuMemAlloc_v2(&raw mut address, bytes) }?;
        let kind = AllocationKind::Plain;
        Ok(Allocation { address, bytes, kind })
    }

    /// Exports memory as a descriptor, for another process of this host.
    pub(super) fn export_descriptor(&self, memory: &Allocation) -> Result<OwnedFd, DeviceError> {
        let AllocationKind::Mapped { allocation } = memory.kind else {
            return Err(DeviceError::NotShareable {
                why: "it is of the kind that travels as a handle",
            });
        };
        let mut descriptor: c_int = -1;
        let to = (&raw mut descriptor).cast();
        // SAFETY: writes a descriptor to a place for one descriptor; the allocation lives as long as `memory`.
        unsafe { self.cuMemExportToShareableHandle(to, allocation, DESCRIPTOR, 0) }?;
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
        let mut handle = CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: writes 64 bytes to a place for 64 bytes; the memory lives as long as `memory`.
        unsafe { self.cuIpcGetMemHandle(&raw mut handle, memory.address) }?;
        Ok(handle.reserved.into())
    }

    /// Opens legacy memory of another process, with a length of `bytes`, which is that process's word: memory that is shorter is
    /// refused.
    pub(super) fn open_plain(&self, exported: IpcHandle, bytes: usize) -> Result<Allocation, DeviceError> {
        let (mut address, reserved) = (0, exported.into());
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: writes one number to a place for one number; the driver validates the 64 bytes of the handle.
        unsafe { self.cuIpcOpenMemHandle_v2(&raw mut address, CUipcMemHandle { reserved }, flags) }?;
        let kind = AllocationKind::Opened;
        let opened = Allocation { address, bytes, kind };
        let has = self.bytes_from(address);
        match has.and_then(|has| DeviceError::check_range(0, bytes, has)) {
            Ok(()) => Ok(opened),
            Err(error) => {
                self.free(opened);
                Err(error)
            }
        }
    }

    /// The number of bytes of device memory from an address to the end of its allocation.
    fn bytes_from(&self, address: u64) -> Result<usize, DeviceError> {
        let (mut base, mut len) = (0, 0);
        // SAFETY: writes an address and a length to places for one each; the driver validates the address.
        unsafe { self.cuMemGetAddressRange_v2(&raw mut base, &raw mut len, address) }?;
        let before = usize::try_from(address.saturating_sub(base)).unwrap_or(usize::MAX);
        Ok(len.saturating_sub(before))
    }

    /// Releases device memory. Failures are ignored: there is no caller to report to, and nothing else can be done.
    pub(super) fn free(&self, memory: Allocation) {
        let Allocation { address, bytes, kind } = memory;
        match kind {
            AllocationKind::Mapped { allocation } => {
                // SAFETY: `map` has mapped this whole range, and by `DEV-2` nothing uses it any more.
                let _ = unsafe { self.cuMemUnmap(address, bytes) };
                self.release_allocation(allocation);
                self.release_address(address, bytes);
            }
            AllocationKind::Plain => {
                // SAFETY: from `alloc_plain`, and by `DEV-2` nothing uses it any more.
                let _ = unsafe { self.cuMemFree_v2(address) };
            }
            AllocationKind::Opened => {
                // SAFETY: from `open_plain`, and by `DEV-2` nothing in this process uses it any more.
                let _ = unsafe { self.cuIpcCloseMemHandle(address) };
            }
            #[cfg(feature = "dlpack")]
            AllocationKind::Foreign { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::device::gpu::Gpu;

    /// The simulated driver opens memory in the process that has made it; others refuse that in any case.
    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no driver")]
    fn opened_memory_that_is_shorter_than_a_peer_says_is_refused() {
        let Ok(gpu) = Gpu::open(0) else { return };
        gpu.bind().unwrap();
        let calls = gpu.context.calls;
        let memory = calls.alloc_plain(4096).unwrap();
        let exported = calls.export_plain(&memory).unwrap();
        assert!(calls.open_plain(exported, 1 << 30).is_err());
        if let Ok(opened) = calls.open_plain(exported, 4096) {
            assert_eq!(opened.bytes(), 4096);
            calls.free(opened);
        }
        calls.free(memory);
    }
}
