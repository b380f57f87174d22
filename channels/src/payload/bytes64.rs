//! Bytes on a 64-byte boundary: what a tensor is made of.
#![allow(unsafe_code)] // owns raw aligned memory

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::frame::PART_ALIGN;

/// Bytes on a 64-byte boundary.
pub(super) struct Bytes64 {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: owns its allocation alone, and gives out its bytes under the rules of references.
unsafe impl Send for Bytes64 {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes64 {}

impl Bytes64 {
    /// Room for `len` bytes is never of size zero, so every block was allocated and can be freed.
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1), PART_ALIGN).ok()
    }

    /// So many zeros; `None` when there is no memory.
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        // SAFETY: the layout's size is at least one.
        let base = NonNull::new(unsafe { alloc_zeroed(Self::layout(len)?) })?;
        Some(Bytes64 { base, len })
    }

    /// A copy of `bytes`; `None` when there is no memory.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the layout's size is at least one.
        let base = NonNull::new(unsafe { alloc(Self::layout(bytes.len())?) })?;
        // SAFETY: `base` has room for `bytes.len()` bytes and is fresh, so nothing overlaps.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.as_ptr(), bytes.len()) };
        Some(Bytes64 {
            base,
            len: bytes.len(),
        })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes from `base`, initialised by the constructors, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Bytes64 {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout by a constructor, freed only here.
            unsafe { dealloc(self.base.as_ptr(), layout) }
        }
    }
}
