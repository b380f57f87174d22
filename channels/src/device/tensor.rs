//! A tensor on a device.

use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceError;
use super::event::Event;
use super::gpu::Gpu;
use super::memory::{DeviceMemory, Span};
use super::stream::Stream;
use crate::payload::Tensor;
use crate::payload::TensorLayout;

/// A tensor on a device: bytes, layout, and the event from which on they hold what they should. Clones share the bytes.
///
/// At every boundary to another library these three travel: `span().address()`, [`layout`](Self::layout) and
/// [`ready`](Self::ready). A shared stream is never assumed: who reads orders a stream of its own behind `ready`.
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    memory: Arc<DeviceMemory>,
    layout: TensorLayout,
    ready: Arc<Event>,
}

impl DeviceTensor {
    /// A tensor in `memory` from its first byte on, that holds what it should when what is enqueued on `stream` by now is done.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when the memory is too short, [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn written(memory: DeviceMemory, layout: TensorLayout, stream: &Stream) -> Result<Self, DeviceError> {
        memory.span(0, layout.len_bytes())?;
        stream
            .gpu()
            .context
            .check_same("the memory", &memory.gpu().context)?;
        Ok(DeviceTensor {
            memory: Arc::new(memory),
            layout,
            ready: Arc::new(stream.mark()?),
        })
    }

    /// Enqueues a copy of a tensor of the host, which is the caller's again at once.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn upload(stream: &Stream, tensor: &Tensor) -> Result<Self, DeviceError> {
        let layout = TensorLayout::of(tensor)?;
        let mut memory = DeviceMemory::new(stream.gpu(), layout.len_bytes())?;
        stream.upload(memory.span_mut(0, layout.len_bytes())?, tensor.bytes())?;
        DeviceTensor::written(memory, layout, stream)
    }

    /// Enqueues a tensor of zeros.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn zeros(stream: &Stream, layout: TensorLayout) -> Result<Self, DeviceError> {
        let mut memory = DeviceMemory::new(stream.gpu(), layout.len_bytes())?;
        stream.fill(memory.span_mut(0, layout.len_bytes())?, 0)?;
        DeviceTensor::written(memory, layout, stream)
    }

    /// Enqueues a copy of what is at `from`, which `stream` may read by now.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it is not as long as the layout says, [`DeviceError::WrongDevice`],
    /// [`DeviceError::Call`].
    pub fn copy_of(stream: &Stream, layout: TensorLayout, from: Span<'_>) -> Result<Self, DeviceError> {
        let mut memory = DeviceMemory::new(stream.gpu(), layout.len_bytes())?;
        stream.copy(memory.span_mut(0, layout.len_bytes())?, from)?;
        DeviceTensor::written(memory, layout, stream)
    }

    /// Waits until the tensor is ready and has come to the host over `stream`.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`], [`DeviceError::WrongDevice`], [`DeviceError::Call`], [`DeviceError::Tensor`] without memory.
    pub fn download(&self, stream: &Stream, timeout: Duration) -> Result<Tensor, DeviceError> {
        stream.order_after(&self.ready)?;
        let download = stream.download(self.span()?)?;
        let tensor = |bytes: &[u8]| Tensor::from_raw(self.layout.dtype(), self.layout.shape(), bytes);
        Ok(download.wait(timeout, tensor)??)
    }

    /// Its device.
    pub fn gpu(&self) -> &Gpu {
        self.memory.gpu()
    }

    /// Its type of elements and its shape.
    pub fn layout(&self) -> &TensorLayout {
        &self.layout
    }

    /// Where it lies.
    ///
    /// # Errors
    /// None in a tensor that was made: its memory is long enough.
    pub fn span(&self) -> Result<Span<'_>, DeviceError> {
        self.memory.span(0, self.layout.len_bytes())
    }

    /// The event from which on it holds what it should.
    pub fn ready(&self) -> &Event {
        &self.ready
    }
}
