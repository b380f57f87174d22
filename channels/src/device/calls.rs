//! The functions of the driver, all looked up before the first call.
//!
//! The result of a function is a plain number until it has been checked. A code of a newer driver is an error like any
//! other, and this module never panics, for any installed driver. The declarations are those of `cuda.h`, whose
//! interface under these names is stable.
#![allow(unsafe_code)] // trusts the declared types of the driver's functions

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use super::abi::{AccessDescription, AllocationProperties, IpcHandle, Uuid};
use super::library::{Library, Unavailable};

/// The name of the driver's library for users, the environment variable that overrides its file, and its default files.
const DRIVER: (&str, &str, [&str; 2]) = (
    "the CUDA driver",
    "SELVEDGE_CUDA_LIB",
    ["libcuda.so.1", "libcuda.so"],
);

/// A function that the driver calls when a stream reaches the call.
pub(super) type HostFunction = unsafe extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($field:ident = $symbol:literal: ($($argument:ty),*);)+) => {
        /// The names of all driver functions that this crate calls.
        pub const DRIVER_FUNCTIONS: &[&str] = &[$($symbol),+];

        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)+
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, Unavailable> {
                Ok(Functions {
                    // SAFETY: `cuda.h` declares these types, and the driver's interface is stable. `Calls` keeps
                    // `library` beside the pointers, so they do not outlive it.
                    $($field: unsafe { library.function($symbol) }?,)+
                })
            }
        }
    };
}

functions! {
    init = "cuInit": (c_uint);
    version = "cuDriverGetVersion": (*mut c_int);
    device_count = "cuDeviceGetCount": (*mut c_int);
    device_get = "cuDeviceGet": (*mut c_int, c_int);
    device_name = "cuDeviceGetName": (*mut c_char, c_int, c_int);
    device_memory = "cuDeviceTotalMem_v2": (*mut usize, c_int);
    device_attribute = "cuDeviceGetAttribute": (*mut c_int, c_int, c_int);
    device_uuid = "cuDeviceGetUuid_v2": (*mut Uuid, c_int);
    error_name = "cuGetErrorName": (c_int, *mut *const c_char);
    context_retain = "cuDevicePrimaryCtxRetain": (*mut *mut c_void, c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2": (c_int);
    context_set = "cuCtxSetCurrent": (*mut c_void);
    stream_create = "cuStreamCreateWithPriority": (*mut *mut c_void, c_uint, c_int);
    stream_destroy = "cuStreamDestroy_v2": (*mut c_void);
    stream_query = "cuStreamQuery": (*mut c_void);
    stream_wait = "cuStreamWaitEvent": (*mut c_void, *mut c_void, c_uint);
    host_function = "cuLaunchHostFunc": (*mut c_void, HostFunction, *mut c_void);
    event_create = "cuEventCreate": (*mut *mut c_void, c_uint);
    event_destroy = "cuEventDestroy_v2": (*mut c_void);
    event_record = "cuEventRecord": (*mut c_void, *mut c_void);
    event_query = "cuEventQuery": (*mut c_void);
    event_export = "cuIpcGetEventHandle": (*mut IpcHandle, *mut c_void);
    event_import = "cuIpcOpenEventHandle": (*mut *mut c_void, IpcHandle);
    memory_alloc = "cuMemAlloc_v2": (*mut u64, usize);
    memory_free = "cuMemFree_v2": (u64);
    memory_info = "cuMemGetInfo_v2": (*mut usize, *mut usize);
    memory_export = "cuIpcGetMemHandle": (*mut IpcHandle, u64);
    memory_import = "cuIpcOpenMemHandle_v2": (*mut u64, IpcHandle, c_uint);
    memory_close = "cuIpcCloseMemHandle": (u64);
    granularity = "cuMemGetAllocationGranularity": (*mut usize, *const AllocationProperties, c_uint);
    allocation_create = "cuMemCreate": (*mut u64, usize, *const AllocationProperties, c_ulonglong);
    allocation_release = "cuMemRelease": (u64);
    address_reserve = "cuMemAddressReserve": (*mut u64, usize, usize, u64, c_ulonglong);
    address_free = "cuMemAddressFree": (u64, usize);
    map = "cuMemMap": (u64, usize, usize, u64, c_ulonglong);
    unmap = "cuMemUnmap": (u64, usize);
    access = "cuMemSetAccess": (u64, usize, *const AccessDescription, usize);
    allocation_export = "cuMemExportToShareableHandle": (*mut c_void, u64, c_uint, c_ulonglong);
    allocation_import = "cuMemImportFromShareableHandle": (*mut u64, *mut c_void, c_uint);
    host_alloc = "cuMemHostAlloc": (*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost": (*mut c_void);
    host_register = "cuMemHostRegister_v2": (*mut c_void, usize, c_uint);
    host_unregister = "cuMemHostUnregister": (*mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2": (*mut u64, *mut c_void, c_uint);
    wait_value = "cuStreamWaitValue32_v2": (*mut c_void, u64, u32, c_uint);
    write_value = "cuStreamWriteValue32_v2": (*mut c_void, u64, u32, c_uint);
    copy_up = "cuMemcpyHtoDAsync_v2": (u64, *const c_void, usize, *mut c_void);
    copy_down = "cuMemcpyDtoHAsync_v2": (*mut c_void, u64, usize, *mut c_void);
    copy_over = "cuMemcpyDtoDAsync_v2": (u64, u64, usize, *mut c_void);
    copy_across = "cuMemcpyPeerAsync": (u64, *mut c_void, u64, *mut c_void, usize, *mut c_void);
    fill = "cuMemsetD8Async": (u64, u8, usize, *mut c_void);
}

/// The loaded driver: its functions and the library that contains them.
pub(super) struct Calls {
    pub(super) functions: Functions,
    library: Library,
}

impl Calls {
    /// Loads and initialises the driver, which then searches for its devices.
    pub(super) fn open() -> Result<Self, Unavailable> {
        let (kind, variable, names) = DRIVER;
        let library = Library::open(kind, variable, &names)?;
        let functions = Functions::of(&library)?;
        let calls = Calls { functions, library };
        // SAFETY: takes no pointer; the flags must be 0, and are.
        calls.available("cuInit", unsafe { (calls.functions.init)(0) })?;
        Ok(calls)
    }

    /// Returns the driver of this process, which is loaded once. After a failure the next call tries again.
    pub(super) fn loaded() -> Result<&'static Self, Unavailable> {
        static LOADED: OnceLock<Calls> = OnceLock::new();
        if let Some(calls) = LOADED.get() {
            return Ok(calls);
        }
        // If two threads load the driver at once, one `Calls` is dropped. The other stays valid: the system counts how
        // often the library is open.
        let calls = Calls::open()?;
        Ok(LOADED.get_or_init(|| calls))
    }

    /// The file from which the driver was loaded.
    pub(super) fn path(&self) -> &str {
        self.library.path()
    }

    /// Turns a return code other than 0 into the error that a probe reports.
    pub(super) fn available(&self, call: &'static str, code: c_int) -> Result<(), Unavailable> {
        self.library.check(call, code, || self.name_of(code))
    }

    /// The driver's name for a code; empty if the driver gives none.
    pub(super) fn name_of(&self, code: c_int) -> String {
        let mut name = std::ptr::null();
        // SAFETY: writes the address of a static string, or writes nothing.
        let told = unsafe { (self.functions.error_name)(code, &raw mut name) };
        if told != 0 || name.is_null() {
            return String::new();
        }
        // SAFETY: a zero-terminated string of the library, which lives as long as the library.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}
