//! Regions: bounds-checked parts of a segment, and the only access to its bytes. Safe code outside this crate cannot
//! get one ([`Segment::region`] is `unsafe`), because a region of a live channel reaches the bytes that a reader has
//! lent.
//!
//! Invariants:
//! - `REG-1` the region lies inside the segment, and its offset is a multiple of 64.
//! - `REG-2` control words are accessed only atomically, and each with one width; payload bytes only by the endpoint that
//!   the protocol of their memory allows. The bytes of a slot's header behind its length (`shared/layout.rs`) are one or the
//!   other by turns: payload of a short message, accessed plainly, or the words that name a grown generation. The writer
//!   changes them only between the last tail and the next stamp, and a reader accesses them, as `meta` says, only between
//!   the stamp and its tail (`RING-2`, `RING-3`). Both are release and acquire, so no plain access meets another one.
//!
//! A process that maps a segment can write all of it: Rust cannot guard one process from another. The processes of one
//! host and user have the guarantee that arbitrary *contents* do no harm, also if they change while a value is decoded from
//! them: every number is read once, and text is checked after it was copied. They have no guarantee for what is read in
//! place: references to a slot, such as those of `View::text` and `View::slice`, and tensors in shared memory, promise the
//! compiler that no peer writes there.
#![allow(unsafe_code)] // turns checked offsets into references

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::error::SegmentError;
use crate::memory::segment::{Provider, Segment};

/// The alignment of a region's start. A region may have any length.
const ALIGN: usize = 64;

/// A part of a segment. It keeps the segment alive.
#[derive(Clone, Debug)]
pub struct Region {
    /// The address of the region's start, so that access to a word costs one comparison and one addition.
    base: NonNull<u8>,
    len: usize,
    offset: usize,
    segment: Segment,
}

// SAFETY: `base` points into `segment`, which is Send and Sync; words are accessed atomically, and bytes only by the
// endpoint that the ring's protocol allows (REG-2).
unsafe impl Send for Region {}
// SAFETY: as for `Send`.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(segment: Segment, offset: usize, len: usize) -> Result<Self, SegmentError> {
        let segment_bytes = segment.len_bytes();
        let fits = offset.checked_add(len).is_some_and(|end| end <= segment_bytes);
        if !fits || !offset.is_multiple_of(ALIGN) {
            return Err(SegmentError::OutOfBounds {
                offset,
                len_bytes: len,
                segment_bytes,
            });
        }
        // SAFETY: `offset` is inside the segment, or one past its end when `len` is zero.
        let base = unsafe { segment.base().add(offset) };
        Ok(Region {
            base,
            len,
            offset,
            segment,
        })
    }

    /// The provider of further memory for the same channel.
    pub(crate) fn provider(&self) -> Provider {
        self.segment.provider()
    }

    /// The length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// The part of `len` bytes at `offset`, which must be a multiple of 64.
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
        // SAFETY: `offset + len` lies inside the region, which lies inside the segment (REG-1).
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }

    /// The word at `offset`, for atomic access. A word has one width: do not mix with [`atomic_u32`](Self::atomic_u32)
    /// at the same place.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], also when `offset` is not a multiple of 8.
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Result<&AtomicU64, SegmentError> {
        let pointer = self.pointer(offset, 8, 8)?;
        // SAFETY: in bounds; aligned (segment base and region start are multiples of 64); lives as long as the segment
        // that `self` holds; and by REG-2 no access that is plain, or of another width, is concurrent with one through the
        // reference: the bytes are a control word, or the caller's turn with the bytes of a header has come.
        Ok(unsafe { AtomicU64::from_ptr(pointer.cast()) })
    }

    /// The `N` words from `offset` on, each as with [`atomic_u64`](Self::atomic_u64), with one bounds check.
    ///
    /// # Errors
    /// The errors of [`atomic_u64`](Self::atomic_u64).
    #[inline]
    pub fn atomics<const N: usize>(&self, offset: usize) -> Result<&[AtomicU64; N], SegmentError> {
        let pointer = self.pointer(offset, 8 * N, 8)?;
        // SAFETY: as for `atomic_u64`, for each of the words; an `AtomicU64` is a word, without padding.
        Ok(unsafe { &*pointer.cast::<[AtomicU64; N]>() })
    }

    /// The half word at `offset`, for atomic access.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], also when `offset` is not a multiple of 4.
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Result<&AtomicU32, SegmentError> {
        let pointer = self.pointer(offset, 4, 4)?;
        // SAFETY: as for `atomic_u64`; a word that is accessed by halves is never accessed as a whole (REG-2).
        Ok(unsafe { AtomicU32::from_ptr(pointer.cast()) })
    }

    /// The address of `len` bytes at `offset`, for callers that read and write these bytes in turns with others.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    #[inline]
    pub fn address(&self, offset: usize, len: usize) -> Result<*mut u8, SegmentError> {
        self.pointer(offset, len, 1)
    }

    /// The bytes at `offset`, as a shared slice.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    ///
    /// # Safety
    /// Until the reference is dropped, no thread or process may write these bytes: the caller holds the slot that
    /// contains them (`RING-2`).
    #[inline]
    pub unsafe fn bytes(&self, offset: usize, len: usize) -> Result<&[u8], SegmentError> {
        let pointer = self.pointer(offset, len, 1)?;
        // SAFETY: in bounds and alive as long as `self`; not written in the meantime, by the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
    }

    /// The bytes at `offset`, as an exclusive slice.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    ///
    /// # Safety
    /// Until the reference is dropped, no other thread or process may read or write these bytes: the caller is the
    /// writer, and the slot that contains them is free (`RING-3`).
    #[inline]
    #[allow(clippy::mut_from_ref)] // the ring's protocol makes the access exclusive, not a borrow of the region
    pub unsafe fn bytes_mut(&self, offset: usize, len: usize) -> Result<&mut [u8], SegmentError> {
        let pointer = self.pointer(offset, len, 1)?;
        // SAFETY: in bounds and alive as long as `self`; exclusive by the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::segment::{Provider, Segment};

    #[test]
    fn a_region_ends_where_it_says() {
        let segment = Segment::create(Provider::Heap, 256).unwrap();
        assert!(segment.part(64, 193).is_err());
        assert!(segment.part(32, 64).is_err());
        assert!(segment.part(usize::MAX - 63, 64).is_err());
        let region = segment.part(128, 128).unwrap();
        assert!(region.sub(64, 65).is_err());
        assert!(region.sub(usize::MAX, 2).is_err());
        assert!(region.sub(64, 64).is_ok());
        assert!(region.sub(128, 0).is_ok());
        for (offset, fits) in [
            (0, true),
            (120, true),
            (124, false),
            (121, false),
            (usize::MAX, false),
        ] {
            assert_eq!(region.atomic_u64(offset).is_ok(), fits, "{offset}");
        }
        assert!(region.atomic_u32(124).is_ok());
        assert!(region.atomic_u32(126).is_err());
    }
}
