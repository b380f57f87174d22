//! Types and constants of the driver's functions, laid out as in `cuda.h`.

use std::ffi::{c_int, c_uint};

use serde::{Deserialize, Serialize};

/// `CUuuid`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uuid(pub(super) [u8; 16]);

/// `CUipcMemHandle` and `CUipcEventHandle`: opaque bytes that may be sent to other processes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IpcHandle(pub(super) [u8; 64]);

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Location {
    pub(super) kind: c_uint,
    pub(super) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct AllocationProperties {
    pub(super) kind: c_uint,
    pub(super) handle_types: c_uint,
    pub(super) location: Location,
    pub(super) windows: usize,
    pub(super) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct AccessDescription {
    pub(super) location: Location,
    pub(super) flags: c_uint,
}

const _: () = assert!(size_of::<IpcHandle>() == 64 && align_of::<IpcHandle>() == 1);
const _: () = assert!(size_of::<AllocationProperties>() == 32 && align_of::<AllocationProperties>() == 8);
const _: () = assert!(size_of::<AccessDescription>() == 12);

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub(super) const PINNED: c_uint = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub(super) const ON_DEVICE: c_uint = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(super) const POSIX_DESCRIPTOR: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub(super) const READ_WRITE: c_uint = 3;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub(super) const MINIMUM: c_uint = 0;
/// `CU_STREAM_NON_BLOCKING`: the stream is not synchronized with the default stream.
pub(super) const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(super) const NO_TIMING: c_uint = 2;
/// `CU_EVENT_INTERPROCESS`.
pub(super) const INTERPROCESS: c_uint = 4;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
pub(super) const LAZY_PEER_ACCESS: c_uint = 1;

/// `CU_DEVICE_ATTRIBUTE_…`.
pub(super) mod attribute {
    use std::ffi::c_int;

    pub(in super::super) const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
    pub(in super::super) const COMPUTE_CAPABILITY_MINOR: c_int = 76;
    pub(in super::super) const HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: c_int = 103;

    /// Further attributes on which transports between processes depend, with names for users.
    pub(in super::super) const ABILITIES: [(&str, c_int); 8] = [
        ("compute mode", 20),    // COMPUTE_MODE: 0 for any process, 2 for none, 3 for one process
        ("virtual memory", 102), // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        ("memory pools", 115),   // MEMORY_POOLS_SUPPORTED
        ("waits for 64-bit values", 122), // CAN_USE_64_BIT_STREAM_MEM_OPS
        ("waits for NOR", 123),  // CAN_USE_STREAM_WAIT_VALUE_NOR
        ("DMA buffers", 124),    // DMA_BUF_SUPPORTED
        ("events between processes", 125), // IPC_EVENT_SUPPORTED
        ("fabric handles", 128), // HANDLE_TYPE_FABRIC_SUPPORTED
    ];
}

/// `CUDA_ERROR_…`.
pub(super) mod code {
    use std::ffi::c_int;

    pub(in super::super) const NOT_READY: c_int = 600;
}

/// A handle with which a process opens an event or memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exported {
    // Serde does not support arrays of 64 elements.
    halves: [[u8; 32]; 2],
}

impl From<IpcHandle> for Exported {
    fn from(handle: IpcHandle) -> Self {
        let mut halves = [[0; 32]; 2];
        for (to, from) in halves.as_flattened_mut().iter_mut().zip(handle.0) {
            *to = from;
        }
        Exported { halves }
    }
}

impl From<Exported> for IpcHandle {
    fn from(exported: Exported) -> Self {
        let mut handle = IpcHandle([0; 64]);
        for (to, from) in handle.0.iter_mut().zip(exported.halves.as_flattened()) {
            *to = *from;
        }
        handle
    }
}
