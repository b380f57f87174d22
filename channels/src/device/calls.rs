//! The functions of the driver, all looked up before the first call.
//!
//! Types, constants and signatures are those of `cudarc`, which are generated from `cuda.h`; a declaration here that
//! differs does not compile. The functions of `cudarc` are not called: they panic if the library or a function is
//! missing, and they return an enum. A code of a newer driver, which the enum does not list, is undefined behaviour
//! there, and an error here.
#![allow(unsafe_code)] // trusts the declared types of the driver's functions

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUevent, CUhostFn, CUipcEventHandle, CUipcMemHandle,
    CUmemAccessDesc as Access, CUmemAllocationGranularity_flags as Granularity,
    CUmemAllocationHandleType as HandleType, CUmemAllocationProp as Properties, CUstream, CUuuid,
};

use super::error::DeviceError;
use super::library::{Library, Unavailable};

/// The name of the driver's library for users, the environment variable that overrides its file, and its default files.
const DRIVER: (&str, &str, [&str; 2]) = (
    "the CUDA driver",
    "SELVEDGE_CUDA_LIB",
    ["libcuda.so.1", "libcuda.so"],
);

/// The code of a query for work that is not done.
const NOT_READY: c_int = sys::CUresult::CUDA_ERROR_NOT_READY as c_int;

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        /// The names of all driver functions that this crate calls.
        pub const DRIVER_FUNCTIONS: &[&str] = &[$(stringify!($name),)+ "cuGetErrorName"];

        $(const _: unsafe fn($($type),*) -> sys::CUresult = sys::$name;)+

        #[allow(non_snake_case)] // the names of `cuda.h`
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> c_int,)+
            cuGetErrorName: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, Unavailable> {
                Ok(Functions {
                    // SAFETY: these are the types that `cuda.h` declares, and the driver's interface under these names
                    // is stable. `Calls` keeps `library` beside the pointers, so they do not outlive it.
                    $($name: unsafe { library.function(stringify!($name)) }?,)+
                    // SAFETY: see above.
                    cuGetErrorName: unsafe { library.function("cuGetErrorName") }?,
                })
            }
        }

        #[allow(non_snake_case)] // the names of `cuda.h`
        impl Calls {
            $(
                /// Calls the driver.
                ///
                /// # Safety
                /// The arguments are as the driver's documentation of this function requires.
                pub(super) unsafe fn $name(&self, $($argument: $type),*) -> Result<(), FailedCall> {
                    // SAFETY: the caller's promise.
                    let code = unsafe { (self.functions.$name)($($argument),*) };
                    self.check(stringify!($name), code)
                }
            )+
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut i32);
    cuDeviceGetCount(count: *mut i32);
    cuDeviceGet(device: *mut CUdevice, index: i32);
    cuDeviceGetName(name: *mut c_char, len: i32, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDeviceGetAttribute(value: *mut i32, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxSetCurrent(context: CUcontext);
    cuStreamCreateWithPriority(stream: *mut CUstream, flags: u32, priority: i32);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamQuery(stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32);
    cuStreamWaitValue32_v2(stream: CUstream, address: u64, value: u32, flags: u32);
    cuStreamWriteValue32_v2(stream: CUstream, address: u64, value: u32, flags: u32);
    cuLaunchHostFunc(stream: CUstream, function: CUhostFn, argument: *mut c_void);
    cuEventCreate(event: *mut CUevent, flags: u32);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventQuery(event: CUevent);
    cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent);
    cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle);
    cuIpcGetMemHandle(handle: *mut CUipcMemHandle, address: u64);
    cuIpcOpenMemHandle_v2(address: *mut u64, handle: CUipcMemHandle, flags: u32);
    cuIpcCloseMemHandle(address: u64);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemFree_v2(address: u64);
    cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, address: u64);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const Properties, of: Granularity);
    cuMemCreate(allocation: *mut u64, bytes: usize, properties: *const Properties, flags: u64);
    cuMemRelease(allocation: u64);
    cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, at: u64, flags: u64);
    cuMemAddressFree(address: u64, bytes: usize);
    cuMemMap(address: u64, bytes: usize, offset: usize, allocation: u64, flags: u64);
    cuMemUnmap(address: u64, bytes: usize);
    cuMemSetAccess(address: u64, bytes: usize, access: *const Access, count: usize);
    cuMemExportToShareableHandle(handle: *mut c_void, allocation: u64, kind: HandleType, flags: u64);
    cuMemImportFromShareableHandle(allocation: *mut u64, handle: *mut c_void, kind: HandleType);
    cuMemHostAlloc(base: *mut *mut c_void, bytes: usize, flags: u32);
    cuMemFreeHost(base: *mut c_void);
    cuMemHostRegister_v2(base: *mut c_void, bytes: usize, flags: u32);
    cuMemHostUnregister(base: *mut c_void);
    cuMemHostGetDevicePointer_v2(address: *mut u64, base: *mut c_void, flags: u32);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: CUstream);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: CUstream);
    cuMemcpyPeerAsync(to: u64, to_context: CUcontext, from: u64, from_context: CUcontext, bytes: usize, stream: CUstream);
    cuMemsetD8Async(to: u64, byte: u8, bytes: usize, stream: CUstream);
}

/// The loaded driver: its functions and the library that contains them.
pub(super) struct Calls {
    functions: Functions,
    library: Library,
}

impl Calls {
    /// Returns the driver of this process, which the first call loads and initialises. After a failure the next call
    /// tries again.
    pub(super) fn loaded() -> Result<&'static Self, Unavailable> {
        static LOADED: OnceLock<Calls> = OnceLock::new();
        if let Some(calls) = LOADED.get() {
            return Ok(calls);
        }
        let (kind, variable, names) = DRIVER;
        let library = Library::open(kind, variable, &names)?;
        let functions = Functions::of(&library)?;
        let calls = Calls { functions, library };
        // SAFETY: takes no pointer; the flags must be 0, and are.
        unsafe { calls.cuInit(0) }.map_err(|failed| calls.unavailable(failed))?;
        // If two threads load the driver at once, one `Calls` is dropped. The other stays valid: the system counts how
        // often the library is open.
        Ok(LOADED.get_or_init(|| calls))
    }

    /// The file from which the driver was loaded.
    pub(super) fn path(&self) -> &str {
        self.library.path()
    }

    /// The error that a probe reports for a failed call.
    pub(super) fn unavailable(&self, failed: FailedCall) -> Unavailable {
        self.library.failed(failed.call, failed.code, failed.name)
    }

    /// Turns a return code other than 0 into an error.
    fn check(&self, call: &'static str, code: c_int) -> Result<(), FailedCall> {
        if code == 0 {
            return Ok(());
        }
        let name = self.name_of(code);
        Err(FailedCall { call, code, name })
    }

    /// The driver's name for a code; empty if the driver gives none, and for `NOT_READY`, which is no failure and
    /// frequent.
    fn name_of(&self, code: c_int) -> String {
        let mut name = std::ptr::null();
        // SAFETY: takes any number. Writes the address of a static string, or writes nothing.
        let told = |name| unsafe { (self.functions.cuGetErrorName)(code, name) };
        if code == NOT_READY || told(&raw mut name) != 0 || name.is_null() {
            return String::new();
        }
        // SAFETY: a zero-terminated string of the library, which lives as long as the library.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

/// A call of the driver that has returned a code other than 0.
pub(super) struct FailedCall {
    call: &'static str,
    code: c_int,
    name: String,
}

impl From<FailedCall> for DeviceError {
    fn from(failed: FailedCall) -> Self {
        let FailedCall { call, code, name } = failed;
        DeviceError::Call { call, code, name }
    }
}

/// Turns the result of a query into a bool: `false` for the code "not ready".
pub(super) fn is_ready(result: Result<(), FailedCall>) -> Result<bool, DeviceError> {
    match result {
        Ok(()) => Ok(true),
        Err(failed) if failed.code == NOT_READY => Ok(false),
        Err(failed) => Err(failed.into()),
    }
}
