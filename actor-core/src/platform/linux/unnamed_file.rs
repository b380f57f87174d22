//! Files without names: `O_TMPFILE`. The kernel frees them with the last descriptor.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

/// Makes a file without a name in a folder, which nobody else may open.
pub(crate) fn create(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(folder)
}

/// Writes bytes at a place.
pub(crate) fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Reads as many bytes at a place.
pub(crate) fn read(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Gives a part of the file back to the file system, if that can take it.
pub(crate) fn punch(file: &File, offset: u64, len_bytes: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // A file system that cannot keeps the blocks for the next object at this place.
    let _ = fallocate(file, flags, offset, len_bytes);
}
