//! The device's side of a channel: K slots, and the events that hand them to and fro.

use super::error::DeviceChannelError;
use super::frame::ALIGN;
use crate::device::error::DeviceError;
use crate::device::event::Event;
use crate::device::gpu::Gpu;
use crate::device::memory::DeviceMemory;
use crate::device::stream::Stream;
use crate::error::{ChannelError, SegmentError};
use crate::fault_point;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingSpec {
    pub(super) slots: usize,
    pub(super) readers: usize,
    /// Bytes that a message may have on the device.
    pub(super) slot_bytes: usize,
}

impl RingSpec {
    /// Bytes from one slot to the next.
    pub(super) fn stride(&self) -> Result<usize, DeviceChannelError> {
        let stride = self.slot_bytes.checked_next_multiple_of(ALIGN);
        Ok(stride.ok_or_else(SegmentError::unaddressable)?)
    }

    /// Bytes of all slots.
    pub(super) fn bytes(&self) -> Result<usize, DeviceChannelError> {
        let bounds = [("slots", self.slots), ("readers", self.readers)];
        if let Some((what, _)) = bounds.into_iter().find(|(_, number)| *number == 0) {
            let (value, least) = (0, 1);
            return Err(ChannelError::InvalidSpec { what, value, least }.into());
        }
        let bytes = self.stride()?.checked_mul(self.slots);
        Ok(bytes.ok_or_else(SegmentError::unaddressable)?)
    }
}

/// Slots and events.
pub(super) struct Ring {
    pub(super) spec: RingSpec,
    pub(super) memory: DeviceMemory,
    /// By slot: the writer's stream is done writing.
    pub(super) ready: Vec<Event>,
    /// By reader and slot: its stream is done reading.
    pub(super) done: Vec<Vec<Event>>,
}

/// What an index outside the ring would be: a mistake of ours, since slots are counted modulo their number.
fn no_such() -> DeviceChannelError {
    let what = "a slot or reader that does not exist";
    ChannelError::Corrupt { what }.into()
}

impl Ring {
    /// A new one, with events made by `event`.
    pub(super) fn new(
        gpu: &Gpu,
        spec: RingSpec,
        event: impl Fn(&Gpu) -> Result<Event, DeviceError>,
    ) -> Result<Self, DeviceChannelError> {
        let row = || -> Result<Vec<Event>, DeviceError> { (0..spec.slots).map(|_| event(gpu)).collect() };
        Ok(Ring {
            spec,
            memory: DeviceMemory::new(gpu, spec.bytes()?)?,
            ready: row()?,
            done: (0..spec.readers).map(|_| row()).collect::<Result<_, _>>()?,
        })
    }

    /// The slot of a message.
    pub(super) fn slot(&self, message: u64) -> usize {
        // The remainder is below the number of slots, which is a usize; there is at least one.
        message.checked_rem(self.spec.slots as u64).unwrap_or(0) as usize
    }

    /// Offset of a slot in the memory.
    pub(super) fn offset(&self, slot: usize) -> Result<usize, DeviceChannelError> {
        // Inside the memory, whose size `bytes` has computed.
        Ok(slot * self.spec.stride()?)
    }

    pub(super) fn ready(&self, slot: usize) -> Result<&Event, DeviceChannelError> {
        self.ready.get(slot).ok_or_else(no_such)
    }

    fn done(&self, reader: usize, slot: usize) -> Result<&Event, DeviceChannelError> {
        let row = self.done.get(reader).ok_or_else(no_such)?;
        row.get(slot).ok_or_else(no_such)
    }

    /// Orders a writer's stream behind every reader of the slot's last message (`GPU-2`), who have given it back on the host,
    /// so that their records are there to be waited for.
    pub(super) fn after_readers(&self, slot: usize, stream: &Stream) -> Result<(), DeviceChannelError> {
        if fault_point::skips("device writer: order after done") {
            return Ok(());
        }
        for reader in 0..self.spec.readers {
            stream.order_after(self.done(reader, slot)?)?;
        }
        Ok(())
    }

    /// Orders a stream behind what the writer's stream did to the slot (`GPU-1`).
    pub(super) fn after_writer(&self, slot: usize, stream: &Stream) -> Result<(), DeviceChannelError> {
        if fault_point::skips("device reader: order after ready") {
            return Ok(());
        }
        Ok(stream.order_after(self.ready(slot)?)?)
    }

    /// Says on the writer's stream that the slot is written.
    pub(super) fn record_ready(&self, slot: usize, stream: &Stream) -> Result<(), DeviceChannelError> {
        Ok(stream.record(self.ready(slot)?)?)
    }

    /// Says on a reader's stream that it is done with the slot.
    pub(super) fn record_done(
        &self,
        reader: usize,
        slot: usize,
        stream: &Stream,
    ) -> Result<(), DeviceChannelError> {
        Ok(stream.record(self.done(reader, slot)?)?)
    }
}
