//! Channels between processes.

use std::any::type_name;
use std::marker::PhantomData;

use super::descriptor::Descriptor;
use super::options::ChannelOptions;
use super::peers::Peers;
use super::reader::Reader;
use super::writer::Writer;
use crate::error::{ChannelError, End, SegmentError};
use crate::kind::traits::Traits;
use crate::kind::{AnySink, AnySource, Inlet, Route, Sink, Source};
use crate::memory::process::Process;
use crate::memory::region::Region;
use crate::memory::segment::{SEGMENT_HEADER_BYTES, Segment};
use crate::payload::Wire;
use crate::platform::names::{self, Published};
use crate::shared::{MappedChannel, SharedReader, SharedSpec, SharedWriter, format};
use crate::wait::doorbell::Doorbell;

/// A channel between processes, from which this process can take endpoints. The process that made the channel keeps it,
/// or an endpoint of it, until the other processes have opened theirs. An endpoint that was taken does not depend on
/// other owners of the channel.
#[derive(Debug)]
pub struct SharedChannel<T> {
    options: ChannelOptions,
    descriptor: Descriptor,
    segment: Segment,
    payload: PhantomData<fn() -> T>,
}

/// The offset of the ring in the segment: after the header, one bell for the writer and one bell for each reader.
fn ring_offset(spec: &SharedSpec) -> Option<usize> {
    let bells = (spec.readers as usize).checked_add(1)?;
    bells
        .checked_mul(Doorbell::BYTES)?
        .checked_add(SEGMENT_HEADER_BYTES)
}

/// The size of the channel's segment in bytes: header, bells and ring.
pub(super) fn whole_bytes(spec: &SharedSpec) -> Result<usize, ChannelError> {
    let size = spec.size_bytes()?;
    let len = ring_offset(spec).and_then(|offset| offset.checked_add(size));
    Ok(len.ok_or_else(SegmentError::unaddressable)?)
}

/// The tag of a type in shared memory: FNV-1a of the type's name.
fn tag_of<T>() -> u64 {
    type_name::<T>()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

impl<T: Wire> SharedChannel<T> {
    pub(super) fn create(options: ChannelOptions) -> Result<Self, ChannelError> {
        let spec = options.spec();
        let segment = Segment::create(options.provider, whole_bytes(&spec)?)?;
        let id = segment.id().ok_or(SegmentError::Private)?;
        let channel = SharedChannel {
            options,
            descriptor: Descriptor { spec, segment: id },
            segment,
            payload: PhantomData,
        };
        format(&channel.region()?, &channel.descriptor.spec)?;
        channel.mapped()?.set_tag(tag_of::<T>())?;
        Ok(channel)
    }

    /// Opens the channel that `descriptor` names. `options` sets the way in which its endpoints in this process wait.
    ///
    /// # Errors
    /// [`ChannelError::Segment`] if the process that made the channel is gone or has released it,
    /// [`ChannelError::WrongType`] if the channel carries another type, compared by Rust's name of the type.
    pub fn open(descriptor: &Descriptor, options: ChannelOptions) -> Result<Self, ChannelError> {
        let spec = &descriptor.spec;
        let options = options.slots(spec.slots as usize).readers(spec.readers as usize);
        let channel = SharedChannel {
            options,
            segment: Segment::open(&descriptor.segment)?,
            descriptor: descriptor.clone(),
            payload: PhantomData,
        };
        if channel.mapped()?.tag()? != tag_of::<T>() {
            return Err(ChannelError::WrongType {
                expected: type_name::<T>(),
                found: "channel of another type",
            });
        }
        Ok(channel)
    }

    /// Publishes the channel under a name, by which every process of this user can [`find`](Self::find) it. The name is
    /// removed when the returned [`Published`] is dropped or this process ends. Keep the channel, or an endpoint of it,
    /// until then.
    ///
    /// # Errors
    /// [`ChannelError::Name`] if the name is invalid, or a live process has published it.
    pub fn publish(&self, name: &str) -> Result<Published, ChannelError> {
        names::publish(name, &self.descriptor)
    }

    /// Opens the channel that a process of this user publishes under a name.
    ///
    /// # Errors
    /// [`ChannelError::Name`] if no process publishes the name (the call does not wait for one), and the errors of
    /// [`open`](Self::open).
    pub fn find(name: &str, options: ChannelOptions) -> Result<Self, ChannelError> {
        Self::open(&names::find(name)?, options)
    }

    /// The descriptor by which another process can open the channel.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn region(&self) -> Result<Region, ChannelError> {
        let spec = &self.descriptor.spec;
        let offset = ring_offset(spec).unwrap_or(usize::MAX);
        Ok(self.segment.part(offset, spec.size_bytes()?)?)
    }

    /// The bells of all endpoints, the writer's first.
    fn bells(&self) -> Result<Vec<Doorbell>, ChannelError> {
        let bell = |index: usize| -> Result<Doorbell, ChannelError> {
            let offset = SEGMENT_HEADER_BYTES + index * Doorbell::BYTES;
            Ok(Doorbell::at(self.segment.part(offset, Doorbell::BYTES)?)?)
        };
        (0..=self.descriptor.spec.readers as usize).map(bell).collect()
    }

    /// The number of slots and the number of readers.
    #[cfg(feature = "cuda")]
    pub(crate) fn shape(&self) -> (usize, usize) {
        let spec = &self.descriptor.spec;
        (spec.slots as usize, spec.readers as usize)
    }

    /// The channel's memory, with the claims of its endpoints.
    pub(crate) fn mapped(&self) -> Result<MappedChannel, ChannelError> {
        MappedChannel::attach(self.region()?, &self.descriptor.spec)
    }

    /// Reserves an endpoint for the process `pid`, for example a child that was just started. No other process can take
    /// the endpoint then, and the death of the process is noticed from now on, even before the process has taken the
    /// endpoint.
    ///
    /// # Errors
    /// [`ChannelError::Attached`] if another process has the endpoint or it is reserved for one.
    pub fn expect(&self, end: End, pid: u32) -> Result<(), ChannelError> {
        self.mapped()?.expect(end, Process::numbered(pid))?;
        self.bells()?.iter().for_each(Doorbell::ring);
        Ok(())
    }

    /// Takes the writing endpoint.
    ///
    /// # Errors
    /// [`ChannelError::Attached`] if the endpoint is taken, was taken before, or is reserved for another process.
    pub fn writer(&self) -> Result<Writer<T>, ChannelError> {
        let (region, spec, bells) = (self.region()?, &self.descriptor.spec, self.bells()?);
        let no_bell = ChannelError::Corrupt { what: "no bells" };
        let (bell, readers) = bells.split_first().ok_or(no_bell)?;
        let writer = SharedWriter::attach(region.clone(), spec, readers.to_vec())?;
        let line = self.options.line(bell.clone());
        let peers = Peers::of(End::Writer, region, spec, bells)?;
        Ok(Writer::new(
            AnySink::typed(Route::Shared(writer), &Traits::WIRE)?,
            line.with_peers(peers),
        ))
    }

    /// Takes reading endpoint number `index`, counted from 0.
    ///
    /// # Errors
    /// [`ChannelError::Attached`] if the endpoint is taken, was taken before, or is reserved for another process;
    /// [`ChannelError::NoReader`] if there is no reader of that number.
    pub fn reader(&self, index: u32) -> Result<Reader<T>, ChannelError> {
        let (region, spec, bells) = (self.region()?, &self.descriptor.spec, self.bells()?);
        let readers = spec.readers;
        let no_bell = || ChannelError::NoReader { index, readers };
        let writer_bell = bells.first().cloned().ok_or_else(no_bell)?;
        let bell = bells.get(index as usize + 1).cloned().ok_or_else(no_bell)?;
        let reader = SharedReader::attach(region.clone(), spec, index, writer_bell)?;
        let peers = Peers::of(End::Reader(index), region, spec, bells)?;
        let source = AnySource::typed(Inlet::Shared(reader), &Traits::WIRE)?;
        Ok(Reader::new(source, self.options.line(bell).with_peers(peers)))
    }
}
