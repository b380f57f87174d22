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
