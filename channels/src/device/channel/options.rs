//! What a channel of tensors is like.

use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::Frame;
use super::owned::Owned;
use super::reader::DeviceReader;
use super::ring::{Ring, RingSpec};
use super::shared::SharedDeviceChannel;
use super::signal::Signals;
use super::writer::DeviceWriter;
use crate::channel::ChannelOptions;
use crate::device::event::Event;
use crate::device::gpu::Gpu;
use crate::device::memory::DeviceMemory;
use crate::waiting::Waiting;

/// What a channel of tensors on a device is like; [`threads`](Self::threads) and [`shared`](Self::shared) make one.
#[derive(Clone, Debug)]
pub struct DeviceChannelOptions {
    pub(super) spec: RingSpec,
    pub(super) is_static: bool,
    pub(super) signals: Signals,
    /// Of the control path.
    pub(super) control: ChannelOptions,
}

impl DeviceChannelOptions {
    /// One reader, 4 slots of `slot_bytes` on the device, a time-out of 10 s.
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
            // Metadata of a message; those of thousands of tensors make it grow.
            control: ChannelOptions::new()
                .buffer_bytes(1000)
                .max_payload_bytes(1 << 24),
        }
    }

    /// Messages that may be under way; at least 1.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.spec.slots = slots;
        self
    }

    /// Readers, each of which sees every message; at least 1.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.spec.readers = readers;
        self
    }

    /// Every message has tensors of the layouts of the first: types and shapes travel once, and others are refused.
    #[must_use]
    pub fn static_shape(mut self, is_static: bool) -> Self {
        self.is_static = is_static;
        self
    }

    /// How streams of different processes tell each other that a slot is written, or read; within a process it is by events.
    #[must_use]
    pub fn signals(mut self, signals: Signals) -> Self {
        self.signals = signals;
        self
    }

    /// How ends wait on the host; as in [`ChannelOptions::waiting`].
    #[must_use]
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.control = self.control.waiting(waiting);
        self
    }

    /// How long ends wait on the host; default 10 s. With `None` they wait for as long as the peers live.
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

    /// A channel between threads of this process.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`](crate::ChannelError::InvalidSpec) when there are no slots or no readers,
    /// [`DeviceError::Call`](crate::device::DeviceError::Call) when the device has no memory left.
    pub fn threads(&self, gpu: &Gpu) -> Result<(DeviceWriter, Vec<DeviceReader>), DeviceChannelError> {
        let memory = DeviceMemory::new(gpu, self.spec.bytes()?)?;
        let events = (0..self.spec.points()?).map(|_| Event::new(gpu));
        let ring = Ring::with_events(self.spec, memory, events)?;
        let owned = Arc::new(Owned::local(ring));
        let (writer, readers) = self.control().threads::<Frame>()?;
        let reader = |(index, control)| DeviceReader::new(control, Arc::clone(&owned), index, self.is_static);
        let readers = (0..).zip(readers).map(reader).collect();
        Ok((DeviceWriter::new(writer, owned, self.is_static, true), readers))
    }

    /// A channel between processes of this host and user. This process owns the device's memory and the events: it keeps the
    /// channel, or an end of it, for as long as the channel is used.
    ///
    /// # Errors
    /// As [`threads`](Self::threads), and where the system does not let processes share memory of the device.
    pub fn shared(&self, gpu: &Gpu) -> Result<SharedDeviceChannel, DeviceChannelError> {
        SharedDeviceChannel::create(self.clone(), gpu)
    }
}
