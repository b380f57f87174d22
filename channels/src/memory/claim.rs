//! Claims: words in shared memory that name the process that has an endpoint of a channel, or a rank of a group.
//!
//! A claim is free, reserved for a process, taken by a process, or left by it. A claim that was taken is never taken again.

use std::sync::atomic::{AtomicU64, Ordering};

use super::process::Process;
use super::region::Region;
use crate::error::SegmentError;

/// Bits of a claim beside the process, whose word uses lower bits only: the process has taken the claim; it has left it.
const TAKEN: u64 = 1 << 63;
const LEFT: u64 = 1 << 62;

/// A claim in shared memory. The word is 0 while the claim is free.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a>(&'a AtomicU64);

/// The process that a claim names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process that has taken the claim, or for which it is reserved.
    pub process: Process,
    /// True if the process has left the claim, so that its end is not a death.
    pub has_left: bool,
}

impl Holder {
    fn of(word: u64) -> Self {
        Holder {
            process: Process::from_word(word & !(TAKEN | LEFT)),
            has_left: word & LEFT != 0,
        }
    }
}

impl<'a> Claim<'a> {
    /// Returns the claim at an offset of a region.
    ///
    /// # Errors
    /// The word does not lie in the region.
    pub fn at(region: &'a Region, offset: usize) -> Result<Self, SegmentError> {
        region.atomic_u64(offset).map(Claim)
    }

    /// Takes the claim for a process, if it is free or reserved for that process.
    ///
    /// # Errors
    /// The holder, if there is another one, or if this process has taken the claim already.
    pub fn take(self, process: Process) -> Result<(), Holder> {
        let word = process.to_word();
        let kept = self.exchange(0, word | TAKEN);
        kept.or_else(|_| self.exchange(word, word | TAKEN))
    }

    /// Reserves the claim for a process that will take it.
    ///
    /// # Errors
    /// The holder, if it is another process.
    pub fn reserve(self, process: Process) -> Result<(), Holder> {
        match self.exchange(0, process.to_word()) {
            // The process was faster and has taken the claim already. It may even have died; then its start time is no
            // longer known, so only the pid is compared.
            Err(holder) if holder.process.pid == process.pid => Ok(()),
            kept => kept,
        }
    }

    fn exchange(self, from: u64, to: u64) -> Result<(), Holder> {
        // Relaxed: for an endpoint or a rank only the order of claims matters; a claim publishes nothing else before it is left.
        // The claim of an array's slot must be seen by whoever sees a use of that slot: `in_use` sets the word of the use after
        // the claim and before a SeqCst fence, and looks at the words of others after such a fence. So of two that meet, the one
        // whose fence comes second sees the use and the claim of the other, and gives way. SYNC array-use.
        let found = self
            .0
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        found.map(|_| ()).map_err(Holder::of)
    }

    /// Returns the process that has taken the claim, or for which it is reserved; `None` before that.
    pub fn holder(self) -> Option<Holder> {
        // SYNC claim-left: the Acquire pairs with the release in `leave`. A process that finds the claim left sees all that
        // its holder did before.
        let word = self.0.load(Ordering::Acquire);
        (word != 0).then(|| Holder::of(word))
    }

    /// Leaves the claim: its holder does nothing any more, so the end of its process is not a death.
    pub fn leave(self) {
        // SYNC claim-left: the Release publishes all that the holder did, for `holder`.
        self.0.fetch_or(LEFT, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_taken_once_and_by_the_process_for_which_it_is_reserved() {
        let (word, own) = (AtomicU64::new(0), Process::own());
        let (claim, other) = (Claim(&word), Process::from_word(own.to_word() + (1 << 32)));
        assert_eq!(claim.holder(), None);
        claim.reserve(own).unwrap();
        assert_eq!(claim.take(other).unwrap_err().process, own);
        claim.take(own).unwrap();
        assert_eq!(claim.take(own).unwrap_err().process, own);
        claim.reserve(own).unwrap();
        claim.leave();
        assert!(claim.holder().is_some_and(|holder| holder.has_left));
        assert!(claim.reserve(other).is_err() && claim.take(other).is_err());
    }
}
