//! The driver's functions, all looked up before the first is called.
//!
//! A function's result is a number until it has been looked at: codes of a newer driver are errors like any other, and nothing
//! here panics, whatever is installed. The declarations are those of `cuda.h`, whose interface under these names is stable.
#![allow(unsafe_code)] // takes functions of the driver at their word

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use super::abi::{AccessDescription, AllocationProperties, IpcHandle, Uuid};
use super::library::{Library, Unavailable};

/// How the driver's library is called for people, the variable that names another, and its names.
const DRIVER: (&str, &str, [&str; 2]) = (
    "the CUDA driver",
    "SELVEDGE_CUDA_LIB",
    ["libcuda.so.1", "libcuda.so"],
);

/// A function that the driver calls when a stream has come to it.
pub(super) type HostFunction = unsafe extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($field:ident = $symbol:literal: ($($argument:ty),*);)+) => {
        /// Every function of the driver that is called, by name.
        pub const DRIVER_FUNCTIONS: &[&str] = &[$($symbol),+];

        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)+
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, Unavailable> {
                Ok(Functions {
                    // SAFETY: `cuda.h` declares these types, and the driver's interface is stable; the pointers do not
                    // outlive `library`, which `Calls` keeps beside them.
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

/// The driver as it is called.
pub(super) struct Calls {
    pub(super) functions: Functions,
    library: Library,
}

impl Calls {
    /// Loads the driver, and lets it look for its devices.
    pub(super) fn open() -> Result<Self, Unavailable> {
        let (kind, variable, names) = DRIVER;
        let library = Library::open(kind, variable, &names)?;
        let functions = Functions::of(&library)?;
        let calls = Calls { functions, library };
        // SAFETY: takes no pointer; the flags must be 0.
        calls.available("cuInit", unsafe { (calls.functions.init)(0) })?;
        Ok(calls)
    }

    /// The driver of this process, loaded once. What has failed may be tried again.
    pub(super) fn loaded() -> Result<&'static Self, Unavailable> {
        static LOADED: OnceLock<Calls> = OnceLock::new();
        if let Some(calls) = LOADED.get() {
            return Ok(calls);
        }
        // Of two that are faster, one is let go: the library counts who has opened it.
        let calls = Calls::open()?;
        Ok(LOADED.get_or_init(|| calls))
    }

    /// Where it was found.
    pub(super) fn path(&self) -> &str {
        self.library.path()
    }

    /// What a probe says of a call.
    pub(super) fn available(&self, call: &'static str, code: c_int) -> Result<(), Unavailable> {
        self.library.check(call, code, || self.name_of(code))
    }

    /// What the driver calls a code; empty where it does not say.
    pub(super) fn name_of(&self, code: c_int) -> String {
        let mut name = std::ptr::null();
        // SAFETY: writes the address of a static text, or nothing.
        let told = unsafe { (self.functions.error_name)(code, &raw mut name) };
        if told != 0 || name.is_null() {
            return String::new();
        }
        // SAFETY: a text of the library's own, with an end, that lives as long as the library.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}
