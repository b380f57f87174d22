//! Channels of tensors between threads.

use std::sync::Arc;

use super::error::DeviceChannelError;
use super::frame::DeviceFrame;
use super::options::DeviceChannelOptions;
use super::owned::Owned;
use super::reader::DeviceReader;
use super::ring::Ring;
use super::writer::DeviceWriter;
use crate::device::event::Event;
use crate::device::gpu::Gpu;
use crate::device::memory::DeviceMemory;

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
