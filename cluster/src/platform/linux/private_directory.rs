//! A directory that only this user may enter.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes the directory with mode 0700. One that is there already will do if `may_exist`, and if others may not enter it.
///
/// # Errors
/// The directory cannot be made, or others may enter it.
pub(crate) fn make(path: &Path, may_exist: bool) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && may_exist => check(path),
        made => made,
    }
}

fn check(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = format!(
        "{} (mode {:o}) is no directory that only its owner may enter: choose another, or set mode 700",
        path.display(),
        found.mode() & 0o7777,
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}
