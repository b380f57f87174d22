//! Messages from one rank to another, one at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::SegmentError;

use super::{GroupWords, load_all, store_all};

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
