//! Device tensors in values that are sent between processes. The value goes through its shared channel, and its tensors
//! go out of band through a channel of tensors.
//!
//! The writer creates the channel of tensors when the first value with tensors is sent. It has as many slots and
//! readers as the shared channel, and the message that needs it announces it. If tensors do not fit its slots, the
//! writer creates another channel with slots that are at least twice as large. Tensors of another device also get a new
//! channel.
//!
//! The tensors of a message are sent before the message, and are received together with it, by copies on the device for
//! which no host thread waits. Therefore a reader that has a message finds its tensors. A writer that may write the
//! next message finds a slot for its tensors, since readers release the slot of the tensors first. A reader that could
//! not open the channel of tensors releases no slots. When all its slots are in use, the writer announces another
//! channel, which the reader opens instead.

use std::any::TypeId;
use std::cell::{OnceCell, RefCell};

use serde::{Deserialize, Serialize};

use super::channel::{
    DeviceChannelError, DeviceChannelOptions, DeviceDescriptor, DeviceReader, DeviceWriter,
    SharedDeviceChannel,
};
use super::crossing::Crossing;
use super::extraction::{Of, put_together, take_apart, was_stowed};
use super::gpu::Gpu;
use super::stream::Stream;
use super::tensor::DeviceTensor;
use crate::error::ChannelError;
use crate::payload::TensorLayout;
use crate::payload::{Wire, decode};
use crate::shared::SharedWriter;

/// The alignment of a tensor in a slot, and so the room that it may need beyond its bytes.
const ALIGN_BYTES: usize = 256;

/// Whether `T` is one of the types known to carry device tensors: a tensor, a list, an option or a pair of them.
pub(crate) fn is_of_tensors<T: 'static>() -> bool {
    let id = TypeId::of::<T>();
    [
        TypeId::of::<DeviceTensor>(),
        TypeId::of::<Vec<DeviceTensor>>(),
        TypeId::of::<Option<DeviceTensor>>(),
        TypeId::of::<(DeviceTensor, DeviceTensor)>(),
    ]
    .contains(&id)
}

/// Replaces an encoding error by an error that names the cause, if the cause is a device tensor inside a value whose
/// type is not known to carry any.
pub(crate) fn explained(error: ChannelError) -> ChannelError {
    match error {
        ChannelError::Encode(_) if was_stowed() => ChannelError::Device(
            "it is inside a value of a type that is not known to carry any: make it known with \
             `selvedge::carries_tensors!`"
                .to_owned(),
        ),
        error => error,
    }
}

/// The message of the shared channel for one value.
#[derive(Clone, Serialize, Deserialize)]
struct Envelope {
    /// The channel of tensors to open for this message and the next ones, if it is a new one.
    opens: Option<DeviceDescriptor>,
    /// The number of the message with the value's tensors in the channel of tensors, if the value has any.
    tensors: Option<u64>,
    /// The encoded value, with a number in place of each tensor.
    value: Vec<u8>,
}

/// The writer's part of the out-of-band transfer.
#[derive(Default)]
pub(crate) struct OutOfBandWriter {
    end: Option<WritingEnd>,
    /// Replaced endpoints, each with the number of the first message that does not need it. Readers may still have to
    /// open their channels.
    outgrown: Vec<(WritingEnd, u64)>,
}

struct WritingEnd {
    writer: DeviceWriter,
    stream: Stream,
    slot_bytes: usize,
    /// The channel, kept so that readers can open it. `told` is set once it has been announced.
    channel: SharedDeviceChannel,
    told: bool,
}

impl OutOfBandWriter {
    /// Writes a value to `shared` and its tensors out of band. Returns `false` if no slot is free.
    pub(crate) fn write<T: Wire>(
        &mut self,
        shared: &mut SharedWriter,
        value: &T,
    ) -> Result<bool, ChannelError> {
        if !shared.has_space()? {
            return Ok(false);
        }
        let (bytes, tensors) = take_apart(value, Of::One)?;
        let mut envelope = Envelope {
            opens: None,
            tensors: None,
            value: bytes,
        };
        if let Some(first) = tensors.first() {
            let layouts: Vec<_> = tensors.iter().map(|tensor| tensor.layout().clone()).collect();
            let mut end = self.end(first.gpu(), &layouts, shared)?;
            let mut sent = end.send(&tensors, &layouts);
            if matches!(sent, Err(ChannelError::Full)) {
                // A reader that could not open this channel releases none of its slots, so it gets another one.
                self.outgrow(shared);
                end = self.end(first.gpu(), &layouts, shared)?;
                sent = end.send(&tensors, &layouts);
            }
            envelope.tensors = Some(sent?);
            envelope.opens = (!end.told).then(|| end.channel.descriptor().clone());
        }
        let written = shared.try_write(&envelope);
        match (&written, &mut self.end) {
            (Ok(true), Some(end)) => end.told |= envelope.opens.is_some(),
            (Ok(_), _) => {}
            // The tensors are sent but belong to no message. The next ones get a channel of their own.
            (Err(_), _) => self.outgrow(shared),
        }
        written
    }

    /// Replaces the current endpoint. The old one is kept as long as readers may still have to open its channel.
    fn outgrow(&mut self, shared: &SharedWriter) {
        if let Some(end) = self.end.take() {
            self.outgrown.push((end, shared.position()));
        }
    }

    /// Returns an endpoint with room for tensors of these layouts, and creates one if necessary.
    fn end(
        &mut self,
        gpu: &Gpu,
        layouts: &[TensorLayout],
        shared: &SharedWriter,
    ) -> Result<&mut WritingEnd, ChannelError> {
        let need = layouts.iter().try_fold(0usize, |sum, layout| {
            sum.checked_add(layout.len_bytes().checked_next_multiple_of(ALIGN_BYTES)?)
        });
        let need = need.and_then(usize::checked_next_power_of_two);
        let need = need.ok_or_else(|| ChannelError::Device("tensors too large to be counted".to_owned()))?;
        let fits = |end: &WritingEnd| end.slot_bytes >= need && end.stream.gpu().id() == gpu.id();
        let passed = shared.passed();
        self.outgrown.retain(|(_, number)| *number > passed);
        if !self.end.as_ref().is_some_and(fits) {
            self.outgrow(shared);
        }
        let end = match self.end.take() {
            Some(end) => end,
            None => WritingEnd::new(gpu, need, shared)?,
        };
        Ok(self.end.insert(end))
    }
}

impl WritingEnd {
    fn new(gpu: &Gpu, slot_bytes: usize, shared: &SharedWriter) -> Result<Self, ChannelError> {
        let options = DeviceChannelOptions::new(slot_bytes)
            .slots(shared.slots())
            .readers(shared.readers());
        let channel = options.shared(gpu)?;
        Ok(WritingEnd {
            writer: channel.writer()?,
            stream: Stream::communication(gpu).map_err(DeviceChannelError::from)?,
            slot_bytes,
            channel,
            told: false,
        })
    }

    /// Sends tensors, and returns the number of their message.
    fn send(&mut self, tensors: &[DeviceTensor], layouts: &[TensorLayout]) -> Result<u64, ChannelError> {
        let number = self.writer.position();
        let mut loan = self.writer.try_reserve(&self.stream, layouts)?;
        for (index, tensor) in tensors.iter().enumerate() {
            loan.copy(index, tensor)?;
        }
        loan.publish()?;
        Ok(number)
    }
}

/// A reader's part of the out-of-band transfer.
pub(crate) struct OutOfBandReader {
    /// The index of this reader in the shared channel.
    index: u32,
    /// The last announced channel of tensors, until it is opened.
    announced: Option<DeviceDescriptor>,
    end: Option<(DeviceReader, Stream)>,
    /// The copier to the device on which the reader needs its tensors. With `None` they stay on their device.
    crossing: Option<Crossing>,
}

impl OutOfBandReader {
    pub(crate) fn new(index: u32) -> Self {
        OutOfBandReader {
            index,
            announced: None,
            end: None,
            crossing: None,
        }
    }

    /// Sets the device to which received tensors are copied from any other device.
    pub(crate) fn bring_to(&mut self, gpu: &Gpu) -> Result<(), ChannelError> {
        self.crossing = Some(Crossing::to(gpu).map_err(DeviceChannelError::from)?);
        Ok(())
    }

    /// Reads the value of a message of the shared channel, together with its tensors. Each message can be read once.
    pub(crate) fn read<T: Wire>(&mut self, bytes: &[u8]) -> Result<OutOfBandValue<T>, ChannelError> {
        let envelope: Envelope = decode(bytes)?;
        if envelope.opens.is_some() {
            self.end = None;
            self.announced = envelope.opens;
        }
        if let Some(descriptor) = &self.announced {
            // If this fails, the next message tries again.
            self.end = Some(open(descriptor, self.index)?);
            self.announced = None;
        }
        let tensors = match envelope.tensors {
            Some(number) => self.receive(number)?,
            None => Vec::new(),
        };
        Ok(OutOfBandValue {
            value: OnceCell::new(),
            pieces: RefCell::new(Some((envelope.value, tensors))),
        })
    }

    /// Receives the tensors of message `number`. Earlier messages belong to values that could not be sent, and are
    /// skipped.
    fn receive(&mut self, number: u64) -> Result<Vec<DeviceTensor>, ChannelError> {
        let missing = ChannelError::Corrupt {
            what: "a value came without its tensors",
        };
        let Some((reader, stream)) = &mut self.end else {
            return Err(missing);
        };
        loop {
            let found = reader.position();
            if found > number {
                return Err(missing);
            }
            let Some(Ok(view)) = reader.try_recv(stream)? else {
                return Err(missing);
            };
            if found == number {
                let keep = |index| match &self.crossing {
                    Some(crossing) => view.keep_across(crossing, index),
                    None => view.keep(index),
                };
                let kept: Result<_, _> = (0..view.len()).map(keep).collect();
                return Ok(kept?);
            }
        }
    }
}

/// A received value and its tensors, not yet put together: that runs user code, so it happens where the value is read.
pub(crate) struct OutOfBandValue<T> {
    value: OnceCell<T>,
    /// The bytes and tensors of the value, until they are put together.
    pieces: RefCell<Option<(Vec<u8>, Vec<DeviceTensor>)>>,
}

impl<T: Wire> OutOfBandValue<T> {
    /// Returns the value, and puts it together at the first call.
    pub(crate) fn get(&self) -> Result<&T, ChannelError> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = match &*self.pieces.borrow() {
            // Clones: other readers of this value may try as well, and must get the same result.
            Some((bytes, tensors)) => put_together(bytes, tensors.clone())?,
            None => return Err(ChannelError::NoValue),
        };
        self.pieces.replace(None);
        Ok(self.value.get_or_init(|| value))
    }

    /// Takes the value out. Later reads find none.
    pub(crate) fn take(&mut self) -> Result<T, ChannelError> {
        self.get()?;
        self.value.take().ok_or(ChannelError::NoValue)
    }
}

/// Opens a channel of tensors, on the device of this process that it names.
fn open(descriptor: &DeviceDescriptor, index: u32) -> Result<(DeviceReader, Stream), DeviceChannelError> {
    let gpu = Gpu::with_id(descriptor.device()?)?;
    let channel = SharedDeviceChannel::open(&gpu, descriptor, &DeviceChannelOptions::new(0))?;
    Ok((channel.reader(index)?, Stream::communication(&gpu)?))
}
