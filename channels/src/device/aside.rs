//! Tensors of a device in values that cross processes: the value goes through its shared channel, its tensors beside it through
//! a channel of tensors.
//!
//! The channel of tensors is made by the writer when it first has any, of as many slots and readers as the shared channel has,
//! and announced in the very message that needs it; tensors that do not fit make another, twice as large at least. A message's
//! tensors are sent before the message is, and are received when it is, by copies on the device that nobody waits for. So
//! whoever has the message finds them, and whoever may write the next message finds a slot for its tensors: readers give the
//! slot of the tensors back first. A reader that could not open the channel of tensors gives none back: when its slots are
//! used up, another channel follows, which that reader opens in the place of this one.

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

/// Room for a tensor beyond its bytes: each begins at a boundary.
const ALIGN_BYTES: usize = 256;

/// Whether values of a type are, or are lists of, tensors on a device.
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

/// Why a value of any other type could not be sent, where that is a tensor in it.
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

/// What the shared channel carries of a value.
#[derive(Clone, Serialize, Deserialize)]
struct Envelope {
    /// The channel of its tensors and of those to come, where it is a new one.
    opens: Option<DeviceDescriptor>,
    /// Number of the message there that has its tensors, if it has any.
    tensors: Option<u64>,
    /// The value, numbers in place of its tensors.
    value: Vec<u8>,
}

/// The writer's side.
#[derive(Default)]
pub(crate) struct WritesAside {
    end: Option<WritingEnd>,
    /// Outgrown ends, with the number of the first message that does not need them: readers may have to open them still.
    outgrown: Vec<(WritingEnd, u64)>,
}

struct WritingEnd {
    writer: DeviceWriter,
    stream: Stream,
    slot_bytes: usize,
    /// Kept, so that others can open it; and whether they have been told.
    channel: SharedDeviceChannel,
    told: bool,
}

impl WritesAside {
    /// Writes a value to `shared`, its tensors aside; `false` when every slot is taken.
    pub(crate) fn write<T: Wire>(
        &mut self,
        shared: &mut SharedWriter,
        value: &T,
    ) -> Result<bool, ChannelError> {
        if !shared.has_space()? {
            return Ok(false);
        }
        let (bytes, tensors) = take_apart(value, Of::One).map_err(DeviceChannelError::from)?;
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
                // A reader that could not open this channel gives none of its slots back: it is told of another one.
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
            // Its tensors are on their way and belong to nothing: the next ones have a channel of their own.
            (Err(_), _) => self.outgrow(shared),
        }
        written
    }

    /// Keeps an end for those who may have to open it still, and no longer.
    fn outgrow(&mut self, shared: &SharedWriter) {
        if let Some(end) = self.end.take() {
            self.outgrown.push((end, shared.position()));
        }
    }

    /// An end for tensors of these layouts.
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

    /// Sends tensors; the number of their message.
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

/// A reader's side.
pub(crate) struct ReadsAside {
    /// Number of the reading end, among those of the shared channel.
    index: u32,
    /// The channel of its tensors that was announced last, until it is opened.
    announced: Option<DeviceDescriptor>,
    end: Option<(DeviceReader, Stream)>,
    /// To the device that its tensors are wanted on; where there is none, they stay where they are.
    crossing: Option<Crossing>,
}

impl ReadsAside {
    pub(crate) fn new(index: u32) -> Self {
        ReadsAside {
            index,
            announced: None,
            end: None,
            crossing: None,
        }
    }

    /// Brings its tensors to this device, from whichever they are on.
    pub(crate) fn bring_to(&mut self, gpu: &Gpu) -> Result<(), ChannelError> {
        self.crossing = Some(Crossing::to(gpu).map_err(DeviceChannelError::from)?);
        Ok(())
    }

    /// The value that a message of the shared channel is, with the tensors that belong to it. A message can be read once.
    pub(crate) fn read<T: Wire>(&mut self, bytes: &[u8]) -> Result<Beside<T>, ChannelError> {
        let envelope: Envelope = decode(bytes)?;
        if envelope.opens.is_some() {
            self.end = None;
            self.announced = envelope.opens;
        }
        if let Some(descriptor) = &self.announced {
            // What fails is tried again with the next message.
            self.end = Some(open(descriptor, self.index)?);
            self.announced = None;
        }
        let tensors = match envelope.tensors {
            Some(number) => self.receive(number)?,
            None => Vec::new(),
        };
        Ok(Beside {
            value: OnceCell::new(),
            pieces: RefCell::new(Some((envelope.value, tensors))),
        })
    }

    /// The tensors of message `number`. Messages before it belong to values that could not be sent.
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

/// A value and its tensors, received and not put together: that is the user's code, which runs where the value is read.
pub(crate) struct Beside<T> {
    value: OnceCell<T>,
    /// Its bytes and tensors, as long as the value has not been put together.
    pieces: RefCell<Option<(Vec<u8>, Vec<DeviceTensor>)>>,
}

impl<T: Wire> Beside<T> {
    /// The value, put together where that has not been done.
    pub(crate) fn get(&self) -> Result<&T, ChannelError> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = match &*self.pieces.borrow() {
            // Others may read it as well, and are to hear the same.
            Some((bytes, tensors)) => put_together(bytes, tensors.clone())?,
            None => return Err(ChannelError::NoValue),
        };
        self.pieces.replace(None);
        Ok(self.value.get_or_init(|| value))
    }

    /// The value, which nobody is to read afterwards.
    pub(crate) fn take(&mut self) -> Result<T, ChannelError> {
        self.get()?;
        self.value.take().ok_or(ChannelError::NoValue)
    }
}

/// Opens a channel of tensors, on whichever of this process's devices it is.
fn open(descriptor: &DeviceDescriptor, index: u32) -> Result<(DeviceReader, Stream), DeviceChannelError> {
    let gpu = Gpu::with_id(descriptor.device()?)?;
    let channel = SharedDeviceChannel::open(&gpu, descriptor, &DeviceChannelOptions::new(0))?;
    Ok((channel.reader(index)?, Stream::communication(&gpu)?))
}
