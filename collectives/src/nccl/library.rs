//! NCCL's functions. All are looked up before the first is called.
//!
//! The types and layouts are those of `cudarc`'s bindings. The functions are not: `cudarc` panics if a library or a
//! function is missing, does not search for `libnccl.so.2`, and declares results as an enum, for which the codes of a
//! newer library are undefined behaviour. Here a result is a number until it has been checked.
#![allow(unsafe_code)] // declares the signatures of NCCL's functions

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{ncclConfig_t, ncclUniqueId};
use selvedge_channels::device::{Library, Unavailable};

use crate::error::CommError;

/// The library's name in messages, the variable that names another file, and its file names.
const NCCL: (&str, &str, [&str; 2]) = ("NCCL", "SELVEDGE_NCCL_LIB", ["libnccl.so.2", "libnccl.so"]);

/// The call succeeded.
pub(super) const SUCCESS: c_int = 0;
/// Another rank's process has gone, or cannot be reached (`ncclRemoteError`).
pub(super) const REMOTE: c_int = 6;
/// The call is in progress (`ncclInProgress`).
pub(super) const IN_PROGRESS: c_int = 7;

/// A communicator of NCCL (`ncclComm_t`), or a stream (`cudaStream_t`).
pub(super) type Handle = *mut c_void;
/// Memory of the device that is read, and memory that is written.
type From = *const c_void;
type To = *mut c_void;

/// A function for a reduction in which all ranks have the same role.
pub(super) type Reduction = unsafe extern "C" fn(From, To, usize, c_int, c_int, Handle, Handle) -> c_int;

macro_rules! functions {
    ($($field:ident = $symbol:literal: ($($argument:ty),*);)+) => {
        /// The names of all functions of NCCL that are called.
        const FUNCTIONS: &[&str] = &[$($symbol),+, "ncclGetErrorString"];

        /// The functions that are called. Data types and reductions are numbers here: those of `ncclDataType_t` and
        /// `ncclRedOp_t`.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)+
            error_text: unsafe extern "C" fn(c_int) -> *const c_char,
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, Unavailable> {
                Ok(Functions {
                    // SAFETY: `nccl.h` declares these types, under these names since 2.14; the pointers do not outlive
                    // `library`, which `Calls` keeps beside them.
                    $($field: unsafe { library.function($symbol) }?,)+
                    // SAFETY: as above.
                    error_text: unsafe { library.function("ncclGetErrorString") }?,
                })
            }
        }
    };
}

functions! {
    version = "ncclGetVersion": (*mut c_int);
    unique_id = "ncclGetUniqueId": (*mut ncclUniqueId);
    init = "ncclCommInitRankConfig": (*mut Handle, c_int, ncclUniqueId, c_int, *mut ncclConfig_t);
    async_error = "ncclCommGetAsyncError": (Handle, *mut c_int);
    abort = "ncclCommAbort": (Handle);
    finalize = "ncclCommFinalize": (Handle);
    destroy = "ncclCommDestroy": (Handle);
    group_start = "ncclGroupStart": ();
    group_end = "ncclGroupEnd": ();
    send = "ncclSend": (From, usize, c_int, c_int, Handle, Handle);
    recv = "ncclRecv": (To, usize, c_int, c_int, Handle, Handle);
    all_reduce = "ncclAllReduce": (From, To, usize, c_int, c_int, Handle, Handle);
    reduce_scatter = "ncclReduceScatter": (From, To, usize, c_int, c_int, Handle, Handle);
    all_gather = "ncclAllGather": (From, To, usize, c_int, Handle, Handle);
    broadcast = "ncclBroadcast": (From, To, usize, c_int, c_int, Handle, Handle);
    reduce = "ncclReduce": (From, To, usize, c_int, c_int, c_int, Handle, Handle);
}

/// The NCCL library of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nccl {
    /// The path of the library.
    pub path: String,
    /// The version: 22809 for 2.28.9.
    pub version: i32,
}

/// The loaded library and its functions.
pub(super) struct Calls {
    pub(super) functions: Functions,
    library: Library,
}

impl Calls {
    fn open() -> Result<Self, Unavailable> {
        let (kind, variable, names) = NCCL;
        let library = Library::open(kind, variable, &names)?;
        library.has(FUNCTIONS)?;
        let functions = Functions::of(&library)?;
        Ok(Calls { functions, library })
    }

    /// Returns the library of this process, which is loaded once. A load that has failed may be tried again.
    pub(super) fn loaded() -> Result<&'static Self, Unavailable> {
        static LOADED: OnceLock<Calls> = OnceLock::new();
        if let Some(calls) = LOADED.get() {
            return Ok(calls);
        }
        // If two threads load at once, one result is dropped: the system counts the openings of a library.
        let calls = Calls::open()?;
        Ok(LOADED.get_or_init(|| calls))
    }

    /// Returns an error if a function returned neither success nor in-progress.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), CommError> {
        if matches!(code, SUCCESS | IN_PROGRESS) {
            return Ok(());
        }
        // SAFETY: the function takes any number, and returns a text that the library owns.
        let text = unsafe { (self.functions.error_text)(code) };
        let text = if text.is_null() {
            String::new()
        } else {
            // SAFETY: the text has a terminator, and lives as long as the library.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(CommError::Backend {
            backend: super::NAME,
            reason: format!("`{call}` says {code}, {text} (NCCL_DEBUG=WARN tells more)"),
        })
    }
}

/// Searches for NCCL. Never panics, and needs no device.
pub(crate) fn nccl() -> Result<Nccl, Unavailable> {
    let calls = Calls::open()?;
    let mut version = 0;
    // SAFETY: writes one number where there is room for one.
    let code = unsafe { (calls.functions.version)(&raw mut version) };
    if code != SUCCESS {
        return Err(calls.library.failed("ncclGetVersion", code, String::new()));
    }
    let path = calls.library.path().to_owned();
    Ok(Nccl { path, version })
}
