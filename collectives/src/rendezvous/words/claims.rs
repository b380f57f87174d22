//! Claims: the processes that have the ranks.

use selvedge_channels::SegmentError;
use selvedge_channels::memory::claim::{Claim, Holder};
use selvedge_channels::memory::process::Process;

use super::super::layout::CLAIM;
use super::GroupWords;
use crate::error::CommError;

impl GroupWords {
    fn claim_of(&self, rank: usize) -> Result<Claim<'_>, SegmentError> {
        Claim::at(&self.region, self.layout.of(rank, CLAIM))
    }

    /// Reserves a rank for a process that will take it, unless that process has taken it already.
    pub(crate) fn expect(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let reserved = self.claim_of(rank)?.reserve(process);
        reserved.map_err(|holder| taken(rank, holder))
    }

    /// Takes a rank for a process.
    pub(crate) fn claim(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let claimed = self.claim_of(rank)?.take(process);
        claimed.map_err(|holder| taken(rank, holder))
    }

    /// Returns the process that has a rank, or will have it; `None` before any process has it.
    pub(crate) fn holder(&self, rank: usize) -> Result<Option<Holder>, SegmentError> {
        Ok(self.claim_of(rank)?.holder())
    }

    /// Whether a rank has left.
    pub(crate) fn has_left(&self, rank: usize) -> Result<bool, SegmentError> {
        Ok(self.holder(rank)?.is_some_and(|holder| holder.has_left))
    }

    pub(crate) fn leave(&self, rank: usize) {
        if let Ok(claim) = self.claim_of(rank) {
            claim.leave();
        }
    }
}

fn taken(rank: usize, holder: Holder) -> CommError {
    let pid = holder.process.pid;
    CommError::Taken { rank, pid }
}
