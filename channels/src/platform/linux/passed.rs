//! Segments whose descriptors are passed from process to process, so that whoever maps one need not reach its maker.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::memfd::Memfd;
use crate::error::SegmentError;
use crate::memory::segment::Segment;

/// A segment that can be passed on, and mapped once by each process.
pub type PassedFile = OwnedFd;

/// Makes a zeroed segment of `len_bytes`, its header included.
///
/// # Errors
/// [`SegmentError::System`] if the system has no memory or descriptor left.
pub fn make(len_bytes: usize) -> Result<PassedFile, SegmentError> {
    let made = Memfd::create(len_bytes)?.into_descriptor();
    made.ok_or(SegmentError::Unsupported)
}

/// Maps a segment that another process has passed to this one.
///
/// # Errors
/// [`SegmentError::Foreign`] if the descriptor is none of a segment, [`SegmentError::System`] if it cannot be mapped.
pub fn map(descriptor: PassedFile) -> Result<Segment, SegmentError> {
    Ok(Segment::of(Arc::new(Memfd::of_descriptor(descriptor)?)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::memory::segment::SEGMENT_HEADER_BYTES;

    const LEN: usize = SEGMENT_HEADER_BYTES + 64;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn all_who_map_a_descriptor_share_its_memory_and_others_are_refused() {
        let descriptor = make(LEN).unwrap();
        let one = map(descriptor.try_clone().unwrap()).unwrap();
        let other = map(descriptor).unwrap();
        let word = |segment: &Segment| segment.part(SEGMENT_HEADER_BYTES, 64).unwrap();
        word(&one).atomic_u64(8).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(word(&other).atomic_u64(8).unwrap().load(Ordering::Relaxed), 7);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(map(file.into()), Err(SegmentError::Foreign { .. })));
    }
}
