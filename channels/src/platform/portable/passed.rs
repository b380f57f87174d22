//! Segments whose descriptors are passed from process to process: refused.

use crate::error::SegmentError;
use crate::memory::segment::Segment;

/// A segment that can be passed on.
pub enum PassedFile {}

/// Refuses to make a segment.
///
/// # Errors
/// [`SegmentError::Unsupported`].
pub fn make(_: usize) -> Result<PassedFile, SegmentError> {
    Err(SegmentError::Unsupported)
}

/// Maps a segment that another process has passed to this one.
///
/// # Errors
/// None: there is no descriptor.
pub fn map(descriptor: PassedFile) -> Result<Segment, SegmentError> {
    match descriptor {}
}
