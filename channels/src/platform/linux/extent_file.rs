//! Memory that a host's processes share and lend to each other in extents: a memfd of fixed length that has pages only where
//! they are asked for. Every process maps all of it with the right to read; views lie there. A process that fills extents maps it once
//! more, with the right to write, and reaches that mapping by way of what it has borrowed alone.
//!
//! One mapping whose rights change with each loan would be stricter. Each change visits every page of the extent, and takes about as
//! long as the copy that fills it.
//!
//! A process opens the file as it opens a segment, through `/proc/<pid>/fd/<fd>`. The file has no name, so nothing can be left
//! behind.
//!
//! Invariants:
//! - `EXTENT-1` the file never changes its length (it is sealed), so an access within it is never beyond its end.
//! - `EXTENT-2` an extent is lent to one borrower at a time, after its pages were reserved, and is read by others only after the
//!   loan has ended. The host agent's store keeps this.
#![allow(unsafe_code)] // maps memory

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use memmap2::MmapRaw;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::param::page_size;

use super::header::Header;
use super::memfd::{check_file, mapped, opened, sealed_file, system};
use super::room;
use crate::error::SegmentError;
use crate::memory::segment::{Provider, SegmentId};

/// The bytes before the first extent, which hold the header.
const BEFORE: usize = 64 << 10;

/// Shared memory that is lent in extents.
pub struct ExtentFile {
    file: File,
    map: MmapRaw,
    base: NonNull<u8>,
    /// The mapping for what is filled, with its address, once something was.
    writable: OnceLock<(MmapRaw, NonNull<u8>)>,
    id: SegmentId,
}

// SAFETY: the mapping is owned; its bytes are reached through `LentExtent` and `ExtentView`, whose makers promise that no two
// accesses conflict (EXTENT-2).
unsafe impl Send for ExtentFile {}
// SAFETY: as for `Send`.
unsafe impl Sync for ExtentFile {}

impl std::fmt::Debug for ExtentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtentFile").field("id", &self.id).finish()
    }
}

impl ExtentFile {
    /// Makes memory of `len_bytes` without pages. Extents begin and end at multiples of `unit_bytes`.
    ///
    /// # Errors
    /// [`SegmentError::NoMemory`] if a limit of the system is lower, [`SegmentError::System`], and
    /// [`SegmentError::Unsupported`] if the pages of the system are larger than the unit.
    pub fn create(len_bytes: usize, unit_bytes: usize) -> Result<Arc<Self>, SegmentError> {
        if !unit_bytes.is_multiple_of(page_size()) {
            return Err(SegmentError::Unsupported);
        }
        let len_bytes = len_bytes.saturating_add(BEFORE);
        room::check(Provider::Memfd, len_bytes)?;
        let (file, id) = sealed_file(len_bytes)?;
        let header = Header::bytes(id.nonce);
        file.write_all_at(&header, 0)
            .map_err(system("write", header.len()))?;
        Self::map(file, id).map(Arc::new)
    }

    /// Maps the memory that another process of this host has made.
    ///
    /// # Errors
    /// [`SegmentError::System`] if the process or descriptor is gone, [`SegmentError::Foreign`] if the descriptor does not name the
    /// memory that was meant.
    pub fn open(id: &SegmentId) -> Result<Arc<Self>, SegmentError> {
        let len_bytes = usize::try_from(id.len_bytes).unwrap_or(usize::MAX);
        let foreign = |what| SegmentError::Foreign { pid: id.pid, what };
        if len_bytes < BEFORE {
            return Err(foreign("it is too short"));
        }
        let file = opened(id.pid, id.fd, true, len_bytes)?;
        check_file(&file, len_bytes, id.pid)?;
        let opened = Self::map(file, id.clone())?;
        // SAFETY: the mapping is page-aligned, longer than a header and lives as long as `opened`; nobody writes the header
        // after its maker has.
        let header = unsafe { Header::at(opened.base) };
        match header.is(id.nonce) {
            true => Ok(Arc::new(opened)),
            false => Err(foreign("its descriptor has been reused")),
        }
    }

    fn map(file: File, id: SegmentId) -> Result<Self, SegmentError> {
        let len_bytes = usize::try_from(id.len_bytes).unwrap_or(usize::MAX);
        let (map, base) = mapped(&file, len_bytes, false)?;
        Ok(ExtentFile {
            file,
            map,
            base,
            writable: OnceLock::new(),
            id,
        })
    }

    /// The identity by which other processes open the memory while its maker keeps it.
    #[must_use]
    pub fn id(&self) -> &SegmentId {
        &self.id
    }

    /// The bytes of all extents.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.map.len().saturating_sub(BEFORE)
    }

    /// The place of an extent in the file, if it lies in it.
    fn place(&self, offset: u64, len_bytes: usize) -> Result<usize, SegmentError> {
        let begin = usize::try_from(offset)
            .ok()
            .and_then(|offset| offset.checked_add(BEFORE));
        let fits = |begin: &usize| {
            begin
                .checked_add(len_bytes)
                .is_some_and(|end| end <= self.map.len())
        };
        begin.filter(fits).ok_or(SegmentError::OutOfBounds {
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            len_bytes,
            segment_bytes: self.len_bytes(),
        })
    }

    fn pointer(&self, offset: u64, len_bytes: usize) -> Result<NonNull<u8>, SegmentError> {
        let place = self.place(offset, len_bytes)?;
        // SAFETY: `place + len_bytes` lies within the mapping.
        Ok(unsafe { self.base.add(place) })
    }

    /// Reserves the pages of an extent, so that no access to them ends in a signal because the system has none left.
    ///
    /// # Errors
    /// [`SegmentError::System`] if it has none left, [`SegmentError::OutOfBounds`].
    pub fn reserve(&self, offset: u64, len_bytes: usize) -> Result<(), SegmentError> {
        self.allocate(FallocateFlags::empty(), offset, len_bytes)
    }

    /// Gives the pages of an extent back to the system. Its bytes are zero then.
    ///
    /// # Errors
    /// [`SegmentError::System`], [`SegmentError::OutOfBounds`].
    pub fn punch(&self, offset: u64, len_bytes: usize) -> Result<(), SegmentError> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.allocate(flags, offset, len_bytes)
    }

    fn allocate(&self, flags: FallocateFlags, offset: u64, len_bytes: usize) -> Result<(), SegmentError> {
        let place = self.place(offset, len_bytes)? as u64;
        loop {
            match fallocate(&self.file, flags, place, len_bytes as u64) {
                Err(rustix::io::Errno::INTR) => {}
                done => return done.map_err(|error| system("fallocate", len_bytes)(error.into())),
            }
        }
    }

    /// Borrows an extent, which this process fills until the loan is dropped.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], [`SegmentError::System`].
    ///
    /// # Safety
    /// `EXTENT-2`: the pages of the extent are reserved, and until the loan is dropped nobody else reads or writes it.
    pub unsafe fn lend(self: &Arc<Self>, offset: u64, len_bytes: usize) -> Result<LentExtent, SegmentError> {
        let place = self.place(offset, len_bytes)?;
        if self.writable.get().is_none() {
            // Another thread may have been faster; then its mapping is used.
            let _ = self.writable.set(mapped(&self.file, self.map.len(), true)?);
        }
        let (_, begin) = self.writable.get().ok_or(SegmentError::Unsupported)?;
        Ok(LentExtent {
            _memory: Arc::clone(self),
            // SAFETY: `place + len_bytes` lies within the file, all of which is mapped.
            base: unsafe { begin.add(place) },
            len_bytes,
        })
    }

    /// The bytes at a place, for as long as the view exists.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    ///
    /// # Safety
    /// `EXTENT-2`: as long as the view exists nobody writes these bytes, and their pages stay.
    pub unsafe fn view(self: &Arc<Self>, offset: u64, len_bytes: usize) -> Result<ExtentView, SegmentError> {
        Ok(ExtentView {
            base: self.pointer(offset, len_bytes)?,
            len_bytes,
            _memory: Arc::clone(self),
        })
    }
}

/// An extent that this process has borrowed and fills.
pub struct LentExtent {
    _memory: Arc<ExtentFile>,
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the borrower alone reaches the bytes, by `lend`'s contract.
unsafe impl Send for LentExtent {}

impl LentExtent {
    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: mapped as long as `_memory` lives, and nobody else's (EXTENT-2).
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len_bytes) }
    }
}

/// Bytes of an extent that nobody writes.
pub struct ExtentView {
    base: NonNull<u8>,
    len_bytes: usize,
    _memory: Arc<ExtentFile>,
}

// SAFETY: the bytes are only read, and nobody writes them as long as the view exists (EXTENT-2).
unsafe impl Send for ExtentView {}
// SAFETY: as for `Send`.
unsafe impl Sync for ExtentView {}

impl AsRef<[u8]> for ExtentView {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped as long as `_memory` lives, and not written, by the promise of who made the view.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len_bytes) }
    }
}

#[cfg(all(test, not(miri)))] // Miri has no memfd
mod tests {
    use super::*;

    const UNIT: usize = 16 << 10;

    #[test]
    fn rstore_09_what_one_filled_another_reads_and_pages_come_and_go_with_extents() {
        let memory = ExtentFile::create(64 * UNIT, UNIT).unwrap();
        let blocks =
            || std::os::unix::fs::MetadataExt::blocks(&memory.file.metadata().unwrap()) as usize * 512;
        assert!(blocks() < UNIT, "it has no pages but that of its header");
        memory.reserve(UNIT as u64, 2 * UNIT).unwrap();
        // SAFETY: reserved, and nobody else's.
        let mut lent = unsafe { memory.lend(UNIT as u64, 2 * UNIT) }.unwrap();
        lent.as_mut_slice().fill(7);
        drop(lent);
        let other = ExtentFile::open(memory.id()).unwrap();
        // SAFETY: nobody writes it any more.
        let view = unsafe { other.view(UNIT as u64, 2 * UNIT) }.unwrap();
        assert!(view.as_ref().iter().all(|byte| *byte == 7));
        assert!(blocks() >= 2 * UNIT);
        drop(view);
        memory.punch(UNIT as u64, 2 * UNIT).unwrap();
        assert!(blocks() < UNIT);
    }

    #[test]
    fn what_lies_outside_or_is_another_file_is_refused() {
        let memory = ExtentFile::create(4 * UNIT, UNIT).unwrap();
        for (offset, len) in [
            (0, 4 * UNIT + 1),
            (4 * UNIT as u64, 1),
            (u64::MAX, 1),
            (1, usize::MAX),
        ] {
            assert!(memory.reserve(offset, len).is_err(), "{offset} {len}");
        }
        let id = memory.id().clone();
        let wrong = [
            SegmentId {
                nonce: !id.nonce,
                ..id.clone()
            },
            SegmentId {
                len_bytes: id.len_bytes + 1,
                ..id.clone()
            },
            SegmentId {
                len_bytes: 8,
                ..id.clone()
            },
            SegmentId { fd: -1, ..id.clone() },
        ];
        for id in wrong {
            assert!(ExtentFile::open(&id).is_err(), "{id:?}");
        }
        assert!(ExtentFile::create(usize::MAX / 2, UNIT).is_err());
        assert!(ExtentFile::create(4 * UNIT, 100).is_err());
    }
}
