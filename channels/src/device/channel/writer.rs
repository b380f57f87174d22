//! The writer endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::{Content, DeviceFrame, TensorOffsets};
use super::loan::DeviceLoan;
use super::owned::Owned;
use super::ring::Ring;
use crate::channel::Writer;
use crate::device::extraction::{Of, take_apart};
use crate::device::stream::Stream;
use crate::device::tensor::DeviceTensor;
use crate::error::ChannelError;
use crate::fault::Fault;
use crate::fault_point;
use crate::payload::TensorLayout;
use crate::payload::Wire;

/// The writer endpoint of a channel of tensors. Dropping it closes the channel; readers still receive the messages that
/// are in it.
///
/// The writer waits on the host for free slots only, and never for the device. Before a writing process ends, it must
/// wait for its stream ([`Stream::wait`]): writes that are not done by then never happen, and the readers' streams wait
/// for them.
pub struct DeviceWriter {
    pub(super) control: Writer<DeviceFrame>,
    pub(super) owned: Arc<Owned>,
    /// The layouts of the first message, if they fix those of all messages.
    first: Option<Vec<TensorLayout>>,
    is_static: bool,
    /// Set when every reader is in this process: then tensors are sent by pointer.
    is_local: bool,
    /// The slots whose last loan was dropped: the stream of that loan may still write them.
    pub(super) abandoned: Vec<usize>,
}

impl fmt::Debug for DeviceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceWriter").finish_non_exhaustive()
    }
}

/// The time limit of a wait for a slot.
enum Wait {
    Not,
    For(Option<Duration>),
}

impl DeviceWriter {
    pub(super) fn new(
        control: Writer<DeviceFrame>,
        owned: Arc<Owned>,
        is_static: bool,
        is_local: bool,
    ) -> Self {
        DeviceWriter {
            control,
            owned,
            first: None,
            is_static,
            is_local,
            abandoned: Vec::new(),
        }
    }

    /// The number of the next message, counted from 0.
    pub fn position(&self) -> u64 {
        self.control.position()
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.owned.ring
    }

    /// Waits for a free slot within the channel's time limit, and lends the places for tensors of these layouts in it.
    /// [`DeviceLoan::publish`] sends the contents that `stream` has written there, without a copy. A message may have
    /// no tensors.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`](crate::device::DeviceError::WrongDevice) if the stream is on another device,
    /// [`DeviceChannelError::StaticShape`], [`ChannelError::TooLarge`], [`ChannelError::Timeout`] (nothing has
    /// changed), [`ChannelError::Poisoned`] if a reader's process has died.
    pub fn reserve<'w>(
        &'w mut self,
        stream: &'w Stream,
        layouts: &[TensorLayout],
    ) -> Result<DeviceLoan<'w>, DeviceChannelError> {
        let timeout = self.control.timeout();
        self.lend(stream, layouts, Wait::For(timeout))
    }

    /// Reserves a slot like [`reserve`](Self::reserve), with `timeout` as the time limit.
    ///
    /// # Errors
    /// The errors of [`reserve`](Self::reserve).
    pub fn reserve_timeout<'w>(
        &'w mut self,
        stream: &'w Stream,
        layouts: &[TensorLayout],
        timeout: Duration,
    ) -> Result<DeviceLoan<'w>, DeviceChannelError> {
        self.lend(stream, layouts, Wait::For(Some(timeout)))
    }

    /// Reserves a slot like [`reserve`](Self::reserve), without waiting.
    ///
    /// # Errors
    /// [`ChannelError::Full`] if no slot is free, and the errors of [`reserve`](Self::reserve).
    pub fn try_reserve<'w>(
        &'w mut self,
        stream: &'w Stream,
        layouts: &[TensorLayout],
    ) -> Result<DeviceLoan<'w>, DeviceChannelError> {
        self.lend(stream, layouts, Wait::Not)
    }

    fn lend<'w>(
        &'w mut self,
        stream: &'w Stream,
        layouts: &[TensorLayout],
        wait: Wait,
    ) -> Result<DeviceLoan<'w>, DeviceChannelError> {
        let memory = self.ring().memory.gpu();
        memory.context.check_same("the stream", &stream.gpu().context)?;
        self.check_layouts(layouts)?;
        let places = self.places(layouts)?;
        self.credit(wait)?;
        let slot = self.ring().slot(self.position());
        // GPU-2, and the order behind the work that an abandoned loan has enqueued.
        self.ring().after_readers(slot, stream)?;
        if self.abandoned.contains(&slot) {
            self.ring().after_writer(slot, stream)?;
        }
        fault_point::at("device writer: with a slot in hand");
        Ok(DeviceLoan::new(self, stream, slot, layouts.to_vec(), places))
    }

    fn credit(&mut self, wait: Wait) -> Result<(), ChannelError> {
        match wait {
            Wait::For(timeout) => self.control.credit(timeout),
            Wait::Not if self.control.has_credit()? => Ok(()),
            Wait::Not => Err(ChannelError::Full),
        }
    }

    fn check_layouts(&self, layouts: &[TensorLayout]) -> Result<(), DeviceChannelError> {
        match &self.first {
            Some(first) if first != layouts => Err(DeviceChannelError::StaticShape {
                expected: first.clone(),
                found: layouts.to_vec(),
            }),
            _ => Ok(()),
        }
    }

    fn places(&self, layouts: &[TensorLayout]) -> Result<TensorOffsets, DeviceChannelError> {
        let max_bytes = self.ring().spec.slot_bytes as u64;
        let places = TensorOffsets::of(layouts);
        let need_bytes = places.as_ref().map_or(u64::MAX, |places| places.bytes as u64);
        places.filter(|_| need_bytes <= max_bytes).ok_or_else(|| {
            ChannelError::TooLarge {
                need_bytes,
                max_bytes,
            }
            .into()
        })
    }

    /// Sends the metadata of the message in the next slot. The caller has the credit for that slot.
    pub(super) fn announce(
        &mut self,
        layouts: Vec<TensorLayout>,
        value: Vec<u8>,
    ) -> Result<(), DeviceChannelError> {
        let is_first = self.first.is_none();
        let content = if self.is_static && !is_first {
            Content::AsFirst
        } else {
            Content::Tensors(layouts.clone())
        };
        let frame = DeviceFrame { content, value };
        let slot = self.ring().slot(self.position());
        self.control.try_send(frame).map_err(|refused| refused.error)?;
        if self.is_static && is_first {
            self.first = Some(layouts);
        }
        self.abandoned.retain(|it| *it != slot);
        Ok(())
    }

    /// Sends tensors: to readers in this process by pointer and event, to other processes by a copy on the device,
    /// enqueued on `stream`. Waits for a free slot within the channel's time limit.
    ///
    /// # Errors
    /// The errors of [`reserve`](Self::reserve), also if a tensor is on another device.
    pub fn send(&mut self, stream: &Stream, tensors: &[DeviceTensor]) -> Result<(), DeviceChannelError> {
        self.send_parts(stream, tensors, Vec::new())
    }

    /// Sends any value. Its tensors on this device are sent as by [`send`](Self::send). Its other parts, also host
    /// tensors, are sent with the metadata.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send), and [`ChannelError::Encode`].
    pub fn send_value<T: Wire>(&mut self, stream: &Stream, value: &T) -> Result<(), DeviceChannelError> {
        let (bytes, tensors) = take_apart(value, Of::This(self.ring().memory.gpu().clone()))?;
        self.send_parts(stream, &tensors, bytes)
    }

    fn send_parts(
        &mut self,
        stream: &Stream,
        tensors: &[DeviceTensor],
        value: Vec<u8>,
    ) -> Result<(), DeviceChannelError> {
        let gpu = self.ring().memory.gpu();
        for tensor in tensors {
            gpu.context.check_same("the tensor", &tensor.gpu().context)?;
        }
        let layouts: Vec<_> = tensors.iter().map(|tensor| tensor.layout().clone()).collect();
        if self.is_local {
            return self.give(tensors, layouts, value);
        }
        let mut loan = self.reserve(stream, &layouts)?;
        for (index, tensor) in tensors.iter().enumerate() {
            loan.copy(index, tensor)?;
        }
        loan.publish_with(value)
    }

    /// Sends tensors by pointer and event.
    fn give(
        &mut self,
        tensors: &[DeviceTensor],
        layouts: Vec<TensorLayout>,
        value: Vec<u8>,
    ) -> Result<(), DeviceChannelError> {
        self.check_layouts(&layouts)?;
        let timeout = self.control.timeout();
        self.credit(Wait::For(timeout))?;
        let content = Content::Given(tensors.to_vec());
        let given = DeviceFrame { content, value };
        self.control.try_send(given).map_err(|refused| refused.error)?;
        if self.is_static && self.first.is_none() {
            self.first = Some(layouts);
        }
        Ok(())
    }

    /// Sends a fault instead of tensors; the channel stays open. Waits for a free slot within the channel's time limit.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`], [`ChannelError::Poisoned`], [`ChannelError::TooLarge`].
    pub fn send_fault(&mut self, fault: &Fault) -> Result<(), DeviceChannelError> {
        let timeout = self.control.timeout();
        self.control.credit(timeout)?;
        Ok(self.control.put_fault(fault)?)
    }

    /// Sends a fault like [`send_fault`](Self::send_fault), without waiting.
    ///
    /// # Errors
    /// [`ChannelError::Full`] if no slot is free, and the errors of [`send_fault`](Self::send_fault).
    pub fn try_send_fault(&mut self, fault: &Fault) -> Result<(), DeviceChannelError> {
        self.credit(Wait::Not)?;
        Ok(self.control.put_fault(fault)?)
    }

    /// Waits until every reader has released every message on the host. Their streams may still be reading.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`] with the readers that are behind, [`ChannelError::Poisoned`].
    pub fn flush(&mut self, timeout: Duration) -> Result<(), DeviceChannelError> {
        Ok(self.control.drain(Some(timeout))?)
    }

    /// Announces that no message follows. Never waits. Further calls have no effect.
    pub fn close(&mut self) {
        self.control.close();
    }
}
