//! Segments of blocks, and the blocks that ranks hold beyond an operation.

use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::{SegmentError, SegmentId};

use super::super::layout::MOST_BLOCKS;
use super::{GroupWords, load_all, store_all};

impl GroupWords {
    fn held(&self, rank: usize, owner: usize) -> Result<&AtomicU64, SegmentError> {
        self.word(self.layout.held(rank, owner))
    }

    /// Records that `rank` reads a block of `owner` beyond the operation.
    pub(crate) fn hold(&self, rank: usize, owner: usize, block: usize) -> Result<(), SegmentError> {
        let held = self.held(rank, owner)?;
        // Relaxed: the release in `set_finished`, or in `receive`, publishes it.
        held.fetch_or(1 << (block % MOST_BLOCKS), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn let_go(&self, rank: usize, owner: usize, block: usize) {
        if let Ok(held) = self.held(rank, owner) {
            // SYNC group-free: Release, because the last reads of the block come before.
            held.fetch_and(!(1 << (block % MOST_BLOCKS)), Ordering::Release);
        }
    }

    /// Returns the set of `owner`'s blocks that `rank` reads, one bit for each.
    pub(crate) fn holds(&self, rank: usize, owner: usize) -> Result<u64, SegmentError> {
        // SYNC group-free: the Acquire pairs with the release in `let_go`; the block may be written after it.
        Ok(self.held(rank, owner)?.load(Ordering::Acquire))
    }

    fn segment_words(&self, rank: usize, block: usize) -> Result<&[AtomicU64; 3], SegmentError> {
        self.region.atomics(self.layout.segment(rank, block))
    }

    /// Stores the segment of a block of `rank`; the next arrival or message of that rank publishes it.
    pub(crate) fn set_segment(&self, rank: usize, block: usize, id: &SegmentId) -> Result<(), SegmentError> {
        let file = u64::from(id.pid) << 32 | u64::from(id.fd.cast_unsigned());
        store_all(self.segment_words(rank, block)?, [id.nonce, file, id.len_bytes]);
        Ok(())
    }

    /// Returns the segment of a block with which `rank` has arrived, or which it has sent.
    pub(crate) fn segment(&self, rank: usize, block: usize) -> Result<SegmentId, SegmentError> {
        let [nonce, file, len_bytes] = load_all(self.segment_words(rank, block)?);
        Ok(SegmentId {
            pid: (file >> 32) as u32,
            fd: (file as u32).cast_signed(),
            nonce,
            len_bytes,
        })
    }
}
