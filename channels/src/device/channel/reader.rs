//! A reading end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::DeviceChannelError;
use super::frame::{Content, Frame, Places};
use super::owned::Owned;
use super::ring::Ring;
use super::view::{DeviceView, Held, Listed};
use crate::channel::Reader;
use crate::device::stream::{ASKED_EVERY, Stream};
use crate::error::{ChannelError, End};
use crate::fault::Message;
use crate::fault_point;
use crate::payload::Wire;

/// A reading end of a channel of tensors. It sees every message, in order. Dropping it lets go of them all.
///
/// It waits on the host for messages only, never for the device. A process that reads lets its stream come to an end before it
/// does itself ([`Stream::wait`]), for the writer's stream waits for it.
pub struct DeviceReader {
    pub(super) control: Reader<Frame>,
    owned: Arc<Owned>,
    index: u32,
    is_static: bool,
    /// The first message's tensors, where all others are as that.
    first: Option<Arc<Listed>>,
}

impl fmt::Debug for DeviceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceReader").finish_non_exhaustive()
    }
}

impl DeviceReader {
    pub(super) fn new(control: Reader<Frame>, owned: Arc<Owned>, index: u32, is_static: bool) -> Self {
        DeviceReader {
            control,
            owned,
            index,
            is_static,
            first: None,
        }
    }

    /// Number of the next message, counted from 0.
    pub fn position(&self) -> u64 {
        self.control.position()
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.owned.ring
    }

    /// Waits for the next message as long as the channel's time-out allows, and orders `stream` behind it: what is enqueued
    /// there from now on may read its tensors. The device may still be writing them.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`](crate::device::DeviceError::WrongDevice) when the stream is on another device,
    /// [`ChannelError::Timeout`] (nothing has changed), [`ChannelError::Closed`] when the writer is done, after the messages
    /// that are there; [`ChannelError::Poisoned`] when a peer's process has died, at once.
    pub fn recv<'r>(&'r mut self, stream: &'r Stream) -> Result<Message<DeviceView<'r>>, DeviceChannelError> {
        let timeout = self.control.timeout();
        self.check_stream(stream)?;
        self.control.message(timeout)?;
        self.open(stream)
    }

    /// As [`recv`](Self::recv), waiting at most `timeout`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_timeout<'r>(
        &'r mut self,
        stream: &'r Stream,
        timeout: Duration,
    ) -> Result<Message<DeviceView<'r>>, DeviceChannelError> {
        self.check_stream(stream)?;
        self.control.message(Some(timeout))?;
        self.open(stream)
    }

    /// As [`recv`](Self::recv), if the next message is there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), without the time-out.
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

    /// Waits for the next value of [`DeviceWriter::send_value`](super::DeviceWriter::send_value) as [`recv`](Self::recv) does. Its
    /// tensors are those that were given, or copies on the device, enqueued on `stream`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`ChannelError::Decode`] when it is no `T`; the next message follows.
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

    /// The message that has come. One that makes no sense is passed: the next may.
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
            Held::Slot(_) => self.ring().after_writer(slot, stream),
            Held::Given(tensors) => tensors
                .iter()
                .try_for_each(|tensor| Ok(stream.order_after(tensor.ready())?)),
        };
        // What failed may be tried again: the message is still there.
        ordered?;
        fault_point::at("device reader: with a message in hand");
        Ok(Ok(DeviceView::new(self, stream, slot, held, value)))
    }

    /// What the message says is there, checked.
    fn hold(&mut self) -> Result<Message<(Held, Vec<u8>)>, DeviceChannelError> {
        let Frame { content, value } = match self.control.content()? {
            Ok(frame) => frame,
            Err(fault) => return Ok(Err(fault)),
        };
        let value = value.clone();
        let layouts = match content {
            Content::Given(tensors) => {
                let layouts: Vec<_> = tensors.iter().map(|tensor| tensor.layout().clone()).collect();
                let given = Held::Given(tensors.clone());
                // Those that follow in place are as this one.
                if self.is_static
                    && self.first.is_none()
                    && let Some(places) = Places::of(&layouts)
                {
                    self.first = Some(Arc::new(Listed { layouts, places }));
                }
                return Ok(Ok((given, value)));
            }
            Content::AsFirst => {
                let what = "a message that is as the first, which has not come";
                let first = self.first.clone().ok_or(ChannelError::Corrupt { what })?;
                return Ok(Ok((Held::Slot(first), value)));
            }
            Content::Tensors(layouts) => layouts.clone(),
        };
        // Our own writer refuses what is too large; this was written by a stranger.
        let max_bytes = self.ring().spec.slot_bytes;
        let places = Places::of(&layouts).filter(|places| places.bytes <= max_bytes);
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
        let listed = Arc::new(Listed { layouts, places });
        if self.is_static {
            self.first = Some(Arc::clone(&listed));
        }
        Ok(Ok((Held::Slot(listed), value)))
    }

    /// Gives a slot back: on the device when `stream` comes there, on the host now.
    pub(super) fn give_back(
        &mut self,
        stream: &Stream,
        slot: usize,
        held: &Held,
    ) -> Result<(), DeviceChannelError> {
        fault_point::at("device reader: before the record");
        if matches!(held, Held::Slot(_)) {
            // GPU-2: the record is there before the credit is.
            self.ring().record(End::Reader(self.index), slot, stream)?;
        }
        fault_point::at("device reader: after the record");
        self.control.next();
        Ok(())
    }

    /// Waits until `stream` has done all that was enqueued by now, or a peer has died.
    pub(super) fn wait(&mut self, stream: &Stream, timeout: Duration) -> Result<(), DeviceChannelError> {
        if !stream.is_done()? {
            let done = stream.ring_when_done(self.control.bell())?;
            let mut left = timeout;
            loop {
                let part = left.min(ASKED_EVERY);
                left -= part;
                // After an error of the device nobody rings.
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
        // A stream goes on when who it waits for has died, over what was never written (GPU-5).
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

    /// What a reader says of metadata that no writer of ours sends.
    fn said(gpu: &Gpu, is_static: bool, contents: Vec<Content>) -> Vec<Option<DeviceChannelError>> {
        let options = DeviceChannelOptions::new(1024).static_shape(is_static);
        let (mut writer, mut readers) = options.threads(gpu).unwrap();
        let stream = Stream::compute(gpu).unwrap();
        let say = |content| {
            let value = Vec::new();
            writer.control.try_send(Frame { content, value }).unwrap();
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
