//! The result codes of the driver's functions: the driver's own numbers, with their names.

use std::ffi::CStr;

/// The result of a driver call: its number unless it is `CUDA_SUCCESS`.
pub(crate) type Cu<T = ()> = Result<T, u32>;

macro_rules! codes {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        $(
            #[allow(dead_code)] // some codes are only ever injected, and need names
            pub(crate) const $name: u32 = $code;
        )*

        /// Returns the name of a code and its description.
        pub(crate) fn told(code: u32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                $($code => Some(($symbol, $text)),)*
                _ => None,
            }
        }
    };
}

codes! {
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    DEINITIALIZED = 4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    MAP_FAILED = 205, c"CUDA_ERROR_MAP_FAILED", c"mapping of buffer object failed";
    ALREADY_MAPPED = 208, c"CUDA_ERROR_ALREADY_MAPPED", c"resource already mapped";
    PEER_ACCESS_UNSUPPORTED = 217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    OPERATING_SYSTEM = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    PRIMARY_CONTEXT_ACTIVE = 708, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", c"cannot set while device is active in this process";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region";
    MISALIGNED_ADDRESS = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    SYSTEM_NOT_READY = 802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"system not yet initialized";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}
