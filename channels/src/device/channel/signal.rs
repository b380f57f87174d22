//! How one end's stream tells another end's stream that it is done with a slot.

use std::sync::Arc;

use super::error::DeviceChannelError;
use crate::device::event::Event;
use crate::device::stream::Stream;
use crate::device::words::{PointError, Words};

/// How streams of different processes tell each other that a slot is written, or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signals {
    /// By events, whose order the driver knows. A stream that waits for a process which has died waits for ever: it and the
    /// channel's memory are given back when this process ends. The host never waits with it.
    #[default]
    Events,
    /// By numbers in memory of the host that streams write and wait for. A death lets the streams go on that wait for it, and
    /// everything is given back. The driver does not know the order, and warns of it: a stream must not wait for what is
    /// enqueued in the same process later.
    Values,
}

/// One point, again and again.
pub(super) enum Signal {
    Event(Event),
    Word { words: Arc<Words>, line: usize },
}

impl From<PointError> for DeviceChannelError {
    fn from(error: PointError) -> Self {
        match error {
            PointError::Segment(error) => error.into(),
            PointError::Device(error) => error.into(),
        }
    }
}

impl Signal {
    /// Makes it this point of a stream.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), DeviceChannelError> {
        match self {
            Signal::Event(event) => Ok(stream.record(event)?),
            Signal::Word { words, line } => Ok(words.record(*line, stream.handle()?)?),
        }
    }

    /// Orders a stream behind the point that it is now.
    pub(super) fn order(&self, stream: &Stream) -> Result<(), DeviceChannelError> {
        match self {
            Signal::Event(event) => Ok(stream.order_after(event)?),
            Signal::Word { words, line } => Ok(words.order_after(*line, stream.handle()?)?),
        }
    }
}
