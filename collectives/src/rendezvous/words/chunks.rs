//! Progress of private vectors, which two ranks reduce chunk by chunk.

use std::sync::atomic::Ordering;

use selvedge_channels::SegmentError;

use super::super::layout::{REDUCED, STAGED};
use super::GroupWords;

impl GroupWords {
    pub(crate) fn set_staged(&self, rank: usize, chunks: u64) -> Result<(), SegmentError> {
        let staged = self.word(self.layout.of(rank, STAGED))?;
        // SYNC group-staged: the Release publishes the chunks in this rank's ring.
        staged.store(chunks, Ordering::Release);
        Ok(())
    }

    pub(crate) fn staged(&self, rank: usize) -> Result<u64, SegmentError> {
        // SYNC group-staged: the Acquire pairs with the release in `set_staged`.
        Ok(self.word(self.layout.of(rank, STAGED))?.load(Ordering::Acquire))
    }

    pub(crate) fn set_reduced(&self, rank: usize, chunks: u64) -> Result<(), SegmentError> {
        let reduced = self.word(self.layout.of(rank, REDUCED))?;
        // SYNC group-reduced: the Release publishes the results that this rank has written into the other's ring; this
        // rank does not read these chunks again.
        reduced.store(chunks, Ordering::Release);
        Ok(())
    }

    pub(crate) fn reduced(&self, rank: usize) -> Result<u64, SegmentError> {
        // SYNC group-reduced: the Acquire pairs with the release in `set_reduced`.
        Ok(self.word(self.layout.of(rank, REDUCED))?.load(Ordering::Acquire))
    }
}
