//! Who has the ends of a channel, for who watches over them.

use std::sync::atomic::Ordering;

use super::SharedSpec;
use super::layout::Place;
use crate::cursor::GONE;
use crate::error::{ChannelError, End};
use crate::process::Process;
use crate::region::Region;

/// The claims of a channel, and the tag of its payloads' type.
#[derive(Debug)]
pub(crate) struct Claims(Place);

impl Claims {
    /// Those of the channel in `region`.
    pub(crate) fn of(region: Region, spec: &SharedSpec) -> Result<Self, ChannelError> {
        Place::attach(region, spec).map(Claims)
    }

    /// Keeps an end for a process that will take it.
    pub(crate) fn expect(&self, end: End, process: Process) -> Result<(), ChannelError> {
        self.0.expect(end, process)
    }

    /// Whose an end is; `None` before it is anybody's, and after it has left.
    pub(crate) fn holder(&self, end: End) -> Option<Process> {
        self.0.holder(end)
    }

    /// How many messages a reader is done with; `None` for the writer, and for a reader that has gone.
    pub(crate) fn passed(&self, end: End) -> Option<u64> {
        let End::Reader(index) = end else { return None };
        // Relaxed: for people.
        let passed = self.0.tail(index).ok()?.passed.load(Ordering::Relaxed);
        (passed != GONE).then_some(passed)
    }

    /// What stands for the payloads' type; 0 where nobody has said.
    pub(crate) fn tag(&self) -> Result<u64, ChannelError> {
        Ok(self.0.tag()?.load(Ordering::Relaxed))
    }

    /// Says what stands for the payloads' type; before anybody else has the descriptor.
    pub(crate) fn set_tag(&self, tag: u64) -> Result<(), ChannelError> {
        self.0.tag()?.store(tag, Ordering::Relaxed);
        Ok(())
    }
}
