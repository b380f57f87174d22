//! Segments that processes share: refused.

use std::sync::Arc;

use crate::error::SegmentError;
use crate::memory::segment::{Memory, Provider, SegmentId};

/// Refuses to make a segment of a provider other than the heap.
pub(crate) fn create(_: Provider, _: usize) -> Result<Arc<dyn Memory>, SegmentError> {
    Err(SegmentError::Unsupported)
}

/// Refuses to open the segment of another process.
pub(crate) fn open(_: &SegmentId) -> Result<Arc<dyn Memory>, SegmentError> {
    Err(SegmentError::Unsupported)
}

/// The provider of the segment with this id. No segment has an id here.
pub(crate) fn provider(_: &SegmentId) -> Provider {
    Provider::Memfd
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::segment::Segment;

    #[test]
    fn memory_is_on_the_heap_and_shared_memory_is_refused_by_type() {
        let heap = Segment::create(Provider::Heap, 4096).unwrap();
        assert!(heap.id().is_none());
        let refused = Segment::create(Provider::Memfd, 4096).unwrap_err();
        assert!(matches!(refused, SegmentError::Unsupported));
        assert!(refused.to_string().contains("Linux"), "{refused}");
        let id = SegmentId {
            pid: std::process::id(),
            fd: 1,
            nonce: 1,
            len_bytes: 4096,
        };
        assert!(matches!(Segment::open(&id), Err(SegmentError::Unsupported)));
    }
}
