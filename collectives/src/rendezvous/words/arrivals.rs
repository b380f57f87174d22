//! Arrivals of ranks at operations, and their progress after it.
//!
//! Two lines of words are used in turn: a rank that writes the line of operation n + 2 knows that all ranks have arrived
//! at n + 1, and so have read its contribution to n (`COLL-5`).

use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::SegmentError;

use super::super::layout::DONE;
use super::{GroupWords, load_all, store_all};

/// The contribution of a rank to an operation, as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The operation, as a word.
    pub(crate) what: u64,
    /// The hash of the types and shapes of the contribution.
    pub(crate) signature: u64,
    /// The block of the contribution, and the block for results; [`NO_BLOCK`](Self::NO_BLOCK) for none.
    pub(crate) block: u64,
    pub(crate) results: u64,
    /// The number of bytes of the heads, or of the report of a failure, at the start of the block.
    pub(crate) head_len: u64,
    /// True if the rank contributes a failure.
    pub(crate) failed: bool,
}

impl Arrival {
    /// The index of a block that does not exist.
    pub(crate) const NO_BLOCK: u64 = u64::MAX;
}

impl GroupWords {
    fn arrivals(&self, rank: usize, number: u64) -> Result<&[AtomicU64; 6], SegmentError> {
        self.region.atomics(self.layout.arrival(rank, number))
    }

    pub(crate) fn arrive(&self, rank: usize, number: u64, arrival: Arrival) -> Result<(), SegmentError> {
        let [published, words @ ..] = self.arrivals(rank, number)?;
        let Arrival {
            what,
            signature,
            block,
            results,
            head_len,
            failed,
        } = arrival;
        let head = head_len << 1 | u64::from(failed);
        store_all(words, [what, signature, block, results, head]);
        // SYNC group-arrival: the Release publishes the words above, the block's segment and the contents of the block.
        published.store(number, Ordering::Release);
        Ok(())
    }

    pub(crate) fn has_arrived(&self, rank: usize, number: u64) -> Result<bool, SegmentError> {
        let [published, ..] = self.arrivals(rank, number)?;
        // SYNC group-arrival: the Acquire pairs with the release in `arrive`.
        Ok(published.load(Ordering::Acquire) == number)
    }

    /// Returns the contribution of a rank, once the rank has arrived.
    pub(crate) fn arrival(&self, rank: usize, number: u64) -> Result<Arrival, SegmentError> {
        let [_, words @ ..] = self.arrivals(rank, number)?;
        let [what, signature, block, results, head] = load_all(words);
        Ok(Arrival {
            what,
            signature,
            block,
            results,
            head_len: head >> 1,
            failed: head & 1 == 1,
        })
    }

    fn done_and_finished(&self, rank: usize) -> Result<&[AtomicU64; 2], SegmentError> {
        self.region.atomics(self.layout.of(rank, DONE))
    }

    pub(crate) fn set_done(&self, rank: usize, number: u64) -> Result<(), SegmentError> {
        let [done, _] = self.done_and_finished(rank)?;
        // SYNC group-done: the Release publishes this rank's share of the result.
        done.store(number, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_done(&self, rank: usize, number: u64) -> Result<bool, SegmentError> {
        let [done, _] = self.done_and_finished(rank)?;
        // SYNC group-done: the Acquire pairs with the release in `set_done`.
        Ok(done.load(Ordering::Acquire) >= number)
    }

    pub(crate) fn set_finished(&self, rank: usize, number: u64) -> Result<(), SegmentError> {
        let [_, finished] = self.done_and_finished(rank)?;
        // SYNC group-free: Release, because this rank's last reads of the blocks of others come before, except of the
        // blocks that it holds.
        finished.store(number, Ordering::Release);
        Ok(())
    }

    pub(crate) fn has_finished(&self, rank: usize, number: u64) -> Result<bool, SegmentError> {
        let [_, finished] = self.done_and_finished(rank)?;
        // SYNC group-free: the Acquire pairs with the release in `set_finished`; the block may be written after it.
        Ok(finished.load(Ordering::Acquire) >= number)
    }
}
