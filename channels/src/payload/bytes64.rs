//! Bytes on a 64-byte boundary, the memory of tensors.
#![allow(unsafe_code)] // owns raw aligned memory

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use super::frame::PART_ALIGN;

/// The maximum length of a small allocation, in bytes.
const FEW: usize = 4096;

/// Bytes on a 64-byte boundary: owned, or kept alive for another owner.
pub(super) struct Bytes64 {
    base: NonNull<u8>,
    len: usize,
    /// The number of bytes between the start of the allocation and `base`.
    skipped: u8,
    /// The owner of the bytes, if they are not owned here. Never accessed; dropped together with this struct.
    keeper: Option<Box<dyn Any + Send + Sync>>,
    /// Whether the drop of the keeper may run user code.
    is_users: bool,
}

// SAFETY: owns its allocation alone, or keeps the owner of bytes that are not written, and hands the bytes out under
// the rules of references.
unsafe impl Send for Bytes64 {}
// SAFETY: see `Send`.
unsafe impl Sync for Bytes64 {}

// A keeper is never accessed, so no code can see one that a panic has left half changed.
impl std::panic::UnwindSafe for Bytes64 {}
impl std::panic::RefUnwindSafe for Bytes64 {}

impl Bytes64 {
    /// The layout of the allocation for `len` bytes. Its size is never 0, so every block was allocated and can be
    /// freed. Small blocks are allocated unaligned, with enough extra room to contain a boundary: allocators are
    /// several times as fast without an alignment.
    fn layout(len: usize) -> Option<Layout> {
        if len <= FEW {
            return Layout::from_size_align(len + PART_ALIGN, 1).ok();
        }
        Layout::from_size_align(len, PART_ALIGN).ok()
    }

    /// Allocates room for `len` bytes. Returns `None` if there is no memory.
    fn allocated(len: usize, allocate: unsafe fn(Layout) -> *mut u8) -> Option<Self> {
        // SAFETY: `allocate` is `alloc` or `alloc_zeroed`. Both require a size that is not 0, and `layout` returns no other:
        // it adds `PART_ALIGN` to a short length, and a longer length is more than `FEW`.
        let begin = NonNull::new(unsafe { allocate(Self::layout(len)?) })?;
        let skipped = if len <= FEW {
            begin.addr().get().wrapping_neg() % PART_ALIGN
        } else {
            0
        };
        Some(Bytes64 {
            // SAFETY: the number of skipped bytes is less than the extra room beyond `len`.
            base: unsafe { begin.add(skipped) },
            len,
            skipped: skipped as u8,
            keeper: None,
            is_users: false,
        })
    }

    /// Allocates `len` zeros. Returns `None` if there is no memory.
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        if len > FEW {
            return Self::allocated(len, alloc_zeroed);
        }
        // Allocators reuse small blocks, which need not be zero.
        let few = Self::allocated(len, alloc)?;
        // SAFETY: there is room for `len` bytes, which no other code accesses.
        unsafe { few.base.as_ptr().write_bytes(0, len) };
        Some(few)
    }

    /// Whether bytes of another owner can be used where they are: they start on a 64-byte boundary.
    pub(super) fn can_keep(bytes: *const [u8]) -> bool {
        bytes.cast::<u8>().addr().is_multiple_of(PART_ALIGN)
    }

    /// Wraps bytes that `keeper` keeps alive. Returns `None` if they are not on a 64-byte boundary.
    ///
    /// # Safety
    /// The bytes must be valid and unwritten as long as `keeper` exists, even if it is moved.
    pub(super) unsafe fn kept(bytes: *const [u8], keeper: Box<dyn Any + Send + Sync>) -> Option<Self> {
        let base = NonNull::new(bytes.cast::<u8>().cast_mut())?;
        Self::can_keep(bytes).then(|| Bytes64 {
            base,
            len: bytes.len(),
            skipped: 0,
            keeper: Some(keeper),
            is_users: true,
        })
    }

    /// Notes that the drop of the keeper runs no user code.
    pub(super) fn without_user_code(mut self) -> Self {
        self.is_users = false;
        self
    }

    /// Whether the drop may run user code.
    pub(super) fn is_users(&self) -> bool {
        self.is_users
    }

    /// Whether the bytes are owned here and may be written.
    fn is_own(&self) -> bool {
        self.keeper.is_none()
    }

    /// Copies `bytes`. Returns `None` if there is no memory.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        let copy = Self::allocated(bytes.len(), alloc)?;
        // SAFETY: the copy has room for `bytes.len()` bytes and is newly allocated, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.base.as_ptr(), bytes.len()) };
        Some(copy)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes from `base`, initialised by the constructors or as `kept` requires, and alive as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes for writing; `None` if they belong to another owner.
    pub(super) fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        // SAFETY: see `as_slice`; borrowed exclusively, and called only if the bytes are owned here.
        let bytes = |base: NonNull<u8>, len| unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) };
        self.is_own().then(|| bytes(self.base, self.len))
    }
}

impl Drop for Bytes64 {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len).filter(|_| self.is_own()) {
            // SAFETY: `base` lies `skipped` bytes after the start of the allocation.
            let begin = unsafe { self.base.sub(usize::from(self.skipped)) };
            // SAFETY: allocated with this layout by a constructor, and freed only here.
            unsafe { dealloc(begin.as_ptr(), layout) }
        }
    }
}
