//! Segments in anonymous files (memfd). Another process opens the file through `/proc/<pid>/fd/<fd>`, which needs the
//! same user and a mounted `/proc`; its mapping then no longer depends on the process that made the segment. The file
//! is sealed against changes of its size, so a peer cannot turn reads of this process into SIGBUS. The file has no
//! name, so no segment can be left behind.
#![allow(unsafe_code)] // maps memory

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::io::Errno;

use super::header::{Header, fresh_nonce};
use crate::error::SegmentError;
use crate::memory::segment::{Memory, SEGMENT_HEADER_BYTES, SegmentId};

pub(super) struct Memfd {
    map: MmapRaw,
    base: NonNull<u8>,
    /// The name by which others open the file; `None` if this process has it by a descriptor that was passed.
    id: Option<SegmentId>,
    /// The file, which the process that made the segment keeps so that others can open it; `None` elsewhere.
    file: Option<File>,
}

// SAFETY: the mapping is owned; all access to its bytes goes through `Region`.
unsafe impl Send for Memfd {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memfd {}

pub(super) fn system(
    what: impl Into<Cow<'static, str>>,
    len_bytes: usize,
) -> impl FnOnce(io::Error) -> SegmentError {
    let what = what.into();
    move |error| SegmentError::System {
        what,
        len_bytes: len_bytes as u64,
        error,
    }
}

/// Makes a memfd that can be sealed and never executed. Kernels before 6.3 do not support the latter; there it is only
/// sealable.
pub(super) fn anonymous_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("selvedge", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create("selvedge", flags)?),
        made => Ok(made?),
    }
}

/// Opens the file that process `pid` has at descriptor `fd`.
pub(super) fn opened(pid: u32, fd: i32, is_writable: bool, len_bytes: usize) -> Result<File, SegmentError> {
    // The descriptor may have been reused by now, for example for a pipe without a writer: the open must not block.
    let path = format!("/proc/{pid}/fd/{fd}");
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .write(is_writable)
        .custom_flags(flags.bits().cast_signed())
        .open(&path);
    file.map_err(|source| system(format!("opening {path}"), len_bytes)(source))
}

/// Maps the first bytes of a file. Returns the mapping with its address.
pub(super) fn mapped(
    file: &File,
    len_bytes: usize,
    is_writable: bool,
) -> Result<(MmapRaw, NonNull<u8>), SegmentError> {
    let mut options = MmapOptions::new();
    let options = options.len(len_bytes);
    let map = match is_writable {
        true => options.map_raw(file),
        false => options.map_raw_read_only(file),
    };
    let map = map.map_err(system("mmap", len_bytes))?;
    let base = NonNull::new(map.as_mut_ptr());
    let base = base.ok_or_else(|| system("mmap", len_bytes)(io::ErrorKind::OutOfMemory.into()))?;
    Ok((map, base))
}

/// Checks that a file of process `pid` cannot shrink, and has this length.
pub(super) fn check_file(file: &File, len_bytes: usize, pid: u32) -> Result<(), SegmentError> {
    let foreign = |what| SegmentError::Foreign { pid, what };
    let seals = fcntl_get_seals(file).map_err(|_| foreign("it has no seals"))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(foreign("it is not sealed against shrinking"));
    }
    // The length means something only after the check that the file cannot shrink.
    let metadata = file.metadata().map_err(system("stat", len_bytes))?;
    if metadata.len() != len_bytes as u64 || len_bytes < SEGMENT_HEADER_BYTES {
        return Err(foreign("its length differs"));
    }
    Ok(())
}

/// Makes a file without a name, whose length never changes, and the identity by which other processes open it.
pub(super) fn sealed_file(len_bytes: usize) -> Result<(File, SegmentId), SegmentError> {
    let fd = anonymous_file().map_err(system("memfd_create", len_bytes))?;
    ftruncate(&fd, len_bytes as u64).map_err(|error| system("ftruncate", len_bytes)(error.into()))?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(|error| system("fcntl(F_ADD_SEALS)", len_bytes)(error.into()))?;
    let file = File::from(fd);
    let id = SegmentId {
        pid: std::process::id(),
        fd: file.as_raw_fd(),
        nonce: fresh_nonce(),
        len_bytes: len_bytes as u64,
    };
    Ok((file, id))
}

impl Memfd {
    pub(super) fn create(len_bytes: usize) -> Result<Self, SegmentError> {
        let (file, id) = sealed_file(len_bytes)?;
        let mut memfd = Memfd::map(&file, len_bytes)?;
        memfd.header().write(id.nonce);
        memfd.id = Some(id);
        memfd.file = Some(file);
        Ok(memfd)
    }

    /// Gives up the mapping, and returns the file, which this process has made.
    pub(super) fn into_descriptor(self) -> Option<OwnedFd> {
        self.file.map(OwnedFd::from)
    }

    pub(super) fn open(id: &SegmentId) -> Result<Self, SegmentError> {
        let len_bytes = usize::try_from(id.len_bytes).unwrap_or(usize::MAX);
        let file = opened(id.pid, id.fd, true, len_bytes)?;
        let mut memfd = Memfd::of_file(&file, len_bytes, id.pid, |header| header.is(id.nonce))?;
        memfd.id = Some(id.clone());
        Ok(memfd)
    }

    /// Maps a segment whose descriptor another process has passed to this one. Others cannot open it by its id.
    pub(super) fn of_descriptor(descriptor: OwnedFd) -> Result<Self, SegmentError> {
        let file = File::from(descriptor);
        let metadata = file.metadata().map_err(system("stat", 0))?;
        let len_bytes = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let me = std::process::id();
        Memfd::of_file(&file, len_bytes, me, |header| header.is_made())
    }

    /// Maps a file if it is the segment that was meant, of process `pid`.
    fn of_file(
        file: &File,
        len_bytes: usize,
        pid: u32,
        is_meant: impl FnOnce(&Header<'_>) -> bool,
    ) -> Result<Self, SegmentError> {
        check_file(file, len_bytes, pid)?;
        let memfd = Memfd::map(file, len_bytes)?;
        if !is_meant(&memfd.header()) {
            let what = "its descriptor has been reused";
            return Err(SegmentError::Foreign { pid, what });
        }
        Ok(memfd)
    }

    fn map(file: &File, len_bytes: usize) -> Result<Self, SegmentError> {
        let (map, base) = mapped(file, len_bytes, true)?;
        Ok(Memfd {
            map,
            base,
            id: None,
            file: None,
        })
    }

    fn header(&self) -> Header<'_> {
        // SAFETY: the mapping is page-aligned, at least `SEGMENT_HEADER_BYTES` long and lives as long as `self`; no
        // other code has a reference to its header.
        unsafe { Header::at(self.base) }
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
        self.id.clone()
    }
}
