//! Errors of the system: which of them are shortages.

use std::io;

/// Returns advice for an error of the system; there is none here.
pub(crate) fn mend(_: &str, _: &io::Error) -> &'static str {
    ""
}

/// Whether a failed operation was the opening of another process's memory, which does not exist here.
pub(crate) fn opens_foreign_memory(_: &str) -> bool {
    false
}

/// Whether the error says that this process has temporarily run out of memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock
    )
}
