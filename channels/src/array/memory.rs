//! The mapping of one process.
#![allow(unsafe_code)] // keeps the address of the elements

use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use super::control::Control;
use super::error::ArrayError;
use crate::error::SegmentError;
use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment, SegmentId};
use crate::payload::DType;
use crate::platform::file_lock::LockedFile;
use crate::platform::mapped_file::{FileId, LentFile, MappedFile};

/// The form of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// The type of the elements.
    pub dtype: DType,
    /// The number of elements.
    pub len: usize,
    /// The number of parts. The processes of the first slots have one each.
    pub parts: usize,
    /// The number of processes that may map the array.
    pub slots: usize,
}

impl ArraySpec {
    fn data_bytes(&self) -> Result<usize, SegmentError> {
        let bytes = self.len.checked_mul(self.dtype.size_bytes());
        bytes.ok_or_else(SegmentError::unaddressable)
    }

    /// The offset of the control words' end in a segment.
    fn control_end(&self) -> Result<usize, SegmentError> {
        let words = Control::bytes(self.slots).ok_or_else(SegmentError::unaddressable)?;
        Ok(SEGMENT_HEADER_BYTES + words)
    }
}

/// The name by which another process of this host and user opens an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayMemoryId {
    segment: SegmentId,
    file: Option<FileId>,
}

/// The memory of the elements.
enum Elements {
    /// Behind the control words.
    Segment,
    File(MappedFile),
}

/// The mapping of an array in one process.
pub struct ArrayMemory {
    /// Holds the segment too. Dropped before the elements, like `segment`.
    pub(super) control: Control,
    pub(super) spec: ArraySpec,
    /// The slot of this process.
    pub(super) slot: usize,
    /// The address of the first element.
    pub(super) base: NonNull<u8>,
    /// Dropped before the elements, as `open` relies on: with this and `control`, the last owners of the maker's segment are gone while
    /// the lock of the file is still there.
    segment: Segment,
    elements: Elements,
}

// SAFETY: the mapping is owned; elements are accessed as ARR-1 says, and words atomically.
unsafe impl Send for ArrayMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for ArrayMemory {}

impl std::fmt::Debug for ArrayMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayMemory")
            .field("spec", &self.spec)
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

impl ArrayMemory {
    /// Makes a zeroed array without a name in any file system. This process enters `slot`.
    ///
    /// # Errors
    /// [`ArrayError::Memory`].
    pub fn create(spec: ArraySpec, slot: usize) -> Result<Self, ArrayError> {
        let total = spec.control_end()?.checked_add(spec.data_bytes()?);
        let total = total.ok_or_else(SegmentError::unaddressable)?;
        let segment = Segment::create(Provider::Memfd, total)?;
        Self::made(spec, slot, segment, Elements::Segment)
    }

    /// Makes an array of the first bytes of a file, which is long enough, and was locked by [`lock_to_make`](crate::platform::file_lock::lock_to_make). This process enters `slot`.
    ///
    /// The caller sees to it that no program writes or shortens the file as long as the array is mapped (`ARR-6`); the lock holds up
    /// only programs that ask for one. Elements that another program writes under a part, which is a plain slice, make the behaviour of this
    /// program undefined; through views they are just other numbers. Another process that shortens the file ends all that touch the
    /// elements that are gone, by SIGBUS.
    ///
    /// # Errors
    /// [`ArrayError::Memory`].
    pub fn of_file(
        spec: ArraySpec,
        slot: usize,
        file: LockedFile,
        is_writable: bool,
    ) -> Result<Self, ArrayError> {
        let mapped = MappedFile::new(file, spec.data_bytes()?, is_writable)?;
        let segment = Segment::create(Provider::Memfd, spec.control_end()?)?;
        Self::made(spec, slot, segment, Elements::File(mapped))
    }

    fn made(spec: ArraySpec, slot: usize, segment: Segment, elements: Elements) -> Result<Self, ArrayError> {
        let words = spec.control_end()? - SEGMENT_HEADER_BYTES;
        let region = segment.part(SEGMENT_HEADER_BYTES, words)?;
        let control = Control::format(region, &spec)?;
        Self::entered(spec, slot, segment, elements, control)
    }

    fn entered(
        spec: ArraySpec,
        slot: usize,
        segment: Segment,
        elements: Elements,
        control: Control,
    ) -> Result<Self, ArrayError> {
        control.enter(slot)?;
        let base = match &elements {
            // SAFETY: the segment is at least as long as the words, which end there.
            Elements::Segment => unsafe { segment.base().add(spec.control_end()?) },
            Elements::File(file) => file.base(),
        };
        Ok(ArrayMemory {
            control,
            spec,
            slot,
            base,
            segment,
            elements,
        })
    }

    /// Maps an array that another process of this host has made. This process enters `slot`.
    ///
    /// # Errors
    /// [`ArrayError::Memory`], also if a process has entered the slot before.
    pub fn open(id: &ArrayMemoryId, slot: usize) -> Result<Self, ArrayError> {
        // The file before the segment: the maker drops its segment first, so a segment that is there says that the maker's lock of the file was
        // there after our own.
        let file = id.file.as_ref().map(LentFile::open).transpose()?;
        let (segment, pid) = (Segment::open(&id.segment)?, id.segment.pid);
        let room = segment.len_bytes().saturating_sub(SEGMENT_HEADER_BYTES);
        let spec = Control::describe(&segment.part(SEGMENT_HEADER_BYTES, room)?, pid)?;
        let (words, bytes) = (spec.control_end()?, spec.data_bytes()?);
        let elements = match file {
            None => Elements::Segment,
            Some(file) => Elements::File(file.map(bytes)?),
        };
        let needed = match elements {
            Elements::Segment => words.checked_add(bytes),
            Elements::File(_) => Some(words),
        };
        if needed != Some(segment.len_bytes()) || slot >= spec.slots {
            return Err(ArrayError::Memory(SegmentError::Foreign {
                pid,
                what: "it is no array of that length",
            }));
        }
        let region = segment.part(SEGMENT_HEADER_BYTES, words - SEGMENT_HEADER_BYTES)?;
        let control = Control::attach(region, &spec);
        Self::entered(spec, slot, segment, elements, control)
    }

    /// The array's name, by which other processes open it while its maker keeps it.
    #[must_use]
    pub fn id(&self) -> Option<ArrayMemoryId> {
        let file = match &self.elements {
            Elements::Segment => None,
            Elements::File(file) => Some(file.id()),
        };
        let segment = self.segment.id()?;
        Some(ArrayMemoryId { segment, file })
    }

    /// The form of the array.
    #[must_use]
    pub fn spec(&self) -> ArraySpec {
        self.spec
    }

    /// The slot of this process.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Whether elements can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        match &self.elements {
            Elements::Segment => true,
            Elements::File(file) => file.is_writable(),
        }
    }

    /// Refuses an array that was opened for reading alone.
    ///
    /// # Errors
    /// [`ArrayError::ReadOnly`].
    pub fn writable(&self) -> Result<(), ArrayError> {
        match self.is_writable() {
            true => Ok(()),
            false => Err(ArrayError::ReadOnly),
        }
    }

    /// Whether the elements are of this type.
    pub(super) fn check(&self, wanted: DType) -> Result<(), ArrayError> {
        let has = self.spec.dtype;
        match has == wanted {
            true => Ok(()),
            false => Err(ArrayError::WrongType { has, wanted }),
        }
    }

    /// The place of an element.
    #[inline]
    pub(super) fn out_of_bounds(&self, index: usize) -> ArrayError {
        let len = self.spec.len;
        ArrayError::OutOfBounds { index, len }
    }
}
