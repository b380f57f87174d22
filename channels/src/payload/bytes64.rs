//! Bytes on a 64-byte boundary: what a tensor is made of.
#![allow(unsafe_code)] // owns raw aligned memory

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use super::frame::PART_ALIGN;

/// Bytes on a 64-byte boundary: ours, or somebody else's that are kept.
pub(super) struct Bytes64 {
    base: NonNull<u8>,
    len: usize,
    /// Whose they are, where they are not ours; never looked at again, and dropped with us.
    keeper: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY: owns its allocation alone, or keeps the owner of bytes that nobody writes, and gives them out under the rules
// of references.
unsafe impl Send for Bytes64 {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes64 {}

// A keeper is never looked at again, so a panic can leave nothing half done that anybody sees.
impl std::panic::UnwindSafe for Bytes64 {}
impl std::panic::RefUnwindSafe for Bytes64 {}

impl Bytes64 {
    /// Room for `len` bytes is never of size zero, so every block was allocated and can be freed.
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1), PART_ALIGN).ok()
    }

    /// So many zeros; `None` when there is no memory.
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        // SAFETY: the layout's size is at least one.
        let base = NonNull::new(unsafe { alloc_zeroed(Self::layout(len)?) })?;
        Some(Bytes64::own(base, len))
    }

    fn own(base: NonNull<u8>, len: usize) -> Self {
        Bytes64 {
            base,
            len,
            keeper: None,
        }
    }

    /// Whether bytes of others can be kept where they are.
    pub(super) fn can_keep(bytes: *const [u8]) -> bool {
        bytes.cast::<u8>().addr().is_multiple_of(PART_ALIGN)
    }

    /// Bytes that `keeper` keeps, if they lie on a 64-byte boundary.
    ///
    /// # Safety
    /// They must be valid and unwritten for as long as `keeper` exists, wherever it is moved.
    pub(super) unsafe fn kept(bytes: *const [u8], keeper: Box<dyn Any + Send + Sync>) -> Option<Self> {
        let base = NonNull::new(bytes.cast::<u8>().cast_mut())?;
        Self::can_keep(bytes).then(|| Bytes64 {
            base,
            len: bytes.len(),
            keeper: Some(keeper),
        })
    }

    /// Whether they may be written.
    fn is_own(&self) -> bool {
        self.keeper.is_none()
    }

    /// A copy of `bytes`; `None` when there is no memory.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the layout's size is at least one.
        let base = NonNull::new(unsafe { alloc(Self::layout(bytes.len())?) })?;
        // SAFETY: `base` has room for `bytes.len()` bytes and is fresh, so nothing overlaps.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.as_ptr(), bytes.len()) };
        Some(Bytes64::own(base, bytes.len()))
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes from `base`, initialised by the constructors or as `kept` demands, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes, to be written; none where they are somebody else's.
    pub(super) fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as for `as_slice`, borrowed exclusively, and ours.
        let bytes = |base: NonNull<u8>, len| unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) };
        self.is_own().then(|| bytes(self.base, self.len))
    }
}

impl Drop for Bytes64 {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len).filter(|_| self.is_own()) {
            // SAFETY: allocated with this layout by a constructor, freed only here.
            unsafe { dealloc(self.base.as_ptr(), layout) }
        }
    }
}
