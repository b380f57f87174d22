//! Claims: the processes that have the ranks.

use std::sync::atomic::Ordering;

use selvedge_channels::SegmentError;
use selvedge_channels::memory::process::Process;

use super::super::layout::CLAIM;
use super::GroupWords;
use crate::error::CommError;

/// Bits of a claim: the rank has left; the rank is reserved for a process that will come. Process words use lower bits
/// only.
const LEFT: u64 = 1 << 63;
const EXPECTED: u64 = 1 << 62;
const MARKS: u64 = LEFT | EXPECTED;

impl GroupWords {
    fn set_claim(&self, rank: usize, from: u64, to: u64) -> Result<(), CommError> {
        let claim = self.word(self.layout.of(rank, CLAIM))?;
        // SYNC group-left: the Acquire pairs with the release in `leave`; a claim publishes nothing else.
        let set = claim.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        set.map(|_| ()).map_err(|holder| CommError::Taken {
            rank,
            pid: Process::from_word(holder & !MARKS).pid,
        })
    }

    /// Reserves a rank for a process that will take it, unless that process has taken it already.
    pub(crate) fn expect(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let kept = self.set_claim(rank, 0, process.to_word() | EXPECTED);
        match self.holder(rank)? {
            Some((holder, _)) if holder.pid == process.pid => Ok(()),
            _ => kept,
        }
    }

    /// Takes a rank for a process.
    pub(crate) fn claim(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let word = process.to_word();
        let kept = self.set_claim(rank, word | EXPECTED, word);
        kept.or_else(|_| self.set_claim(rank, 0, word))
    }

    /// Returns the process that has a rank, or will have it, and whether the rank has left; `None` before any process
    /// has it.
    pub(crate) fn holder(&self, rank: usize) -> Result<Option<(Process, bool)>, SegmentError> {
        // SYNC group-left: the Acquire pairs with the release in `leave`. A thread that sees that a rank has left also
        // sees everything that the rank published before.
        let word = self.word(self.layout.of(rank, CLAIM))?.load(Ordering::Acquire);
        Ok((word != 0).then(|| (Process::from_word(word & !MARKS), word & LEFT != 0)))
    }

    /// Whether a rank has left.
    pub(crate) fn has_left(&self, rank: usize) -> Result<bool, SegmentError> {
        Ok(matches!(self.holder(rank)?, Some((_, true))))
    }

    pub(crate) fn leave(&self, rank: usize) {
        if let Ok(claim) = self.word(self.layout.of(rank, CLAIM)) {
            // SYNC group-left: the Release publishes everything that the rank did, for `holder`.
            claim.fetch_or(LEFT, Ordering::AcqRel);
        }
    }
}
