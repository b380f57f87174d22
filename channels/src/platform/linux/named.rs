//! Segments with a name, through the `shared_memory` crate: for systems on which a process cannot open descriptors of
//! other processes. The process that made a segment removes its name. Names that a killed process leaves in `/dev/shm`
//! are removed by the next process that makes a segment.
//!
//! The memory is not sealed: a process of the same user that truncates it causes SIGBUS in every process that maps it.
#![allow(unsafe_code)] // a mapping that moves between threads

use std::fs;
use std::io;
use std::ptr::NonNull;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use shared_memory::{Shmem, ShmemConf, ShmemError};

use super::header::{Header, fresh_nonce};
use crate::error::SegmentError;
use crate::memory::segment::{Memory, Provider, SEGMENT_HEADER_BYTES, SegmentId};

/// The value of `fd` in the id of a segment that has a name.
pub(super) const NAMED: i32 = -2;
/// The directory of the names.
const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "selvedge-";

pub(super) struct Named {
    shmem: Shmem,
    base: NonNull<u8>,
    id: SegmentId,
}

// SAFETY: the mapping is owned; all access to its bytes goes through `Region`.
unsafe impl Send for Named {}
// SAFETY: as for `Send`; `Shmem` is used through `&self` only to ask for its length.
unsafe impl Sync for Named {}

fn name(id: &SegmentId) -> String {
    format!("{PREFIX}{}-{:016x}", id.pid, id.nonce)
}

fn system(what: String, len_bytes: usize) -> impl FnOnce(ShmemError) -> SegmentError {
    move |error| SegmentError::System {
        what: what.into(),
        len_bytes: len_bytes as u64,
        error: io::Error::other(error),
    }
}

impl Named {
    pub(super) fn create(len_bytes: usize) -> Result<Self, SegmentError> {
        sweep();
        let id = SegmentId {
            pid: std::process::id(),
            fd: NAMED,
            nonce: fresh_nonce(),
            len_bytes: len_bytes as u64,
        };
        let shmem = ShmemConf::new().os_id(name(&id)).size(len_bytes).create();
        let named = Named::of(
            shmem.map_err(system(format!("shm_open of {}", name(&id)), len_bytes))?,
            id,
        )?;
        named.reserve(len_bytes)?;
        named.header().write(named.id.nonce);
        Ok(named)
    }

    pub(super) fn open(id: &SegmentId) -> Result<Self, SegmentError> {
        let len_bytes = usize::try_from(id.len_bytes).unwrap_or(usize::MAX);
        let shmem = ShmemConf::new().os_id(name(id)).open();
        let named = Named::of(
            shmem.map_err(system(format!("shm_open of {}", name(id)), len_bytes))?,
            id.clone(),
        )?;
        let foreign = |what| SegmentError::Foreign { pid: id.pid, what };
        if named.shmem.len() != len_bytes || len_bytes < SEGMENT_HEADER_BYTES {
            return Err(foreign("its length differs"));
        }
        if !named.header().is(id.nonce) {
            return Err(foreign("it is no segment of ours"));
        }
        Ok(named)
    }

    fn of(shmem: Shmem, id: SegmentId) -> Result<Self, SegmentError> {
        let base = NonNull::new(shmem.as_ptr()).ok_or(SegmentError::Foreign {
            pid: id.pid,
            what: "it is mapped nowhere",
        })?;
        Ok(Named { shmem, base, id })
    }

    /// Makes the kernel reserve the memory, so that a lack of space in `/dev/shm` is an error here and not a SIGBUS
    /// later.
    fn reserve(&self, len_bytes: usize) -> Result<(), SegmentError> {
        let path = format!("{DIRECTORY}/{}", name(&self.id));
        let system = |error: io::Error| SegmentError::System {
            what: format!("fallocate of {path}").into(),
            len_bytes: len_bytes as u64,
            error,
        };
        let file = fs::File::options().write(true).open(&path).map_err(system)?;
        let reserved = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len_bytes as u64);
        reserved.map_err(|error| match super::room::tightest(Provider::Named) {
            Some((limit, has_bytes)) if error == Errno::NOSPC => SegmentError::NoMemory {
                need_bytes: len_bytes as u64,
                has_bytes,
                limit,
            },
            _ => system(error.into()),
        })
    }

    fn header(&self) -> Header<'_> {
        // SAFETY: a mapping starts at a page boundary and is at least as long as a page; it lives as long as `self`,
        // and no other code has a reference to its header.
        unsafe { Header::at(self.base) }
    }
}

impl Memory for Named {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len_bytes(&self) -> usize {
        self.shmem.len()
    }

    fn id(&self) -> Option<SegmentId> {
        Some(self.id.clone())
    }
}

/// Removes the names of segments whose makers are gone. Best effort: names that cannot be read or removed stay.
fn sweep() {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        return;
    };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some(rest) = file.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let pid = rest.split_once('-').and_then(|(pid, _)| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(true)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::segment::Segment;

    fn names_of(pid: u32) -> Vec<String> {
        let prefix = format!("{PREFIX}{pid}-");
        let entries = fs::read_dir(DIRECTORY).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&prefix)).collect()
    }

    #[test]
    fn a_name_is_private_and_goes_with_its_maker() {
        use std::os::unix::fs::PermissionsExt;
        let segment = Segment::create(Provider::Named, 4096).unwrap();
        let path = format!("{DIRECTORY}/{}", name(&segment.id().unwrap()));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let opened = Segment::open(&segment.id().unwrap()).unwrap();
        drop(opened);
        assert!(fs::exists(&path).unwrap(), "only its maker takes it away");
        drop(segment);
        assert!(!fs::exists(&path).unwrap());
    }

    #[test]
    fn what_a_killed_maker_left_is_swept() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let path = format!("{DIRECTORY}/{PREFIX}{pid}-0123456789abcdef");
        fs::write(&path, b"left behind").unwrap();
        let own = Segment::create(Provider::Named, 4096).unwrap();
        assert!(names_of(pid).is_empty());
        assert!(!names_of(std::process::id()).is_empty(), "the living keep theirs");
        drop(own);
    }
}
