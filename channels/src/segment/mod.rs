//! Memory that channels live in: the heap, or an anonymous file that other processes can map.

mod heap;
mod memfd;

use std::ptr::NonNull;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::SegmentError;
use crate::region::Region;

/// The first bytes of a segment are its own: magic, version, nonce.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// This process only.
    Heap,
    /// A sealed `memfd`: shared by descriptor, nothing to leak in `/dev/shm`.
    Memfd,
}

/// Names a segment for another process of this host and user: plain data, so a channel's end can be made from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentId {
    /// The process that made it.
    pub pid: u32,
    /// Its descriptor there.
    pub fd: i32,
    /// Guards against a descriptor that has been reused.
    pub nonce: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Owned memory: 64-byte aligned, zeroed when made, valid until dropped.
trait Memory: Send + Sync {
    fn base(&self) -> NonNull<u8>;
    fn len_bytes(&self) -> usize;
    fn id(&self) -> Option<SegmentId>;
}

/// A piece of memory; clones share it, the last drop gives it back.
#[derive(Clone)]
pub struct Segment {
    memory: Arc<dyn Memory>,
}

impl Segment {
    /// Makes a zeroed segment. `len_bytes` includes [`SEGMENT_HEADER_BYTES`].
    ///
    /// # Errors
    /// [`SegmentError::System`] when the system has no memory or descriptor to give.
    pub fn create(provider: Provider, len_bytes: usize) -> Result<Self, SegmentError> {
        let len_bytes = len_bytes.max(SEGMENT_HEADER_BYTES);
        let memory: Arc<dyn Memory> = match provider {
            Provider::Heap => Arc::new(heap::Heap::new(len_bytes)?),
            Provider::Memfd => Arc::new(memfd::Memfd::create(len_bytes)?),
        };
        Ok(Segment { memory })
    }

    /// Maps a segment that another process of this host made.
    ///
    /// # Errors
    /// [`SegmentError::System`] when the process or descriptor is gone, [`SegmentError::Foreign`] when it is not
    /// the segment that was meant.
    pub fn open(id: &SegmentId) -> Result<Self, SegmentError> {
        Ok(Segment {
            memory: Arc::new(memfd::Memfd::open(id)?),
        })
    }

    /// The segment's name; `None` on the heap.
    pub fn id(&self) -> Option<SegmentId> {
        self.memory.id()
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.memory.len_bytes()
    }

    /// A part of it, from a 64-byte boundary.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    pub fn region(&self, offset: usize, len: usize) -> Result<Region, SegmentError> {
        Region::new(self.clone(), offset, len)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("len_bytes", &self.len_bytes())
            .field("id", &self.id())
            .finish()
    }
}
