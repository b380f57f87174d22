//! A message that is being read where it lies.

use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::Places;
use super::reader::DeviceReader;
use crate::device::crossing::Crossing;
use crate::device::extraction::put_together;
use crate::device::memory::Span;
use crate::device::stream::Stream;
use crate::device::tensor::DeviceTensor;
use crate::payload::TensorLayout;
use crate::payload::{Tensor, Wire};

/// What a slot holds.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) layouts: Vec<TensorLayout>,
    pub(super) places: Places,
}

/// A message's tensors.
#[derive(Debug)]
pub(super) enum Held {
    Slot(Arc<Listed>),
    Given(Vec<DeviceTensor>),
}

/// A message, borrowed: its tensors in place, for the stream that was given. The writer's stream leaves them alone until that
/// stream has done what was enqueued before this was dropped.
#[derive(Debug)]
pub struct DeviceView<'r> {
    reader: &'r mut DeviceReader,
    stream: &'r Stream,
    slot: usize,
    held: Held,
    /// What the tensors were taken out of.
    value: Vec<u8>,
    given_back: bool,
}

impl<'r> DeviceView<'r> {
    pub(super) fn new(
        reader: &'r mut DeviceReader,
        stream: &'r Stream,
        slot: usize,
        held: Held,
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

    /// The stream that may read.
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        match &self.held {
            Held::Slot(listed) => listed.layouts.len(),
            Held::Given(tensors) => tensors.len(),
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
            Held::Slot(listed) => listed.layouts.get(index),
            Held::Given(tensors) => tensors.get(index).map(DeviceTensor::layout),
        };
        layout.ok_or_else(|| self.no_tensor(index))
    }

    /// Where a tensor lies, for kernels on [`stream`](Self::stream), or on others that are ordered behind it and it behind them
    /// before this is dropped.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`].
    pub fn span(&self, index: usize) -> Result<Span<'_>, DeviceChannelError> {
        match &self.held {
            Held::Given(tensors) => {
                let tensor = tensors.get(index).ok_or_else(|| self.no_tensor(index))?;
                Ok(tensor.span()?)
            }
            Held::Slot(listed) => {
                let bytes = self.layout(index)?.len_bytes();
                let ring = self.reader.ring();
                let offset = listed.places.offset(index).unwrap_or(0);
                Ok(ring.memory.span(ring.offset(self.slot)? + offset, bytes)?)
            }
        }
    }

    /// A tensor that outlives the view: the one that was given, or a copy on the device.
    ///
    /// # Errors
    /// [`DeviceChannelError::NoTensor`], and what the device says.
    pub fn keep(&self, index: usize) -> Result<DeviceTensor, DeviceChannelError> {
        if let Held::Given(tensors) = &self.held {
            let tensor = tensors.get(index).ok_or_else(|| self.no_tensor(index))?;
            return Ok(tensor.clone());
        }
        let layout = self.layout(index)?.clone();
        Ok(DeviceTensor::copy_of(self.stream, layout, self.span(index)?)?)
    }

    /// The same, by a copy across to another device where it is not on that one.
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

    /// The value that was sent, its tensors as [`keep`](Self::keep) has them.
    ///
    /// # Errors
    /// [`ChannelError::Decode`](crate::ChannelError::Decode) when it is no `T`, also when it was sent without a value around its
    /// tensors; and what the device says.
    pub fn value<T: Wire>(&self) -> Result<T, DeviceChannelError> {
        let tensors: Result<Vec<_>, _> = (0..self.len()).map(|index| self.keep(index)).collect();
        Ok(put_together(&self.value, tensors?)?)
    }

    /// Waits until a tensor is ready and has come to the host.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`](crate::ChannelError::Timeout), [`ChannelError::Poisoned`](crate::ChannelError::Poisoned) as
    /// soon as a peer's process has died and it is not there, [`DeviceChannelError::NoTensor`], and what the device says.
    pub fn download(&mut self, index: usize, timeout: Duration) -> Result<Tensor, DeviceChannelError> {
        let layout = self.layout(index)?.clone();
        let stream = self.stream;
        let download = stream.download(self.span(index)?)?;
        self.reader.wait(stream, timeout)?;
        let tensor = |bytes: &[u8]| Tensor::from_raw(layout.dtype(), layout.shape(), bytes);
        Ok(download.read(tensor)??)
    }

    /// Waits until the device has written the message, and has done what was enqueued on the stream since.
    ///
    /// # Errors
    /// As [`download`](Self::download).
    pub fn wait(&mut self, timeout: Duration) -> Result<(), DeviceChannelError> {
        self.reader.wait(self.stream, timeout)
    }

    /// Gives the message back, and says where that failed. Dropping does the same.
    ///
    /// # Errors
    /// What the device says; then the slot is not given back, and the next read finds the same message.
    /// [`ChannelError::Poisoned`](crate::ChannelError::Poisoned) when a peer's process has died: what was read may never have
    /// been written.
    pub fn release(mut self) -> Result<(), DeviceChannelError> {
        self.given_back = true;
        self.reader.give_back(self.stream, self.slot, &self.held)?;
        Ok(self.reader.control.check_live()?)
    }
}

impl Drop for DeviceView<'_> {
    fn drop(&mut self) {
        if !self.given_back {
            // Where the driver refuses, the writer waits for a credit and hears of us by its time-out or our end.
            let _ = self.reader.give_back(self.stream, self.slot, &self.held);
        }
    }
}
