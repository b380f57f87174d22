//! Signals: an endpoint's stream tells another endpoint's stream that it is done with a slot.

use std::sync::Arc;

use super::error::DeviceChannelError;
use super::words::Words;
use crate::device::event::Event;
use crate::device::stream::Stream;

/// The means by which streams of different processes signal that a slot is written or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signals {
    /// Events, whose order the driver knows. A stream that waits for a dead process waits forever: the stream and the
    /// memory of the channel are released only when this process ends. The host does not wait for such a stream.
    #[default]
    Events,
    /// Numbers in host memory, which streams write and wait for. After a death the streams that wait for the dead
    /// process continue, and everything is released. The driver does not know this order, and its documentation warns
    /// about that: a stream must not wait for work that the same process enqueues later.
    Values,
}

/// A synchronization point that is recorded again and again.
pub(super) enum Signal {
    Event(Event),
    Word { words: Arc<Words>, line: usize },
}

impl Signal {
    /// Records the point at the current end of a stream.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), DeviceChannelError> {
        match self {
            Signal::Event(event) => Ok(stream.record(event)?),
            Signal::Word { words, line } => words.record(*line, stream.handle()?),
        }
    }

    /// Orders a stream behind the last record of the point.
    pub(super) fn order(&self, stream: &Stream) -> Result<(), DeviceChannelError> {
        match self {
            Signal::Event(event) => Ok(stream.order_after(event)?),
            Signal::Word { words, line } => words.order_after(*line, stream.handle()?),
        }
    }
}
