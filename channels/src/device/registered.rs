//! Segments that the device may write: host memory, registered with the driver.
#![allow(unsafe_code)] // lets the device write to host memory

use cudarc::driver::sys::{CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE};

use super::calls::Calls;
use super::error::DeviceError;
use crate::memory::segment::Segment;

const FLAGS: u32 = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

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
        unsafe { self.cuMemHostRegister_v2(base, len, FLAGS) }?;
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
