//! A segment in an anonymous file. Another process opens it through `/proc/<pid>/fd/<fd>`, which needs the same
//! user and a mounted `/proc`; once mapped it no longer depends on the maker. Sealed against shrinking, so a peer
//! cannot turn our reads into SIGBUS.
#![allow(unsafe_code)] // maps memory

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};

use super::{Memory, SegmentId};
use crate::error::SegmentError;

const MAGIC: u64 = u64::from_le_bytes(*b"selvedg1");

pub(super) struct Memfd {
    map: MmapRaw,
    /// Kept by the maker only, so that others can open it.
    file: Option<File>,
    base: NonNull<u8>,
    nonce: u64,
}

// SAFETY: the mapping is owned; all access to its bytes goes through `Region`.
unsafe impl Send for Memfd {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memfd {}

fn system(what: &'static str, len_bytes: usize) -> impl Fn(io::Error) -> SegmentError {
    move |source| SegmentError::System {
        what,
        len_bytes: len_bytes as u64,
        source,
    }
}

/// Different for every segment of every process with overwhelming likelihood.
fn fresh_nonce() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one((std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

impl Memfd {
    pub(super) fn create(len_bytes: usize) -> Result<Self, SegmentError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd: OwnedFd = memfd_create("selvedge", flags)
            .map_err(|error| system("memfd_create", len_bytes)(error.into()))?;
        ftruncate(&fd, len_bytes as u64).map_err(|error| system("ftruncate", len_bytes)(error.into()))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(|error| system("sealing", len_bytes)(error.into()))?;
        let file = File::from(fd);
        let mut memfd = Memfd::map(&file, len_bytes)?;
        memfd.nonce = fresh_nonce();
        let [magic, _, nonce] = memfd.header();
        nonce.store(memfd.nonce, Ordering::Relaxed);
        magic.store(MAGIC, Ordering::Release);
        memfd.file = Some(file);
        Ok(memfd)
    }

    pub(super) fn open(id: &SegmentId) -> Result<Self, SegmentError> {
        let len_bytes = usize::try_from(id.len_bytes).unwrap_or(usize::MAX);
        let foreign = |what| SegmentError::Foreign { pid: id.pid, what };
        let path = format!("/proc/{}/fd/{}", id.pid, id.fd);
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .open(path)
            .map_err(system("opening", len_bytes))?;
        let metadata = file.metadata().map_err(system("stat", len_bytes))?;
        if metadata.len() != id.len_bytes || len_bytes < super::SEGMENT_HEADER_BYTES {
            return Err(foreign("its length differs"));
        }
        let seals = fcntl_get_seals(&file).map_err(|_| foreign("it has no seals"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(foreign("it is not sealed against shrinking"));
        }
        let mut memfd = Memfd::map(&file, len_bytes)?;
        let [magic, _, nonce] = memfd.header();
        if magic.load(Ordering::Acquire) != MAGIC || nonce.load(Ordering::Relaxed) != id.nonce {
            return Err(foreign("its descriptor has been reused"));
        }
        memfd.nonce = id.nonce;
        Ok(memfd)
    }

    fn map(file: &File, len_bytes: usize) -> Result<Self, SegmentError> {
        let map = MmapOptions::new()
            .len(len_bytes)
            .map_raw(file.as_raw_fd())
            .map_err(system("mmap", len_bytes))?;
        let base = NonNull::new(map.as_mut_ptr());
        let base = base.ok_or_else(|| system("mmap", len_bytes)(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Memfd {
            map,
            file: None,
            base,
            nonce: 0,
        })
    }

    fn header(&self) -> [&AtomicU64; 3] {
        let word = |index: usize| {
            // SAFETY: the mapping is page-aligned and at least `SEGMENT_HEADER_BYTES` (64) long; `index` < 3.
            let pointer = unsafe { self.base.as_ptr().cast::<u64>().add(index) };
            // SAFETY: aligned and inside the mapping, which lives as long as `self`; only accessed atomically.
            unsafe { AtomicU64::from_ptr(pointer) }
        };
        [word(0), word(1), word(2)]
    }
}

impl Memory for Memfd {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len_bytes(&self) -> usize {
        self.map.len()
    }

    fn id(&self) -> Option<SegmentId> {
        let fd = self.file.as_ref()?.as_raw_fd();
        Some(SegmentId {
            pid: std::process::id(),
            fd,
            nonce: self.nonce,
            len_bytes: self.map.len() as u64,
        })
    }
}
