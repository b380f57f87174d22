//! Directories that only this user may enter.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Refuses: only Unix domain sockets need such a directory.
///
/// # Errors
/// Always.
pub(crate) fn make_own(_: &Path, _: &str) -> io::Result<(PathBuf, File)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses: only Unix domain sockets need such a directory.
///
/// # Errors
/// Always.
pub(crate) fn make(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
