//! Options of channels of tensors.

use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::DeviceFrame;
use super::owned::Owned;
use super::reader::DeviceReader;
use super::ring::{Ring, RingSpec, Signals};
use super::writer::DeviceWriter;
use crate::channel::ChannelOptions;
use crate::device::event::Event;
use crate::device::gpu::Gpu;
use crate::device::memory::DeviceMemory;
use crate::wait::waiting::Waiting;

/// The options of a channel of tensors on a device. [`threads`](Self::threads) and [`shared`](Self::shared) create
/// channels.
#[derive(Clone, Debug)]
pub struct DeviceChannelOptions {
    pub(super) spec: RingSpec,
    pub(super) is_static: bool,
    pub(super) signals: Signals,
    /// The options of the control channel.
    pub(super) control: ChannelOptions,
}

impl DeviceChannelOptions {
    /// The defaults: one reader, 4 slots of `slot_bytes` on the device, a time limit of 10 s.
    #[must_use]
    pub fn new(slot_bytes: usize) -> Self {
        let spec = RingSpec {
            slots: 4,
            readers: 1,
            slot_bytes,
        };
        DeviceChannelOptions {
            spec,
            is_static: false,
            signals: Signals::default(),
            // Room for the metadata of usual messages. The buffers grow for messages with thousands of tensors.
            control: ChannelOptions::new()
                .buffer_bytes(1000)
                .max_payload_bytes(1 << 24),
        }
    }

    /// The maximum number of messages in flight; at least 1.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.spec.slots = slots;
        self
    }

    /// The number of readers, each of which receives every message; at least 1.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.spec.readers = readers;
        self
    }

    /// Fixes the layouts to those of the first message: types and shapes are sent once, and other layouts are refused.
    #[must_use]
    pub fn static_shape(mut self, is_static: bool) -> Self {
        self.is_static = is_static;
        self
    }

    /// The synchronization of streams of different processes. Streams of one process always use events.
    #[must_use]
    pub fn signals(mut self, signals: Signals) -> Self {
        self.signals = signals;
        self
    }

    /// The way in which endpoints wait on the host; see [`ChannelOptions::waiting`].
    #[must_use]
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.control = self.control.waiting(waiting);
        self
    }

    /// The time limit of waits on the host; 10 s by default. With `None` endpoints wait as long as their peers live.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.control = self.control.timeout(timeout);
        self
    }

    pub(super) fn control(&self) -> ChannelOptions {
        self.control
            .clone()
            .slots(self.spec.slots)
            .readers(self.spec.readers)
    }
}

impl DeviceChannelOptions {
    /// Creates a channel between threads of this process.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`](crate::ChannelError::InvalidSpec) if there are no slots or no readers,
    /// [`DeviceError::Call`](crate::device::DeviceError::Call) if the device has no memory left.
    pub fn threads(&self, gpu: &Gpu) -> Result<(DeviceWriter, Vec<DeviceReader>), DeviceChannelError> {
        let memory = DeviceMemory::new(gpu, self.spec.bytes()?)?;
        let events = (0..self.spec.points()?).map(|_| Event::new(gpu));
        let ring = Ring::with_events(self.spec, memory, events)?;
        let owned = Arc::new(Owned::local(ring));
        let (writer, readers) = self.control().threads::<DeviceFrame>()?;
        let reader = |(index, control)| DeviceReader::new(control, Arc::clone(&owned), index, self.is_static);
        let readers = (0..).zip(readers).map(reader).collect();
        Ok((DeviceWriter::new(writer, owned, self.is_static, true), readers))
    }
}
