//! The reader endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::{Content, DeviceFrame, TensorOffsets};
use super::owned::Owned;
use super::ring::Ring;
use super::view::{DeviceView, HeldTensors, SlotContents};
use crate::channel::Reader;
use crate::device::stream::{ASKED_EVERY, Stream};
use crate::error::{ChannelError, End};
use crate::fault::Message;
use crate::fault_point;
use crate::payload::Wire;

/// A reader endpoint of a channel of tensors. It receives every message, in order. Dropping it releases all messages.
///
/// The reader waits on the host for messages only, and never for the device. Before a reading process ends, it must
/// wait for its stream ([`Stream::wait`]), since the writer's stream waits for that stream.
pub struct DeviceReader {
    pub(super) control: Reader<DeviceFrame>,
    owned: Arc<Owned>,
    index: u32,
    is_static: bool,
    /// The tensors of the first message, if they fix the layouts of all messages.
    first: Option<Arc<SlotContents>>,
}

impl fmt::Debug for DeviceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceReader").finish_non_exhaustive()
    }
}

impl DeviceReader {
    pub(super) fn new(control: Reader<DeviceFrame>, owned: Arc<Owned>, index: u32, is_static: bool) -> Self {
        DeviceReader {
            control,
            owned,
            index,
            is_static,
            first: None,
        }
    }

    /// The number of the next message, counted from 0.
    pub fn position(&self) -> u64 {
        self.control.position()
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.owned.ring
    }

    /// Waits for the next message within the channel's time limit, and orders `stream` behind it: work that is enqueued
    /// on `stream` from now on may read its tensors. The device may still be writing them.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`](crate::device::DeviceError::WrongDevice) if the stream is on another device,
    /// [`ChannelError::Timeout`] (nothing has changed), [`ChannelError::Closed`] if the writer has closed the channel
    /// and all messages are read, [`ChannelError::Poisoned`] at once if a peer's process has died.
    pub fn recv<'r>(&'r mut self, stream: &'r Stream) -> Result<Message<DeviceView<'r>>, DeviceChannelError> {
        let timeout = self.control.timeout();
        self.check_stream(stream)?;
        self.control.message(timeout)?;
        self.open(stream)
    }

    /// Receives a message like [`recv`](Self::recv), with `timeout` as the time limit.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn recv_timeout<'r>(
        &'r mut self,
        stream: &'r Stream,
        timeout: Duration,
    ) -> Result<Message<DeviceView<'r>>, DeviceChannelError> {
        self.check_stream(stream)?;
        self.control.message(Some(timeout))?;
        self.open(stream)
    }

    /// Receives a message like [`recv`](Self::recv), without waiting. Returns `None` if there is no message yet.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv), except the timeout.
    pub fn try_recv<'r>(
        &'r mut self,
        stream: &'r Stream,
    ) -> Result<Option<Message<DeviceView<'r>>>, DeviceChannelError> {
        self.check_stream(stream)?;
        if !self.control.has_message()? {
            return Ok(None);
        }
        self.open(stream).map(Some)
    }

    /// Receives a value of [`DeviceWriter::send_value`](super::DeviceWriter::send_value), and waits as
    /// [`recv`](Self::recv) does. Its tensors are those that were sent by pointer, or copies on the device, enqueued on
    /// `stream`.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv), and [`ChannelError::Decode`] if the value is not a `T`; the next call reads
    /// the next message.
    pub fn recv_value<T: Wire>(&mut self, stream: &Stream) -> Result<Message<T>, DeviceChannelError> {
        match self.recv(stream)? {
            Ok(view) => view.value().map(Ok),
            Err(fault) => Ok(Err(fault)),
        }
    }

    fn check_stream(&self, stream: &Stream) -> Result<(), DeviceChannelError> {
        let gpu = self.ring().memory.gpu();
        Ok(gpu.context.check_same("the stream", &stream.gpu().context)?)
    }

    /// Opens the message that has arrived. A malformed message is skipped, so that the next one can be read.
    fn open<'r>(&'r mut self, stream: &'r Stream) -> Result<Message<DeviceView<'r>>, DeviceChannelError> {
        let (held, value) = match self.hold() {
            Ok(Ok(found)) => found,
            Ok(Err(fault)) => {
                self.control.next();
                return Ok(Err(fault));
            }
            Err(error) => {
                self.control.next();
                return Err(error);
            }
        };
        let slot = self.ring().slot(self.position());
        let ordered = match &held {
            HeldTensors::Slot(_) => self.ring().after_writer(slot, stream),
            HeldTensors::Given(tensors) => tensors
                .iter()
                .try_for_each(|tensor| Ok(stream.order_after(tensor.ready())?)),
        };
        // After an error here the caller may try again: the message is still there.
        ordered?;
        fault_point::at("device reader: with a message in hand");
        Ok(Ok(DeviceView::new(self, stream, slot, held, value)))
    }

    /// Checks the metadata of the message, and returns its tensors and its encoded value.
    fn hold(&mut self) -> Result<Message<(HeldTensors, Vec<u8>)>, DeviceChannelError> {
        let DeviceFrame { content, value } = match self.control.content()? {
            Ok(frame) => frame,
            Err(fault) => return Ok(Err(fault)),
        };
        let value = value.clone();
        let layouts = match content {
            Content::Given(tensors) => {
                let layouts: Vec<_> = tensors.iter().map(|tensor| tensor.layout().clone()).collect();
                let given = HeldTensors::Given(tensors.clone());
                // The following messages in place have the layouts of this one.
                if self.is_static
                    && self.first.is_none()
                    && let Some(places) = TensorOffsets::of(&layouts)
                {
                    self.first = Some(Arc::new(SlotContents { layouts, places }));
                }
                return Ok(Ok((given, value)));
            }
            Content::AsFirst => {
                let what = "a message that is as the first, which has not come";
                let first = self.first.clone().ok_or(ChannelError::Corrupt { what })?;
                return Ok(Ok((HeldTensors::Slot(first), value)));
            }
            Content::Tensors(layouts) => layouts.clone(),
        };
        // A writer of this crate refuses tensors that are too large, but the peer may be any program.
        let max_bytes = self.ring().spec.slot_bytes;
        let places = TensorOffsets::of(&layouts).filter(|places| places.bytes <= max_bytes);
        let what = "tensors that do not fit their slot";
        let places = places.ok_or(ChannelError::Corrupt { what })?;
        if let Some(first) = &self.first
            && first.layouts != layouts
        {
            return Err(DeviceChannelError::StaticShape {
                expected: first.layouts.clone(),
                found: layouts,
            });
        }
        let listed = Arc::new(SlotContents { layouts, places });
        if self.is_static {
            self.first = Some(Arc::clone(&listed));
        }
        Ok(Ok((HeldTensors::Slot(listed), value)))
    }

    /// Releases a slot: on the host now, and on the device when `stream` reaches this point.
    pub(super) fn give_back(
        &mut self,
        stream: &Stream,
        slot: usize,
        held: &HeldTensors,
    ) -> Result<(), DeviceChannelError> {
        fault_point::at("device reader: before the record");
        if matches!(held, HeldTensors::Slot(_)) {
            // GPU-2: the record is enqueued before the credit is visible.
            self.ring().record(End::Reader(self.index), slot, stream)?;
        }
        fault_point::at("device reader: after the record");
        self.control.next();
        Ok(())
    }

    /// Waits until `stream` has done all work enqueued so far, or until a peer has died.
    pub(super) fn wait(&mut self, stream: &Stream, timeout: Duration) -> Result<(), DeviceChannelError> {
        if !stream.is_done()? {
            let done = stream.ring_when_done(self.control.bell())?;
            let mut left = timeout;
            loop {
                let part = left.min(ASKED_EVERY);
                left -= part;
                // After an error of the device the bell does not ring.
                match self.control.wait_for(Some(part), || done.has_come()) {
                    Err(ChannelError::Timeout { .. }) if stream.is_done()? => break,
                    Err(ChannelError::Timeout { .. }) if !left.is_zero() => {}
                    Err(ChannelError::Timeout { peers, .. }) => {
                        let waited = timeout;
                        return Err(ChannelError::Timeout { waited, peers }.into());
                    }
                    waited => break waited?,
                }
            }
        }
        // A stream that waits for a dead process continues over bytes that were never written (GPU-5).
        Ok(self.control.check_live()?)
    }
}

#[cfg(test)]
#[cfg_attr(miri, allow(dead_code))]
mod tests {
    use super::*;
    use crate::device::channel::options::DeviceChannelOptions;
    use crate::device::gpu::Gpu;
    use crate::payload::DType;
    use crate::payload::TensorLayout;

    /// Sends frames with this metadata, unchecked, and returns the reader's error for each of them, if any.
    fn said(gpu: &Gpu, is_static: bool, contents: Vec<Content>) -> Vec<Option<DeviceChannelError>> {
        let options = DeviceChannelOptions::new(1024).static_shape(is_static);
        let (mut writer, mut readers) = options.threads(gpu).unwrap();
        let stream = Stream::compute(gpu).unwrap();
        let say = |content| {
            let value = Vec::new();
            writer.control.try_send(DeviceFrame { content, value }).unwrap();
            readers[0].recv(&stream).err()
        };
        contents.into_iter().map(say).collect()
    }

    fn layout(len: usize) -> TensorLayout {
        TensorLayout::new(DType::U8, [len]).unwrap()
    }

    fn gpu() -> Option<Gpu> {
        match Gpu::open(0) {
            Ok(gpu) => Some(gpu),
            Err(error) => {
                let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
                assert!(!required, "REQUIRE_GPU=1, and {error}");
                None
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no driver")]
    fn acc_06_a_static_shape_is_in_the_first_message_alone() {
        let Some(gpu) = gpu() else { return };
        let options = DeviceChannelOptions::new(1024).static_shape(true);
        let (mut writer, mut readers) = options.threads(&gpu).unwrap();
        let stream = Stream::compute(&gpu).unwrap();
        for message in 0..3 {
            let loan = writer.reserve(&stream, &[layout(8)]).unwrap();
            loan.publish().unwrap();
            readers[0].control.message(None).unwrap();
            let content = &readers[0].control.content().unwrap().unwrap().content;
            let says_it = matches!(content, Content::Tensors(layouts) if *layouts == [layout(8)]);
            assert_eq!(says_it, message == 0, "{content:?}");
            assert_eq!(matches!(content, Content::AsFirst), message > 0, "{content:?}");
            readers[0].control.next();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no driver")]
    fn acc_20_metadata_of_a_stranger_is_not_believed_and_the_next_message_follows() {
        let Some(gpu) = gpu() else { return };
        let good = || Content::Tensors(vec![layout(8)]);
        let large = Content::Tensors(vec![layout(8), layout(1024)]);
        let uncountable = Content::Tensors(vec![layout(isize::MAX as usize); 3]);
        let said_of = said(&gpu, false, vec![large, uncountable, Content::AsFirst, good()]);
        for said in &said_of[..3] {
            let is_corrupt = matches!(
                said,
                Some(DeviceChannelError::Channel(ChannelError::Corrupt { .. }))
            );
            assert!(is_corrupt, "{said:?}");
        }
        assert!(said_of[3].is_none());
        let other = Content::Tensors(vec![layout(9)]);
        let said_of = said(&gpu, true, vec![good(), other, Content::AsFirst]);
        assert!(matches!(said_of[1], Some(DeviceChannelError::StaticShape { .. })));
        assert!(said_of[0].is_none() && said_of[2].is_none());
    }
}
