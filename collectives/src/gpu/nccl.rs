//! NCCL of this machine.
#![allow(unsafe_code)] // asks NCCL for its version

use std::ffi::c_int;

use selvedge_channels::device::{Library, Unavailable};

/// Names under which the library may be found, and the variable that names another.
const NCCL: (&str, &str, [&str; 2]) = ("NCCL", "SELVEDGE_NCCL_LIB", ["libnccl.so.2", "libnccl.so"]);

/// What a communicator over NCCL calls.
const NCCL_FUNCTIONS: [&str; 17] = [
    "ncclGetVersion",
    "ncclGetUniqueId",
    "ncclCommInitRankConfig",
    "ncclCommGetAsyncError",
    "ncclCommAbort",
    "ncclCommFinalize",
    "ncclCommDestroy",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclSend",
    "ncclRecv",
    "ncclAllReduce",
    "ncclReduceScatter",
    "ncclAllGather",
    "ncclBroadcast",
    "ncclReduce",
    "ncclGetErrorString",
];

/// NCCL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nccl {
    /// Where it was found.
    pub path: String,
    /// Its version: 22809 for 2.28.9.
    pub version: i32,
}

pub(super) fn nccl() -> Result<Nccl, Unavailable> {
    let (kind, variable, names) = NCCL;
    let library = Library::open(kind, variable, &names)?;
    library.has(&NCCL_FUNCTIONS)?;
    // SAFETY: `nccl.h` declares this type.
    let ask: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { library.function("ncclGetVersion") }?;
    let mut version = 0;
    // SAFETY: writes one number where there is room for one.
    let code = unsafe { ask(&raw mut version) };
    library.check("ncclGetVersion", code, String::new)?;
    let path = library.path().to_owned();
    Ok(Nccl { path, version })
}
