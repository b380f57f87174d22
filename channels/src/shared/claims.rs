//! The claims of a channel: the owners of its endpoints.

use std::sync::atomic::Ordering;

use super::layout::{MappedChannel, control, tail};
use crate::error::{ChannelError, End};
use crate::memory::claim::{Claim, Holder};
use crate::memory::process::Process;
use crate::ring::cursor::GONE;

/// The error for an endpoint that has a holder already.
fn attached(end: End, holder: Holder) -> ChannelError {
    let pid = if holder.has_left { 0 } else { holder.process.pid };
    ChannelError::Attached { end, pid }
}

impl MappedChannel {
    fn claim_of(&self, end: End) -> Result<Claim<'_>, ChannelError> {
        let offset = match end {
            End::Writer => control::CLAIM,
            End::Reader(index) => self.line(index) + tail::CLAIM,
        };
        Ok(Claim::at(&self.region, offset)?)
    }

    /// Takes an endpoint for this process.
    pub(super) fn claim(&self, end: End) -> Result<(), ChannelError> {
        let taken = self.claim_of(end)?.take(Process::own());
        taken.map_err(|holder| attached(end, holder))
    }

    /// Reserves an endpoint for a process that will take it.
    pub(crate) fn expect(&self, end: End, process: Process) -> Result<(), ChannelError> {
        let reserved = self.claim_of(end)?.reserve(process);
        reserved.map_err(|holder| attached(end, holder))
    }

    /// Marks an endpoint as left: it does nothing any more, so the end of its process is not a death.
    pub(super) fn leave(&self, end: End) {
        if let Ok(claim) = self.claim_of(end) {
            claim.leave();
        }
    }

    /// The process that has taken an endpoint, or for which it is reserved; `None` before that, and after the endpoint
    /// was left.
    pub(crate) fn holder(&self, end: End) -> Option<Process> {
        let holder = self.claim_of(end).ok()?.holder()?;
        (!holder.has_left).then_some(holder.process)
    }

    /// The number of messages that a reader is done with; `None` for the writer, and for a reader that has left.
    pub(crate) fn passed(&self, end: End) -> Option<u64> {
        let End::Reader(index) = end else { return None };
        // Relaxed: the number is only shown to people.
        let passed = self.tail(index).ok()?.passed.load(Ordering::Relaxed);
        (passed != GONE).then_some(passed)
    }
}
