//! A common interface of all channels, so that one suite tests them.
#![allow(dead_code, unsafe_code)] // each test binary uses only a part; segments are handed out

use selvedge_channels::{
    ChannelError, Doorbell, Fault, Message, Provider, Region, RingReader, RingWriter, SEGMENT_HEADER_BYTES,
    Segment, SharedReader, SharedSpec, SharedWriter, decode, format, ring,
};

/// A payload that differs from every other message's, with a chosen size.
pub(crate) fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len.max(8), number as u8);
    bytes
}

pub(crate) trait Writing {
    fn space(&mut self) -> Result<bool, ChannelError>;
    /// Writes a message. Returns false if the channel is full.
    fn write(&mut self, message: Message<Vec<u8>>) -> Result<bool, ChannelError>;
    fn close(&mut self);
}

pub(crate) trait Reading {
    fn position(&self) -> u64;
    fn ready(&mut self) -> Result<bool, ChannelError>;
    /// The next message, which stays in its slot.
    fn look(&mut self) -> Result<Option<Message<Vec<u8>>>, ChannelError>;
    fn release(&mut self) -> Result<(), ChannelError>;
    /// The next message, removed from its slot.
    fn take(&mut self) -> Result<Option<Message<Vec<u8>>>, ChannelError> {
        let message = self.look()?;
        self.release()?;
        Ok(message)
    }
}

pub(crate) trait Make {
    type Writer: Writing + Send + 'static;
    type Reader: Reading + Send + 'static;
    fn make(slots: usize, bells: &Bells) -> (Self::Writer, Vec<Self::Reader>);
}

/// The doorbells of a writer and its readers.
pub(crate) struct Bells {
    pub(crate) writer: Doorbell,
    pub(crate) readers: Vec<Doorbell>,
}

impl Bells {
    pub(crate) fn new(readers: usize) -> Self {
        Bells {
            writer: Doorbell::heap(),
            readers: (0..readers).map(|_| Doorbell::heap()).collect(),
        }
    }
}

pub(crate) struct Ring;

impl Make for Ring {
    type Writer = RingWriter<Vec<u8>>;
    type Reader = RingReader<Vec<u8>>;
    fn make(slots: usize, bells: &Bells) -> (Self::Writer, Vec<Self::Reader>) {
        ring(slots, bells.writer.clone(), bells.readers.clone()).unwrap()
    }
}

impl Writing for RingWriter<Vec<u8>> {
    fn space(&mut self) -> Result<bool, ChannelError> {
        Ok(self.has_space())
    }
    fn write(&mut self, message: Message<Vec<u8>>) -> Result<bool, ChannelError> {
        Ok(self.try_write(message).is_ok())
    }
    fn close(&mut self) {
        RingWriter::close(self);
    }
}

impl Reading for RingReader<Vec<u8>> {
    fn position(&self) -> u64 {
        RingReader::position(self)
    }
    fn ready(&mut self) -> Result<bool, ChannelError> {
        match RingReader::ready(self) {
            false if self.is_closed() => Err(ChannelError::Closed),
            ready => Ok(ready),
        }
    }
    fn look(&mut self) -> Result<Option<Message<Vec<u8>>>, ChannelError> {
        Reading::ready(self)?;
        Ok(self.current().cloned())
    }
    fn release(&mut self) -> Result<(), ChannelError> {
        RingReader::release(self);
        Ok(())
    }
    fn take(&mut self) -> Result<Option<Message<Vec<u8>>>, ChannelError> {
        Reading::ready(self)?;
        Ok(RingReader::take(self))
    }
}

pub(crate) fn spec(slots: usize, readers: usize) -> SharedSpec {
    SharedSpec {
        slots: slots as u32,
        slot_bytes: 1000,
        readers: readers as u32,
        max_bytes: 1 << 30,
    }
}

/// Formats a region in a segment of its own.
pub(crate) fn region(provider: Provider, spec: &SharedSpec) -> (Segment, Region) {
    let size = spec.size_bytes().unwrap();
    let segment = Segment::create(provider, SEGMENT_HEADER_BYTES + size).unwrap();
    // SAFETY: the segment is new, and nothing else uses it.
    let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, size) }.unwrap();
    format(&region, spec).unwrap();
    (segment, region)
}

fn attach(
    spec: &SharedSpec,
    bells: &Bells,
    region: impl Fn() -> Region,
) -> (SharedWriter, Vec<SharedReader>) {
    let writer = SharedWriter::attach(region(), spec, bells.readers.clone()).unwrap();
    let reader = |index| SharedReader::attach(region(), spec, index, bells.writer.clone()).unwrap();
    (writer, (0..spec.readers).map(reader).collect())
}

/// A shared ring on the heap: the code of the shared ring, in memory that Miri can follow.
pub(crate) struct SharedHeap;

impl Make for SharedHeap {
    type Writer = SharedWriter;
    type Reader = SharedReader;
    fn make(slots: usize, bells: &Bells) -> (SharedWriter, Vec<SharedReader>) {
        let spec = spec(slots, bells.readers.len());
        let (_, region) = region(Provider::Heap, &spec);
        attach(&spec, bells, || region.clone())
    }
}

/// A shared ring with a mapping of its own for every end, as between processes.
pub(crate) struct SharedMemfd;

impl Make for SharedMemfd {
    type Writer = SharedWriter;
    type Reader = SharedReader;
    fn make(slots: usize, bells: &Bells) -> (SharedWriter, Vec<SharedReader>) {
        let spec = spec(slots, bells.readers.len());
        let (segment, _) = region(Provider::Memfd, &spec);
        let id = segment.id().unwrap();
        attach(&spec, bells, || {
            let size = spec.size_bytes().unwrap();
            let segment = Segment::open(&id).unwrap();
            // SAFETY: the region is a channel of shape `spec`, whose ends keep to that shape.
            unsafe { segment.region(SEGMENT_HEADER_BYTES, size) }.unwrap()
        })
    }
}

impl Writing for SharedWriter {
    fn space(&mut self) -> Result<bool, ChannelError> {
        self.has_space()
    }
    fn write(&mut self, message: Message<Vec<u8>>) -> Result<bool, ChannelError> {
        match message {
            Ok(value) => self.try_write(&value),
            Err(fault) => self.try_write_fault(&fault),
        }
    }
    fn close(&mut self) {
        SharedWriter::close(self);
    }
}

impl Reading for SharedReader {
    fn position(&self) -> u64 {
        SharedReader::position(self)
    }
    fn ready(&mut self) -> Result<bool, ChannelError> {
        SharedReader::ready(self)
    }
    fn look(&mut self) -> Result<Option<Message<Vec<u8>>>, ChannelError> {
        let message = self.current()?;
        Ok(message.map(|message| message.map(|bytes| decode(bytes).unwrap())))
    }
    fn release(&mut self) -> Result<(), ChannelError> {
        SharedReader::release(self)
    }
}

/// A message as plain data, for comparisons.
pub(crate) fn plain(message: &Message<Vec<u8>>) -> Result<Vec<u8>, (String, Vec<u8>)> {
    message
        .clone()
        .map_err(|fault: Fault| (fault.to_string(), fault.report().to_vec()))
}

/// Runs every test of `contract.rs` for each kind of channel.
#[macro_export]
macro_rules! for_every_channel {
    ($($test:ident),+ $(,)?) => {
        mod ring { $(#[test] fn $test() { super::$test::<super::support::Ring>(); })+ }
        mod shared_heap { $(#[test] fn $test() { super::$test::<super::support::SharedHeap>(); })+ }
        mod shared_memfd {
            $(#[test]
            #[cfg_attr(miri, ignore = "Miri has no memfd")]
            fn $test() { super::$test::<super::support::SharedMemfd>(); })+
        }
    };
}
