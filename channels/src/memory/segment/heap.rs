//! Segments on the heap of this process: for graphs of threads, and for Miri.
#![allow(unsafe_code)] // owns a raw allocation

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;

use super::{Memory, SegmentId};
use crate::error::SegmentError;

pub(super) struct Heap {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: `Heap` owns its allocation alone; all access to the bytes goes through `Region`, which synchronises.
unsafe impl Send for Heap {}
// SAFETY: as for `Send`; `Heap` itself is immutable after construction.
unsafe impl Sync for Heap {}

impl Heap {
    pub(super) fn new(len_bytes: usize) -> Result<Self, SegmentError> {
        let refused = |kind| SegmentError::System {
            what: "allocation".into(),
            len_bytes: len_bytes as u64,
            error: io::Error::from(kind),
        };
        let layout =
            Layout::from_size_align(len_bytes, 64).map_err(|_| refused(io::ErrorKind::InvalidInput))?;
        // SAFETY: `layout` is not of size zero: `Segment::create` raises the length to the header's size at least.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or_else(|| refused(io::ErrorKind::OutOfMemory))?;
        Ok(Heap { base, layout })
    }
}

impl Memory for Heap {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len_bytes(&self) -> usize {
        self.layout.size()
    }

    fn id(&self) -> Option<SegmentId> {
        None
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}
