//! Files that hold what this process was given, and the users that may read them.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// The reason that a file is not read.
#[derive(Debug)]
pub(crate) enum FileRefusal {
    Unreadable(io::Error),
    NotAFile,
    /// Users other than its owner have rights to the file, which has these permissions.
    Exposed(u32),
}

/// Opens a file. A named pipe is not even opened: that would wait for a writer.
///
/// # Errors
/// [`FileRefusal::Unreadable`], [`FileRefusal::NotAFile`].
pub(crate) fn open(path: &Path) -> Result<File, FileRefusal> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(FileRefusal::NotAFile),
        Ok(_) => File::open(path).map_err(FileRefusal::Unreadable),
        Err(error) => Err(FileRefusal::Unreadable(error)),
    }
}

/// Opens a file with a secret, which only its owner may read.
///
/// # Errors
/// Any [`FileRefusal`].
pub(crate) fn open_private(path: &Path) -> Result<File, FileRefusal> {
    let file = open(path)?;
    let metadata = file.metadata().map_err(FileRefusal::Unreadable)?;
    match shared_mode(&metadata) {
        Some(mode) => Err(FileRefusal::Exposed(mode)),
        None => Ok(file),
    }
}

/// Makes a new file for a secret, which only its owner may read.
///
/// # Errors
/// There is a file of this name, or the system makes none.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The permissions of a file, if users other than its owner have any; the owner's are among them.
#[cfg(unix)]
fn shared_mode(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// The permissions of a file, if users other than its owner have any. The system has none that can be read so.
#[cfg(not(unix))]
fn shared_mode(_: &Metadata) -> Option<u32> {
    None
}
