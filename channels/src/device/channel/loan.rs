//! Loans: slots that are being written.

use super::error::DeviceChannelError;
use super::frame::TensorOffsets;
use super::writer::DeviceWriter;
use crate::device::memory::SpanMut;
use crate::device::stream::Stream;
use crate::device::tensor::DeviceTensor;
use crate::error::End;
use crate::fault_point;
use crate::payload::Tensor;
use crate::payload::TensorLayout;

/// A loan of the next free slot: the places for a message's tensors, and the stream that may write them. This stream is
/// ordered behind every reader of the slot's last message.
///
/// Dropping a loan sends nothing. The next loan of the slot is ordered behind the work that was enqueued for it.
#[must_use = "`publish` sends what is written here"]
#[derive(Debug)]
pub struct DeviceLoan<'w> {
    writer: &'w mut DeviceWriter,
    stream: &'w Stream,
    slot: usize,
    layouts: Vec<TensorLayout>,
    places: TensorOffsets,
    published: bool,
}

impl<'w> DeviceLoan<'w> {
    pub(super) fn new(
        writer: &'w mut DeviceWriter,
        stream: &'w Stream,
        slot: usize,
        layouts: Vec<TensorLayout>,
        places: TensorOffsets,
    ) -> Self {
        DeviceLoan {
            writer,
            stream,
            slot,
            layouts,
            places,
            published: false,
        }
    }

    /// The stream on which the slot may be written.
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.layouts.len()
    }

    /// Whether the message has no tensors.
    pub fn is_empty(&self) -> bool {
        self.layouts.is_empty()
    }

    /// The layout of a tensor.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`].
    pub fn layout(&self, index: usize) -> Result<&TensorLayout, DeviceChannelError> {
        self.layouts.get(index).ok_or(DeviceChannelError::NoTensor {
            index,
            count: self.layouts.len(),
        })
    }

    /// The place of a tensor, for kernels on [`stream`](Self::stream).
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`].
    pub fn span(&mut self, index: usize) -> Result<SpanMut<'_>, DeviceChannelError> {
        let bytes = self.layout(index)?.len_bytes();
        let ring = self.writer.ring();
        let offset = self.places.offset(index).unwrap_or(0);
        // The slot belongs to the writer until it is published (GPU-2).
        Ok(ring.memory.span_owned(ring.offset(self.slot)? + offset, bytes)?)
    }

    fn check(&self, index: usize, found: &TensorLayout) -> Result<(), DeviceChannelError> {
        let expected = self.layout(index)?;
        if expected == found {
            return Ok(());
        }
        Err(DeviceChannelError::Layout {
            expected: expected.clone(),
            found: found.clone(),
        })
    }

    /// Enqueues a copy of a host tensor. The caller may reuse that tensor at once.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`], [`DeviceChannelError::Layout`], and the errors of the device.
    pub fn upload(&mut self, index: usize, tensor: &Tensor) -> Result<(), DeviceChannelError> {
        self.check(index, &TensorLayout::of(tensor)?)?;
        let stream = self.stream;
        Ok(stream.upload(self.span(index)?, tensor.bytes())?)
    }

    /// Enqueues a copy of a tensor of this device, ordered behind its `ready` event.
    ///
    /// # Errors
    /// The errors of [`upload`](Self::upload).
    pub fn copy(&mut self, index: usize, tensor: &DeviceTensor) -> Result<(), DeviceChannelError> {
        self.check(index, tensor.layout())?;
        let stream = self.stream;
        stream.order_after(tensor.ready())?;
        Ok(stream.copy(self.span(index)?, tensor.span()?)?)
    }

    /// Enqueues an operation that sets every byte of a tensor to `byte`.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`], and the errors of the device.
    pub fn fill(&mut self, index: usize, byte: u8) -> Result<(), DeviceChannelError> {
        let stream = self.stream;
        Ok(stream.fill(self.span(index)?, byte)?)
    }

    /// Sends the message. It consists of the writes that are enqueued on the stream so far. The readers' streams wait
    /// for these writes; no host thread does.
    ///
    /// # Errors
    /// The errors of the channel and of the device; nothing is sent then.
    pub fn publish(self) -> Result<(), DeviceChannelError> {
        self.publish_with(Vec::new())
    }

    /// Sends the message together with the encoded value that contained the tensors.
    pub(super) fn publish_with(mut self, value: Vec<u8>) -> Result<(), DeviceChannelError> {
        // GPU-1: the record is enqueued before any reader sees the message, so a reader's wait finds it.
        self.writer.ring().record(End::Writer, self.slot, self.stream)?;
        fault_point::at("device writer: after the record");
        let layouts = std::mem::take(&mut self.layouts);
        self.writer.announce(layouts, value)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for DeviceLoan<'_> {
    fn drop(&mut self) {
        if !self.published {
            if !self.writer.abandoned.contains(&self.slot) {
                self.writer.abandoned.push(self.slot);
            }
            // If the driver refuses, the device runs nothing any more.
            let _ = self.writer.ring().record(End::Writer, self.slot, self.stream);
        }
    }
}
