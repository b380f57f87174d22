//! Arrays whose elements are those of a file.

use std::fs::File;
use std::path::Path;

use selvedge_channels::platform::file_lock::{LockedFile, lock_to_make};

use super::error::SharedArrayError;

/// How the file of an array is opened: Julia's `r`, `r+`, `w+` and `a+`. The bytes of the file are the elements, in memory order and in
/// the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileMode {
    /// `r`: an existing file, for reading alone.
    Read,
    /// `r+`: an existing file, for reading and writing.
    ReadWrite,
    /// `w+`: a new file, or an existing one whose contents are dropped: also if the array cannot be made after that, for want of room
    /// or because a worker has died.
    Truncate,
    /// `a+`: an existing file, which is made longer with zeros if it is shorter, or a new one.
    Extend,
}

impl FileMode {
    pub(super) fn is_writable(self) -> bool {
        self != FileMode::Read
    }

    /// Whether a file that is too short is made longer.
    fn makes_longer(self) -> bool {
        matches!(self, FileMode::Truncate | FileMode::Extend)
    }

    /// Opens the file of an array of so many bytes.
    pub(super) fn open(self, path: &Path, need_bytes: u64) -> Result<LockedFile, SharedArrayError> {
        let path_of = || path.to_path_buf();
        if path.is_relative() {
            return Err(SharedArrayError::RelativePath { path: path_of() });
        }
        let failed = |error| SharedArrayError::File {
            path: path_of(),
            error,
        };
        // To open a pipe would wait for its other end.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(SharedArrayError::NotAFile { path: path_of() });
        }
        let mut options = File::options();
        options
            .read(true)
            .write(self.is_writable())
            .create(self.makes_longer());
        let file = options.open(path).map_err(failed)?;
        // A part of one array would be a slice that another one changes.
        let locked = lock_to_make(file, self.is_writable()).map_err(failed)?;
        let file = locked.ok_or_else(|| SharedArrayError::FileInUse { path: path_of() })?;
        if self == FileMode::Truncate {
            file.set_len(0).map_err(failed)?;
        }
        let has_bytes = file.metadata().map_err(failed)?.len();
        if has_bytes < need_bytes && !self.makes_longer() {
            return Err(SharedArrayError::FileTooShort {
                path: path_of(),
                has_bytes,
                need_bytes,
            });
        }
        Ok(file)
    }
}
