//! Blocks, and what passes through them: the blocks that ranks hold, the progress of private vectors, which two ranks
//! reduce chunk by chunk, and messages from one rank to another, one at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::{SegmentError, SegmentId};

use super::super::layout::{MOST_BLOCKS, REDUCED, STAGED};
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

impl GroupWords {
    fn message(&self, from: usize, to: usize) -> Result<&[AtomicU64; 3], SegmentError> {
        self.region.atomics(self.layout.message(from, to))
    }

    /// Publishes message `number`.
    pub(crate) fn send(
        &self,
        from: usize,
        to: usize,
        number: u64,
        block: usize,
        head_len: usize,
    ) -> Result<(), SegmentError> {
        let [sent, words @ ..] = self.message(from, to)?;
        store_all(words, [block as u64, head_len as u64]);
        // SYNC group-message: the Release publishes the words above, the block's segment and the contents of the block.
        sent.store(number, Ordering::Release);
        Ok(())
    }

    /// Returns the block and the length of the heads of message `number`, once it has been sent.
    pub(crate) fn sent(
        &self,
        from: usize,
        to: usize,
        number: u64,
    ) -> Result<Option<(u64, u64)>, SegmentError> {
        let [sent, words @ ..] = self.message(from, to)?;
        // SYNC group-message: the Acquire pairs with the release in `send`.
        let there = sent.load(Ordering::Acquire) == number;
        Ok(there.then(|| load_all(words).into()))
    }

    /// Records that `to` has received message `number`.
    pub(crate) fn receive(&self, from: usize, to: usize, number: u64) -> Result<(), SegmentError> {
        let received = self.word(self.layout.received(from, to))?;
        // SYNC group-free: the Release tells the sender that the block is held, or has been read.
        received.store(number, Ordering::Release);
        Ok(())
    }

    /// Returns the number of the last message that `to` has received.
    pub(crate) fn received(&self, from: usize, to: usize) -> Result<u64, SegmentError> {
        // SYNC group-free: the Acquire pairs with the release in `receive`; the block may be written after it.
        Ok(self.word(self.layout.received(from, to))?.load(Ordering::Acquire))
    }
}
