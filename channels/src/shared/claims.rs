//! Claims: the owners of a channel's endpoints, for code that watches them.

use std::sync::atomic::Ordering;

use super::SharedSpec;
use super::layout::MappedChannel;
use crate::error::{ChannelError, End};
use crate::memory::process::Process;
use crate::memory::region::Region;
use crate::ring::cursor::GONE;

/// The claims of a channel, and the tag of its payload type.
#[derive(Debug)]
pub(crate) struct Claims(MappedChannel);

impl Claims {
    /// The claims of the channel in `region`.
    pub(crate) fn of(region: Region, spec: &SharedSpec) -> Result<Self, ChannelError> {
        MappedChannel::attach(region, spec).map(Claims)
    }

    /// Reserves an endpoint for a process that will take it.
    pub(crate) fn expect(&self, end: End, process: Process) -> Result<(), ChannelError> {
        self.0.expect(end, process)
    }

    /// The process that has taken an endpoint, or for which it is reserved; `None` before that, and after the endpoint
    /// was left.
    pub(crate) fn holder(&self, end: End) -> Option<Process> {
        self.0.holder(end)
    }

    /// The number of messages that a reader is done with; `None` for the writer, and for a reader that has left.
    pub(crate) fn passed(&self, end: End) -> Option<u64> {
        let End::Reader(index) = end else { return None };
        // Relaxed: the number is only shown to people.
        let passed = self.0.tail(index).ok()?.passed.load(Ordering::Relaxed);
        (passed != GONE).then_some(passed)
    }

    /// The tag of the payload type; 0 if it was never set.
    pub(crate) fn tag(&self) -> Result<u64, ChannelError> {
        // Relaxed: set before any other process has the descriptor, whose hand-over orders it.
        Ok(self.0.tag()?.load(Ordering::Relaxed))
    }

    /// Sets the tag of the payload type. Call this before any other process has the descriptor.
    pub(crate) fn set_tag(&self, tag: u64) -> Result<(), ChannelError> {
        // Relaxed: see `tag`.
        self.0.tag()?.store(tag, Ordering::Relaxed);
        Ok(())
    }
}
