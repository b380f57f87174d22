//! The device side of a channel: K slots, and the synchronization points with which streams pass the slots on.

use std::sync::Arc;

use super::error::DeviceChannelError;
use super::frame::ALIGN;
use super::words::Words;
use crate::device::error::DeviceError;
use crate::device::event::Event;
use crate::device::memory::DeviceMemory;
use crate::device::stream::Stream;
use crate::error::{ChannelError, End, SegmentError};
use crate::fault_point;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingSpec {
    pub(super) slots: usize,
    pub(super) readers: usize,
    /// The maximum size of a message on the device, in bytes.
    pub(super) slot_bytes: usize,
}

impl RingSpec {
    /// The number of bytes from one slot to the next.
    pub(super) fn stride(&self) -> Result<usize, DeviceChannelError> {
        let stride = self.slot_bytes.checked_next_multiple_of(ALIGN);
        Ok(stride.ok_or_else(SegmentError::unaddressable)?)
    }

    /// The number of bytes of all slots.
    pub(super) fn bytes(&self) -> Result<usize, DeviceChannelError> {
        let bounds = [("slots", self.slots), ("readers", self.readers)];
        if let Some((what, _)) = bounds.into_iter().find(|(_, number)| *number == 0) {
            let (value, least) = (0, 1);
            return Err(ChannelError::InvalidSpec { what, value, least }.into());
        }
        let bytes = self.stride()?.checked_mul(self.slots);
        Ok(bytes.ok_or_else(SegmentError::unaddressable)?)
    }

    /// The number of synchronization points: one for each slot of the writer, then one for each slot of each reader.
    pub(super) fn points(&self) -> Result<usize, DeviceChannelError> {
        let ends = self.readers.checked_add(1);
        let points = ends.and_then(|ends| ends.checked_mul(self.slots));
        Ok(points.ok_or_else(SegmentError::unaddressable)?)
    }

    /// The points that an endpoint records.
    fn points_of(&self, end: End) -> std::ops::Range<usize> {
        let row = match end {
            End::Writer => 0,
            End::Reader(index) => (index as usize).saturating_add(1),
        };
        let first = row.saturating_mul(self.slots);
        first..first.saturating_add(self.slots)
    }
}

/// The slots of a channel and their synchronization points.
pub(super) struct Ring {
    pub(super) spec: RingSpec,
    pub(super) memory: DeviceMemory,
    /// The points, in the order of [`RingSpec::points`].
    signals: Vec<Signal>,
    words: Option<Arc<Words>>,
}

impl Ring {
    /// Creates a ring whose points are events.
    pub(super) fn with_events(
        spec: RingSpec,
        memory: DeviceMemory,
        events: impl Iterator<Item = Result<Event, DeviceError>>,
    ) -> Result<Self, DeviceChannelError> {
        let signals: Result<_, _> = events.map(|event| event.map(Signal::Event)).collect();
        Ok(Ring {
            spec,
            memory,
            signals: signals?,
            words: None,
        })
    }

    /// Creates a ring whose points are values.
    pub(super) fn with_words(
        spec: RingSpec,
        memory: DeviceMemory,
        words: Words,
    ) -> Result<Self, DeviceChannelError> {
        let words = Arc::new(words);
        let signal = |line| Signal::Word {
            words: Arc::clone(&words),
            line,
        };
        Ok(Ring {
            spec,
            memory,
            signals: (0..spec.points()?).map(signal).collect(),
            words: Some(words),
        })
    }

    /// The events of the ring; none if its points are values.
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.signals.iter().filter_map(|signal| match signal {
            Signal::Event(event) => Some(event),
            Signal::Word { .. } => None,
        })
    }

    /// The words of the ring, if its points are values.
    pub(super) fn words(&self) -> Option<&Arc<Words>> {
        self.words.as_ref()
    }

    /// Whether other processes can use the ring after its creator has released it: true if it has neither events of the
    /// creator nor legacy memory.
    pub(super) fn outlives_its_maker(&self) -> bool {
        self.words.is_some() && self.memory.is_mapped()
    }

    /// Returns a function that releases the streams waiting for a dead endpoint, or `None` if the points are events.
    pub(super) fn releases(&self) -> Option<Arc<dyn Fn(End) + Send + Sync>> {
        let (words, spec) = (Arc::clone(self.words.as_ref()?), self.spec);
        Some(Arc::new(move |end| words.release(spec.points_of(end))))
    }

    /// The slot of a message.
    pub(super) fn slot(&self, message: u64) -> usize {
        // The remainder is less than the number of slots, which is a usize and at least one.
        message.checked_rem(self.spec.slots as u64).unwrap_or(0) as usize
    }

    /// The offset of a slot in the memory.
    pub(super) fn offset(&self, slot: usize) -> Result<usize, DeviceChannelError> {
        // No overflow: the offset is inside the memory, whose size `bytes` has computed.
        Ok(slot * self.spec.stride()?)
    }

    /// The point at which an endpoint's stream is done with a slot.
    fn signal(&self, end: End, slot: usize) -> Result<&Signal, DeviceChannelError> {
        let point = self.spec.points_of(end).nth(slot);
        let signal = point.and_then(|point| self.signals.get(point));
        // A failure here would be a bug of this crate: slots are counted modulo their number.
        let what = "a slot or reader that does not exist";
        signal.ok_or_else(|| ChannelError::Corrupt { what }.into())
    }

    /// Orders a writer's stream behind every reader of the slot's last message (`GPU-2`). The readers have released the
    /// slot on the host, so their records are already enqueued.
    pub(super) fn after_readers(&self, slot: usize, stream: &Stream) -> Result<(), DeviceChannelError> {
        if fault_point::skips("device writer: order after done") {
            return Ok(());
        }
        let readers = (0..self.spec.readers).filter_map(|index| u32::try_from(index).ok());
        readers
            .map(End::Reader)
            .try_for_each(|reader| self.signal(reader, slot)?.order(stream))
    }

    /// Orders a stream behind the writer's work on the slot (`GPU-1`).
    pub(super) fn after_writer(&self, slot: usize, stream: &Stream) -> Result<(), DeviceChannelError> {
        if fault_point::skips("device reader: order after ready") {
            return Ok(());
        }
        self.signal(End::Writer, slot)?.order(stream)
    }

    /// Records on an endpoint's stream that the endpoint is done with the slot.
    pub(super) fn record(&self, end: End, slot: usize, stream: &Stream) -> Result<(), DeviceChannelError> {
        self.signal(end, slot)?.record(stream)
    }
}

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
