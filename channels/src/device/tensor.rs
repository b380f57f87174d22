//! Tensors on a device.

use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceError;
use super::event::Event;
use super::gpu::Gpu;
use super::memory::{DeviceMemory, Span};
use super::stream::Stream;
use crate::payload::Tensor;
use crate::payload::TensorLayout;

/// A tensor on a device: its bytes, its layout, and the event after which the bytes are valid. Clones share the bytes.
///
/// Three things are passed to another library: `span().address()`, [`layout`](Self::layout) and [`ready`](Self::ready).
/// A shared stream is never assumed: the reading library orders a stream of its own behind `ready`.
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    memory: Arc<DeviceMemory>,
    layout: TensorLayout,
    ready: Arc<Event>,
}

impl DeviceTensor {
    /// Wraps `memory`, which holds the tensor from its first byte on. The bytes are valid once the work that is on
    /// `stream` now is done.
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

    /// Enqueues a copy of a host tensor. The caller may reuse that tensor at once.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn upload(stream: &Stream, tensor: &Tensor) -> Result<Self, DeviceError> {
        let layout = TensorLayout::of(tensor)?;
        let mut memory = DeviceMemory::new(stream.gpu(), layout.len_bytes())?;
        stream.upload(memory.span_mut(0, layout.len_bytes())?, tensor.bytes())?;
        DeviceTensor::written(memory, layout, stream)
    }

    /// Enqueues the creation of a tensor of zeros.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn zeros(stream: &Stream, layout: TensorLayout) -> Result<Self, DeviceError> {
        let mut memory = DeviceMemory::new(stream.gpu(), layout.len_bytes())?;
        stream.fill(memory.span_mut(0, layout.len_bytes())?, 0)?;
        DeviceTensor::written(memory, layout, stream)
    }

    /// Enqueues a copy of the bytes at `from`, which `stream` may read by now.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] if the length of `from` differs from that of the layout,
    /// [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn copy_of(stream: &Stream, layout: TensorLayout, from: Span<'_>) -> Result<Self, DeviceError> {
        let mut memory = DeviceMemory::new(stream.gpu(), layout.len_bytes())?;
        stream.copy(memory.span_mut(0, layout.len_bytes())?, from)?;
        DeviceTensor::written(memory, layout, stream)
    }

    /// Waits until the tensor is ready and has been copied to the host over `stream`.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`], [`DeviceError::WrongDevice`], [`DeviceError::Call`], [`DeviceError::Tensor`] if the
    /// host has no memory for the tensor.
    pub fn download(&self, stream: &Stream, timeout: Duration) -> Result<Tensor, DeviceError> {
        stream.order_after(&self.ready)?;
        let download = stream.download(self.span()?)?;
        let tensor = |bytes: &[u8]| Tensor::from_raw(self.layout.dtype(), self.layout.shape(), bytes);
        Ok(download.wait(timeout, tensor)??)
    }

    /// The device of the tensor.
    pub fn gpu(&self) -> &Gpu {
        self.memory.gpu()
    }

    /// The element type and the shape.
    pub fn layout(&self) -> &TensorLayout {
        &self.layout
    }

    /// The place of the tensor in the device's memory.
    ///
    /// # Errors
    /// None for a constructed tensor: the constructor has checked that its memory is long enough.
    pub fn span(&self) -> Result<Span<'_>, DeviceError> {
        self.memory.span(0, self.layout.len_bytes())
    }

    /// The event after which the bytes of the tensor are valid.
    pub fn ready(&self) -> &Event {
        &self.ready
    }
}
