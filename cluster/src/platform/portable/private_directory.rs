//! A directory that only this user may enter.

use std::io;
use std::path::Path;

/// Refuses: only Unix domain sockets need such a directory.
///
/// # Errors
/// Always.
pub(crate) fn make(_: &Path, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
