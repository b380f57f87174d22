//! Bytes on a 64-byte boundary: what a tensor is made of.
#![allow(unsafe_code)] // owns raw aligned memory

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use super::frame::PART_ALIGN;

/// So many bytes are few.
const FEW: usize = 4096;

/// Bytes on a 64-byte boundary: ours, or somebody else's that are kept.
pub(super) struct Bytes64 {
    base: NonNull<u8>,
    len: usize,
    /// Bytes between the begin of the allocation and `base`.
    skipped: u8,
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
    /// What is allocated for `len` bytes, never nothing, so that every block was allocated and can be freed. Few bytes are
    /// allocated with room to find a boundary in: allocators are several times as fast where they need not look for one.
    fn layout(len: usize) -> Option<Layout> {
        if len <= FEW {
            return Layout::from_size_align(len + PART_ALIGN, 1).ok();
        }
        Layout::from_size_align(len, PART_ALIGN).ok()
    }

    /// Room for so many bytes; `None` when there is no memory.
    fn allocated(len: usize, allocate: unsafe fn(Layout) -> *mut u8) -> Option<Self> {
        // SAFETY: the layout's size is not zero.
        let begin = NonNull::new(unsafe { allocate(Self::layout(len)?) })?;
        let skipped = if len <= FEW {
            begin.addr().get().wrapping_neg() % PART_ALIGN
        } else {
            0
        };
        Some(Bytes64 {
            // SAFETY: fewer bytes are skipped than were allocated beyond `len`.
            base: unsafe { begin.add(skipped) },
            len,
            skipped: skipped as u8,
            keeper: None,
        })
    }

    /// So many zeros; `None` when there is no memory.
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        if len > FEW {
            return Self::allocated(len, alloc_zeroed);
        }
        // Allocators keep few bytes at hand that need not be zero.
        let few = Self::allocated(len, alloc)?;
        // SAFETY: there is room for `len` bytes that are nobody else's.
        unsafe { few.base.as_ptr().write_bytes(0, len) };
        Some(few)
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
            skipped: 0,
            keeper: Some(keeper),
        })
    }

    /// Whether they may be written.
    fn is_own(&self) -> bool {
        self.keeper.is_none()
    }

    /// A copy of `bytes`; `None` when there is no memory.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        let copy = Self::allocated(bytes.len(), alloc)?;
        // SAFETY: it has room for `bytes.len()` bytes and is fresh, so nothing overlaps.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.base.as_ptr(), bytes.len()) };
        Some(copy)
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
            // SAFETY: so many bytes behind the begin of the allocation.
            let begin = unsafe { self.base.sub(usize::from(self.skipped)) };
            // SAFETY: allocated with this layout by a constructor, freed only here.
            unsafe { dealloc(begin.as_ptr(), layout) }
        }
    }
}
