//! The writing end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::{Content, Frame, Places};
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

/// The writing end of a channel of tensors. Dropping it closes the channel; readers read what is there.
///
/// It waits on the host for slots only, never for the device. A process that writes lets its stream come to an end before it
/// does itself ([`Stream::wait`]): what has not been written then never is, and readers' streams wait for it.
pub struct DeviceWriter {
    pub(super) control: Writer<Frame>,
    pub(super) owned: Arc<Owned>,
    /// The layouts of the first message, where they are fixed by it.
    first: Option<Vec<TensorLayout>>,
    is_static: bool,
    /// Every reader is of this process, so that tensors can be given by pointer.
    is_local: bool,
    /// Slots whose last loan was dropped: they may still be written by that loan's stream.
    pub(super) abandoned: Vec<usize>,
}

impl fmt::Debug for DeviceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceWriter").finish_non_exhaustive()
    }
}

/// How long to wait for a slot.
enum Wait {
    Not,
    For(Option<Duration>),
}

impl DeviceWriter {
    pub(super) fn new(control: Writer<Frame>, owned: Arc<Owned>, is_static: bool, is_local: bool) -> Self {
        DeviceWriter {
            control,
            owned,
            first: None,
            is_static,
            is_local,
            abandoned: Vec::new(),
        }
    }

    /// Number of the next message, counted from 0.
    pub fn position(&self) -> u64 {
        self.control.position()
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.owned.ring
    }

    /// Waits for a free slot as long as the channel's time-out allows, and lends the places for tensors of these layouts in
    /// it: what is written there on `stream` is sent by [`DeviceLoan::publish`] without being copied. No layouts are a message
    /// too.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`](crate::device::DeviceError::WrongDevice) when the stream is on another device,
    /// [`DeviceChannelError::StaticShape`], [`ChannelError::TooLarge`], [`ChannelError::Timeout`] (nothing has changed),
    /// [`ChannelError::Poisoned`] when a reader's process has died.
    pub fn reserve<'w>(
        &'w mut self,
        stream: &'w Stream,
        layouts: &[TensorLayout],
    ) -> Result<DeviceLoan<'w>, DeviceChannelError> {
        let timeout = self.control.timeout();
        self.lend(stream, layouts, Wait::For(timeout))
    }

    /// As [`reserve`](Self::reserve), waiting at most `timeout`.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn reserve_timeout<'w>(
        &'w mut self,
        stream: &'w Stream,
        layouts: &[TensorLayout],
        timeout: Duration,
    ) -> Result<DeviceLoan<'w>, DeviceChannelError> {
        self.lend(stream, layouts, Wait::For(Some(timeout)))
    }

    /// As [`reserve`](Self::reserve), if there is a free slot.
    ///
    /// # Errors
    /// [`ChannelError::Full`], and as [`reserve`](Self::reserve).
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
        // GPU-2, and what an abandoned loan has enqueued.
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

    fn places(&self, layouts: &[TensorLayout]) -> Result<Places, DeviceChannelError> {
        let max_bytes = self.ring().spec.slot_bytes as u64;
        let places = Places::of(layouts);
        let need_bytes = places.as_ref().map_or(u64::MAX, |places| places.bytes as u64);
        places.filter(|_| need_bytes <= max_bytes).ok_or_else(|| {
            ChannelError::TooLarge {
                need_bytes,
                max_bytes,
            }
            .into()
        })
    }

    /// Sends what says what is in a slot that is free.
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
        let frame = Frame { content, value };
        let slot = self.ring().slot(self.position());
        self.control.try_send(frame).map_err(|refused| refused.error)?;
        if self.is_static && is_first {
            self.first = Some(layouts);
        }
        self.abandoned.retain(|it| *it != slot);
        Ok(())
    }

    /// Sends tensors: to readers in this process by pointer and event, to others by a copy on the device, enqueued on
    /// `stream`. Waits for a free slot as long as the channel's time-out allows.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), also when a tensor is on another device.
    pub fn send(&mut self, stream: &Stream, tensors: &[DeviceTensor]) -> Result<(), DeviceChannelError> {
        self.send_parts(stream, tensors, Vec::new())
    }

    /// Sends any value, whose tensors on this device travel as [`send`](Self::send) has them and whose other parts, tensors of
    /// the host among them, travel beside the metadata.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`ChannelError::Encode`].
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
        let given = Frame { content, value };
        self.control.try_send(given).map_err(|refused| refused.error)?;
        if self.is_static && self.first.is_none() {
            self.first = Some(layouts);
        }
        Ok(())
    }

    /// Sends a fault instead of tensors; the channel goes on. Waits for a free slot as long as the channel's time-out allows.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`], [`ChannelError::Poisoned`], [`ChannelError::TooLarge`].
    pub fn send_fault(&mut self, fault: &Fault) -> Result<(), DeviceChannelError> {
        let timeout = self.control.timeout();
        self.control.credit(timeout)?;
        Ok(self.control.put_fault(fault)?)
    }

    /// As [`send_fault`](Self::send_fault), if there is a free slot.
    ///
    /// # Errors
    /// [`ChannelError::Full`], and as [`send_fault`](Self::send_fault).
    pub fn try_send_fault(&mut self, fault: &Fault) -> Result<(), DeviceChannelError> {
        self.credit(Wait::Not)?;
        Ok(self.control.put_fault(fault)?)
    }

    /// Waits until every reader has let go of every message. Their streams may still be at it.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`] with who is behind, [`ChannelError::Poisoned`].
    pub fn flush(&mut self, timeout: Duration) -> Result<(), DeviceChannelError> {
        Ok(self.control.drain(Some(timeout))?)
    }

    /// Says that no message follows. Never waits; again is the same as once.
    pub fn close(&mut self) {
        self.control.close();
    }
}
