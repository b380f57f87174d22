//! Files whose bytes processes share. The process that maps a file first keeps it open, and others open it through
//! `/proc/<pid>/fd/<fd>`, as they open a segment.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use memmap2::MmapRaw;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::file_lock::{LockedFile, lock_to_map};
use super::memfd::{mapped, opened, system};
use crate::error::SegmentError;

/// The name of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileId {
    pid: u32,
    fd: i32,
    /// The file's own number, which guards against a descriptor that has been reused.
    device: u64,
    inode: u64,
    is_writable: bool,
}

/// A file that is mapped.
pub(crate) struct MappedFile {
    /// Owns the mapping.
    _map: MmapRaw,
    base: NonNull<u8>,
    id: FileId,
    /// Has the lock of this process, and lets others open the file of the process that has mapped it first. Dropped behind the mapping.
    _file: LockedFile,
}

impl MappedFile {
    /// Maps the first bytes of a file, which is made longer if it is shorter and writable.
    pub(crate) fn new(file: LockedFile, len_bytes: usize, is_writable: bool) -> Result<Self, SegmentError> {
        let metadata = file.metadata().map_err(system("stat", len_bytes))?;
        // No bytes cannot be reserved.
        if is_writable && len_bytes > 0 {
            // So that a full disk is an error here, and not a signal later.
            match fallocate(&*file, FallocateFlags::empty(), 0, len_bytes as u64) {
                Err(Errno::OPNOTSUPP) if metadata.len() >= len_bytes as u64 => {}
                Err(Errno::OPNOTSUPP) => {
                    let longer = file.set_len(len_bytes as u64);
                    longer.map_err(system("ftruncate", len_bytes))?;
                }
                reserved => {
                    reserved.map_err(|error| system("fallocate", len_bytes)(error.into()))?;
                }
            }
        }
        let id = FileId {
            pid: std::process::id(),
            fd: file.as_raw_fd(),
            device: metadata.dev(),
            inode: metadata.ino(),
            is_writable,
        };
        let (map, base) = mapped_within(&file, len_bytes, is_writable)?;
        Ok(MappedFile {
            _map: map,
            base,
            id,
            _file: file,
        })
    }

    pub(crate) fn id(&self) -> FileId {
        self.id.clone()
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.id.is_writable
    }
}

/// A file that another process of this host has mapped, opened and locked here, and not mapped yet.
pub(crate) struct LentFile {
    file: LockedFile,
    id: FileId,
}

impl LentFile {
    /// Opens the file, and locks it. The lock counts if the other process has the file open after this.
    pub(crate) fn open(id: &FileId) -> Result<Self, SegmentError> {
        let file = opened(id.pid, id.fd, id.is_writable, 0)?;
        let metadata = file.metadata().map_err(system("stat", 0))?;
        let foreign = |what| SegmentError::Foreign { pid: id.pid, what };
        if (metadata.dev(), metadata.ino()) != (id.device, id.inode) {
            return Err(foreign("its descriptor has been reused"));
        }
        if !metadata.is_file() {
            return Err(foreign("it is no file"));
        }
        let locking = format!("locking /proc/{}/fd/{}", id.pid, id.fd);
        let file = lock_to_map(file, id.is_writable).map_err(system(locking, 0))?;
        Ok(LentFile { file, id: id.clone() })
    }

    /// Maps the first bytes.
    pub(crate) fn map(self, len_bytes: usize) -> Result<MappedFile, SegmentError> {
        let (map, base) = mapped_within(&self.file, len_bytes, self.id.is_writable)?;
        Ok(MappedFile {
            _map: map,
            base,
            id: self.id,
            _file: self.file,
        })
    }
}

/// Maps the first bytes of a file, unless it is too short: an access behind its end would be a signal.
fn mapped_within(
    file: &File,
    len_bytes: usize,
    is_writable: bool,
) -> Result<(MmapRaw, NonNull<u8>), SegmentError> {
    let metadata = file.metadata().map_err(system("stat", len_bytes))?;
    if !metadata.is_file() || metadata.len() < len_bytes as u64 {
        return Err(SegmentError::Foreign {
            pid: std::process::id(),
            what: "the file is shorter than the array, or no file",
        });
    }
    mapped(file, len_bytes, is_writable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::file_lock::lock_to_make;

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_file_is_mapped_by_its_own_number_and_never_behind_its_end() {
        let file = tempfile();
        file.set_len(100).unwrap();
        let lock = |is_writable| {
            let file = lock_to_make(file.try_clone().unwrap(), is_writable);
            file.unwrap().unwrap()
        };
        let read = lock(false);
        assert!(matches!(
            MappedFile::new(read, 101, false),
            Err(SegmentError::Foreign { .. })
        ));
        let one = MappedFile::new(lock(true), 4096, true).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4096, "it was made longer");
        assert!(LentFile::open(&one.id()).unwrap().map(4096).is_ok());
        let wrong = FileId {
            inode: one.id().inode + 1,
            ..one.id()
        };
        assert!(LentFile::open(&wrong).is_err());
        file.set_len(10).unwrap();
        assert!(LentFile::open(&one.id()).unwrap().map(4096).is_err());
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("selvedge-mapped-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }
}
