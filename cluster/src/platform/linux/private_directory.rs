//! Directories that only this user may enter.
//!
//! Whoever uses a directory holds a shared lock of it (`flock`), which the system takes away when the process dies. So the
//! directory of a process that was killed is known by a lock that can be had alone.

use std::fs::{self, DirBuilder, DirEntry, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The first letters of the names of directories that their makers remove.
const PREFIX: &str = "selvedge-links-";

/// Makes a directory with mode 0700 and a name that ends so, and removes those that dead processes of this user have left
/// beside it. The directory is used until the file is dropped.
///
/// # Errors
/// The directory cannot be made.
pub(crate) fn make_own(parent: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let (new, path) = (
        parent.join(format!(".{PREFIX}{name}")),
        parent.join(format!("{PREFIX}{name}")),
    );
    DirBuilder::new().mode(0o700).create(&new)?;
    let used = make_use(&new)?;
    // It has its name as soon as it is used, so nobody takes it for a dead process's.
    fs::rename(&new, &path)?;
    let user = used.metadata()?.uid();
    for beside in fs::read_dir(parent).into_iter().flatten().flatten() {
        // What cannot be removed now is left to another process.
        let _ = remove_if_dead(&beside, user);
    }
    Ok((path, used))
}

/// Makes a directory with mode 0700 unless it is there and others may not enter it. The directory is used until the file is
/// dropped.
///
/// # Errors
/// The directory cannot be made, or others may enter it.
pub(crate) fn make(path: &Path) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => check(path)?,
        made => made?,
    }
    make_use(path)
}

fn make_use(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    directory.try_lock_shared()?;
    Ok(directory)
}

fn remove_if_dead(entry: &DirEntry, user: u32) -> io::Result<()> {
    if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
        return Ok(());
    }
    // Of a symbolic link, this is about the link.
    let found = entry.metadata()?;
    if !found.is_dir() || found.uid() != user {
        return Ok(());
    }
    let directory = File::open(entry.path())?;
    directory.try_lock()?;
    fs::remove_dir_all(entry.path())
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
