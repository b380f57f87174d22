//! Views: messages that are read in place.

use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::TensorOffsets;
use super::reader::DeviceReader;
use crate::device::crossing::Crossing;
use crate::device::extraction::put_together;
use crate::device::memory::Span;
use crate::device::stream::Stream;
use crate::device::tensor::DeviceTensor;
use crate::payload::TensorLayout;
use crate::payload::{Tensor, Wire};

/// The layouts and places of the tensors in a slot.
#[derive(Debug)]
pub(super) struct SlotContents {
    pub(super) layouts: Vec<TensorLayout>,
    pub(super) places: TensorOffsets,
}

/// The tensors of a message: in its slot, or sent by pointer.
#[derive(Debug)]
pub(super) enum HeldTensors {
    Slot(Arc<SlotContents>),
    Given(Vec<DeviceTensor>),
}

/// A borrowed message: its tensors in place, for the given stream. The writer's stream does not overwrite them before
/// that stream has done all work that was enqueued before the drop of the view.
#[derive(Debug)]
pub struct DeviceView<'r> {
    reader: &'r mut DeviceReader,
    stream: &'r Stream,
    slot: usize,
    held: HeldTensors,
    /// The encoded value that contained the tensors.
    value: Vec<u8>,
    given_back: bool,
}

impl<'r> DeviceView<'r> {
    pub(super) fn new(
        reader: &'r mut DeviceReader,
        stream: &'r Stream,
        slot: usize,
        held: HeldTensors,
        value: Vec<u8>,
    ) -> Self {
        DeviceView {
            reader,
            stream,
            slot,
            held,
            value,
            given_back: false,
        }
    }

    /// The stream that may read the tensors.
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        match &self.held {
            HeldTensors::Slot(listed) => listed.layouts.len(),
            HeldTensors::Given(tensors) => tensors.len(),
        }
    }

    /// Whether the message has no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn no_tensor(&self, index: usize) -> DeviceChannelError {
        DeviceChannelError::NoTensor {
            index,
            count: self.len(),
        }
    }

    /// The layout of a tensor.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`].
    pub fn layout(&self, index: usize) -> Result<&TensorLayout, DeviceChannelError> {
        let layout = match &self.held {
            HeldTensors::Slot(listed) => listed.layouts.get(index),
            HeldTensors::Given(tensors) => tensors.get(index).map(DeviceTensor::layout),
        };
        layout.ok_or_else(|| self.no_tensor(index))
    }

    /// The place of a tensor, for kernels on [`stream`](Self::stream). Another stream may read it too, if it is ordered
    /// behind `stream`, and if `stream` is ordered behind it before the view is dropped.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`].
    pub fn span(&self, index: usize) -> Result<Span<'_>, DeviceChannelError> {
        match &self.held {
            HeldTensors::Given(tensors) => {
                let tensor = tensors.get(index).ok_or_else(|| self.no_tensor(index))?;
                Ok(tensor.span()?)
            }
            HeldTensors::Slot(listed) => {
                let bytes = self.layout(index)?.len_bytes();
                let ring = self.reader.ring();
                let offset = listed.places.offset(index).unwrap_or(0);
                Ok(ring.memory.span(ring.offset(self.slot)? + offset, bytes)?)
            }
        }
    }

    /// Returns a tensor that outlives the view: the tensor that was sent by pointer, or a copy on the device.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`], and the errors of the device.
    pub fn keep(&self, index: usize) -> Result<DeviceTensor, DeviceChannelError> {
        if let HeldTensors::Given(tensors) = &self.held {
            let tensor = tensors.get(index).ok_or_else(|| self.no_tensor(index))?;
            return Ok(tensor.clone());
        }
        let layout = self.layout(index)?.clone();
        Ok(DeviceTensor::copy_of(self.stream, layout, self.span(index)?)?)
    }

    /// Returns a tensor that outlives the view on the destination device of `crossing`, by a device-to-device copy if
    /// the message is on another device.
    pub(in crate::device) fn keep_across(
        &self,
        crossing: &Crossing,
        index: usize,
    ) -> Result<DeviceTensor, DeviceChannelError> {
        if crossing.gpu().id() == self.stream.gpu().id() {
            return self.keep(index);
        }
        let layout = self.layout(index)?.clone();
        Ok(crossing.copy(self.stream, layout, self.span(index)?)?)
    }

    /// Returns the value that was sent, with tensors as from [`keep`](Self::keep).
    ///
    /// # Errors
    /// [`ChannelError::Decode`](crate::ChannelError::Decode) if the value is not a `T`, also if tensors were sent
    /// without a value; and the errors of the device.
    pub fn value<T: Wire>(&self) -> Result<T, DeviceChannelError> {
        let tensors: Result<Vec<_>, _> = (0..self.len()).map(|index| self.keep(index)).collect();
        Ok(put_together(&self.value, tensors?)?)
    }

    /// Waits until a tensor is ready and has been copied to the host.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`](crate::ChannelError::Timeout),
    /// [`ChannelError::Poisoned`](crate::ChannelError::Poisoned) as soon as a peer's process has died and the tensor is
    /// not there, [`DeviceChannelError::NoTensor`], and the errors of the device.
    pub fn download(&mut self, index: usize, timeout: Duration) -> Result<Tensor, DeviceChannelError> {
        let layout = self.layout(index)?.clone();
        let stream = self.stream;
        let download = stream.download(self.span(index)?)?;
        self.reader.wait(stream, timeout)?;
        let tensor = |bytes: &[u8]| Tensor::from_raw(layout.dtype(), layout.shape(), bytes);
        Ok(download.read(tensor)??)
    }

    /// Waits until the device has written the message and has done the work that was enqueued on the stream since.
    ///
    /// # Errors
    /// The errors of [`download`](Self::download).
    pub fn wait(&mut self, timeout: Duration) -> Result<(), DeviceChannelError> {
        self.reader.wait(self.stream, timeout)
    }

    /// Releases the message, and reports errors. Dropping the view releases the message without a report.
    ///
    /// # Errors
    /// The errors of the device; then the slot is not released, and the next read finds the same message.
    /// [`ChannelError::Poisoned`](crate::ChannelError::Poisoned) if a peer's process has died: the bytes that were read
    /// may never have been written.
    pub fn release(mut self) -> Result<(), DeviceChannelError> {
        self.given_back = true;
        self.reader.give_back(self.stream, self.slot, &self.held)?;
        Ok(self.reader.control.check_live()?)
    }
}

impl Drop for DeviceView<'_> {
    fn drop(&mut self) {
        if !self.given_back {
            // If the driver refuses, the slot is not released. The writer then waits until its time limit, or until
            // this reader is dropped.
            let _ = self.reader.give_back(self.stream, self.slot, &self.held);
        }
    }
}
