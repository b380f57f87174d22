//! A bounds-checked part of a segment: the only way to its bytes.
//!
//! Invariants:
//! - `REG-1` offset and length lie inside the segment, and the offset is a multiple of 64.
//! - `REG-2` control words are accessed atomically only; payload bytes only by whom the ring's protocol allows.
#![allow(unsafe_code)] // turns checked offsets into references

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::error::SegmentError;
use crate::segment::Segment;

/// A part of a segment.
#[derive(Clone, Debug)]
pub struct Region {
    segment: Segment,
    offset: usize,
    len: usize,
}

impl Region {
    pub(crate) fn new(segment: Segment, offset: usize, len: usize) -> Result<Self, SegmentError> {
        let segment_bytes = segment.len_bytes();
        let fits = offset.checked_add(len).is_some_and(|end| end <= segment_bytes);
        if !fits || !offset.is_multiple_of(64) {
            return Err(SegmentError::OutOfBounds {
                offset,
                len_bytes: len,
                segment_bytes,
            });
        }
        Ok(Region { segment, offset, len })
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// A part of it, from a 64-byte boundary.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    pub fn sub(&self, offset: usize, len: usize) -> Result<Region, SegmentError> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !inside {
            return Err(self.out_of_bounds(offset, len));
        }
        Region::new(self.segment.clone(), self.offset + offset, len)
    }

    #[cold]
    fn out_of_bounds(&self, offset: usize, len_bytes: usize) -> SegmentError {
        SegmentError::OutOfBounds {
            offset,
            len_bytes,
            segment_bytes: self.len,
        }
    }

    #[inline]
    fn pointer(&self, offset: usize, len: usize, align: usize) -> Result<*mut u8, SegmentError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) || !offset.is_multiple_of(align) {
            return Err(self.out_of_bounds(offset, len));
        }
        // SAFETY: `self.offset + offset + len` lies inside the segment (REG-1 and the check above).
        Ok(unsafe { self.segment.base().as_ptr().add(self.offset + offset) })
    }

    /// The word at `offset`, to be accessed atomically.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], also when `offset` is not a multiple of 8.
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Result<&AtomicU64, SegmentError> {
        let pointer = self.pointer(offset, 8, 8)?;
        // SAFETY: in bounds, aligned (segment base and region start are multiples of 64), lives as long as the
        // segment that `self` holds, and by REG-2 never accessed but atomically.
        Ok(unsafe { AtomicU64::from_ptr(pointer.cast()) })
    }

    /// The half word at `offset`, to be accessed atomically.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], also when `offset` is not a multiple of 4.
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Result<&AtomicU32, SegmentError> {
        let pointer = self.pointer(offset, 4, 4)?;
        // SAFETY: as for `atomic_u64`.
        Ok(unsafe { AtomicU32::from_ptr(pointer.cast()) })
    }

    /// The bytes at `offset`, shared.
    ///
    /// # Safety
    /// Until the reference is dropped, nobody may write these bytes: the caller holds the slot they belong to
    /// (`RING-2`). A hostile process can break this; the bytes are then arbitrary, so callers validate what they
    /// read once and never rely on it for memory safety.
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> Result<&[u8], SegmentError> {
        let pointer = self.pointer(offset, len, 1)?;
        // SAFETY: in bounds and alive as long as `self`; not written meanwhile by the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
    }

    /// The bytes at `offset`, exclusively.
    ///
    /// # Safety
    /// Until the reference is dropped, nobody else may read or write these bytes: the caller is the writer and
    /// the slot they belong to is free (`RING-3`).
    #[inline]
    #[allow(clippy::mut_from_ref)] // exclusivity is the ring's protocol, not a borrow of the region
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> Result<&mut [u8], SegmentError> {
        let pointer = self.pointer(offset, len, 1)?;
        // SAFETY: in bounds and alive as long as `self`; exclusive by the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
    }
}
