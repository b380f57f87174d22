//! Host memory that the device accesses concurrently with the host: pinned memory, and segments that are registered with
//! the driver.
#![allow(unsafe_code)] // calls the driver, lets the device write to host memory, and reads bytes that it has written

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE,
};

use super::calls::Calls;
use super::error::DeviceError;
use crate::memory::segment::Segment;

/// A piece of pinned memory. Consumed by [`Calls::free_pinned`].
#[derive(Debug)]
pub(super) struct Pinned {
    base: NonNull<u8>,
    /// The bytes in use, and the bytes of the whole allocation. All of them are initialised.
    bytes: usize,
    capacity: usize,
}

// SAFETY: the value owns its bytes, which move with it.
unsafe impl Send for Pinned {}
// SAFETY: a shared reference gives access to the lengths, and to the bytes through `bytes`, which only reads and whose
// caller promises that no copy into them is in flight. Every write by the host takes `&mut`.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The size of the whole allocation in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of bytes in use.
    pub(super) fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the number of bytes in use, at most the capacity.
    pub(super) fn of(mut self, bytes: usize) -> Self {
        self.bytes = bytes.min(self.capacity);
        self
    }

    /// The first byte, for copies of the driver from and to the memory.
    pub(super) fn base(&mut self) -> *mut c_void {
        self.base.as_ptr().cast()
    }

    /// Writes `bytes` to the begin of the memory.
    ///
    /// # Safety
    /// No copy from or into the memory is in flight.
    pub(super) unsafe fn write(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        DeviceError::check_range(0, bytes.len(), self.bytes)?;
        // SAFETY: both ranges have that many bytes. They do not overlap, and no other thread accesses the memory: `self`
        // owns it and is borrowed exclusively. The device does not access it either, by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// The bytes in use.
    ///
    /// # Safety
    /// No copy into the memory is in flight.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: `self.bytes` bytes of an allocation that lives as long as `self` and was zeroed when it was made. The
        // host does not write them while `self` is borrowed, nor does the device, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl Calls {
    /// Allocates zeroed host memory that the device can access.
    pub(super) fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        let mut base = null_mut();
        // SAFETY: writes an address to a place for one address.
        unsafe { self.cuMemHostAlloc(&raw mut base, bytes.max(1), CU_MEMHOSTALLOC_PORTABLE) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(DeviceError::Call {
            call: "cuMemHostAlloc",
            code: 2,
            name: String::new(),
        })?;
        // SAFETY: `bytes` bytes of a new allocation that nothing else refers to.
        unsafe { base.write_bytes(0, bytes) };
        Ok(Pinned {
            base,
            bytes,
            capacity: bytes,
        })
    }

    /// Frees pinned host memory.
    pub(super) fn free_pinned(&self, mut memory: Pinned) {
        // SAFETY: from `pin`, and by `DEV-2` nothing uses it any more. A failure is ignored: nothing else can be done.
        let _ = unsafe { self.cuMemFreeHost(memory.base()) };
    }
}

/// Registered memory is for every context, and has an address on the device.
const REGISTERED: u32 = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

/// A registered segment. Consumed by [`Calls::unregister`].
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) segment: Segment,
    /// The address of the segment on the device.
    pub(super) address: u64,
}

impl Calls {
    /// Registers a whole segment with the driver.
    pub(super) fn register(&self, segment: Segment) -> Result<Registered, DeviceError> {
        let (base, len) = (segment.base().as_ptr().cast(), segment.len_bytes());
        // SAFETY: the range is a whole mapping, and `Registered` keeps that mapping until the memory is unregistered.
        unsafe { self.cuMemHostRegister_v2(base, len, REGISTERED) }?;
        let mut registered = Registered { segment, address: 0 };
        // SAFETY: writes one number to a place for one number; the memory was just registered.
        let found = unsafe { self.cuMemHostGetDevicePointer_v2(&raw mut registered.address, base, 0) };
        if let Err(failed) = found {
            self.unregister(registered);
            return Err(failed.into());
        }
        Ok(registered)
    }

    /// Unregisters a segment from the driver, and unmaps it.
    pub(super) fn unregister(&self, memory: Registered) {
        // SAFETY: `register` has registered it, and by `DEV-2` nothing uses it any more; the mapping is removed
        // afterwards. A failure is ignored: nothing else can be done.
        let _ = unsafe { self.cuMemHostUnregister(memory.segment.base().as_ptr().cast()) };
    }
}
