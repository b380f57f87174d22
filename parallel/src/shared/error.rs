//! The reasons that a shared array cannot be made or used.

use std::io;
use std::path::PathBuf;

use selvedge_channels::SegmentError;
use selvedge_channels::array::ArrayError;
use selvedge_core::{CallError, FetchError, NoRuntime};

/// The reason that a shared array cannot be made or used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SharedArrayError {
    /// The process has no mapping of the array.
    #[error("{}", not_mapped(*process, *is_member, processes))]
    NotMapped {
        /// The runtime's number of the process; `None` outside of a remote function.
        process: Option<u32>,
        /// Whether the process is one of those that the array was made for, or its maker; `None` if that is not known.
        is_member: Option<bool>,
        /// The numbers of the processes that the array was made for.
        processes: Vec<u32>,
    },
    /// A worker is on another host, where no memory can be shared.
    #[error(
        "worker `{worker}` is on another host than this process, and a shared array is on one host: leave it out of `on`"
    )]
    NotSameHost {
        /// The worker's name.
        worker: String,
    },
    /// A worker is listed twice.
    #[error("worker `{worker}` stands twice in the list of an array's processes")]
    Twice {
        /// The worker's name.
        worker: String,
    },
    /// The index is outside of the shape, or has another number of dimensions.
    #[error("the index {index:?} is outside of the shape {shape:?}")]
    Index {
        /// The index.
        index: Vec<usize>,
        /// The shape of the array.
        shape: Vec<usize>,
    },
    /// The handle has come from another process.
    #[error("the array belongs to the process that has made it, which alone makes another one like it")]
    NotMaker,
    /// Two arrays differ in shape or in their processes.
    #[error("the arrays differ in {what}: make both with the same")]
    Different {
        /// The property that differs.
        what: &'static str,
    },
    /// The elements cannot be used.
    #[error(transparent)]
    Elements(#[from] ArrayError),
    /// The path of the file is relative, which means another file in a process that works elsewhere.
    #[error("`{}` is relative: name the file by an absolute path", path.display())]
    RelativePath {
        /// The path.
        path: PathBuf,
    },
    /// The path names a folder, a pipe, a device or a socket.
    #[error("{} is no regular file, whose bytes could be elements: name another path", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be opened in this mode.
    #[error("{}: {error}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another array has the file open, and one of both can write it.
    #[error(
        "{} is in use: an array that writes a file has it alone, until no process maps it; `release` waits for the workers, and a claim or a \
         view that is open keeps a mapping",
        path.display()
    )]
    FileInUse {
        /// The path.
        path: PathBuf,
    },
    /// The file is shorter than the array, and the mode does not make it longer.
    #[error("{} has {has_bytes} bytes, and the array needs {need_bytes}: open it in a mode that makes it longer", path.display())]
    FileTooShort {
        /// The path.
        path: PathBuf,
        /// The length of the file.
        has_bytes: u64,
        /// The length of the array.
        need_bytes: u64,
    },
    /// A process did not map the array.
    #[error("a process did not map the array: {0}")]
    Unmapped(FetchError),
    /// The call of a function for an array gave no value.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The function that waits for others is not run by a runtime.
    #[error("an array that was passed is worked at by others from outside of a remote function: {0}")]
    NoRuntime(NoRuntime),
}

selvedge_channels::debug_is_report!(SharedArrayError);

impl From<NoRuntime> for SharedArrayError {
    fn from(error: NoRuntime) -> Self {
        SharedArrayError::NoRuntime(error)
    }
}

fn not_mapped(process: Option<u32>, is_member: Option<bool>, processes: &[u32]) -> String {
    let process = process.map_or("this process".to_owned(), |number| format!("process {number}"));
    let none_of = format!("is none of the array's processes {processes:?}");
    let ended = "the array was released or dropped by its maker, or the process was started again";
    match is_member {
        Some(true) => format!("{process} does not map the array any more: {ended}; make another array"),
        Some(false) => {
            format!(
                "{process} does not map the array: it {none_of}; name its worker in `on` when the array is made"
            )
        }
        None => format!("{process} does not map the array: it {none_of}, or {ended}"),
    }
}

impl From<SegmentError> for SharedArrayError {
    fn from(error: SegmentError) -> Self {
        SharedArrayError::Elements(error.into())
    }
}

impl SharedArrayError {
    /// Whether an array is not mapped where it was used.
    #[must_use]
    pub fn is_not_mapped(&self) -> bool {
        matches!(self, SharedArrayError::NotMapped { .. })
    }
}
