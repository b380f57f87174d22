//! Channels of tensors between processes.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::descriptor::DeviceDescriptor;
use super::error::DeviceChannelError;
use super::frame::DeviceFrame;
use super::handover::Offer;
use super::manifest::{Manifest, MemoryExport, SyncPoints};
use super::options::DeviceChannelOptions;
use super::owned::Owned;
use super::reader::DeviceReader;
use super::ring::{Ring, Signals};
use super::words::Words;
use super::writer::DeviceWriter;
use super::{handover, owned};
use crate::channel::SharedChannel;
use crate::device::error::DeviceError;
use crate::device::event::Event;
use crate::device::gpu::Gpu;
use crate::device::memory::DeviceMemory;
use crate::error::{ChannelError, End, SegmentError};
use crate::memory::segment::Segment;

/// A channel of tensors between processes. This process may take endpoints of it. The process that created it must keep
/// the channel or an endpoint of it until every other process has opened it. If that process dies while it holds an
/// endpoint, the channel ends, as with every endpoint.
///
/// A creator without an endpoint is not watched. With [`Signals::Values`], and memory that is exported as a descriptor
/// ([`Gpu::exports_descriptors`]), the channel needs it no longer than until it is open everywhere: the endpoints go on
/// after its death. Events and legacy memory end with their creator, which must live as long as the channel is used:
/// after its death the driver reports errors, or streams do not continue, and waits for them end with their time limit.
pub struct SharedDeviceChannel {
    control: SharedChannel<DeviceFrame>,
    owned: Arc<Owned>,
    descriptor: DeviceDescriptor,
    is_static: bool,
    /// The segment of the manifest, which the creator keeps so that other processes can open it.
    _manifest: Option<Segment>,
}

impl std::fmt::Debug for SharedDeviceChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedDeviceChannel({})", self.descriptor)
    }
}

/// Exports the memory to other processes, in the form that the system supports.
fn travels(memory: &DeviceMemory) -> Result<(MemoryExport, Option<Offer>), DeviceChannelError> {
    if !memory.is_mapped() {
        return Ok((MemoryExport::Handle(memory.export_plain()?), None));
    }
    let offer = handover::offer(memory.export_descriptor()?).map_err(|error| {
        let what = "offering its descriptor";
        let pid = std::process::id();
        DeviceChannelError::Handover { pid, what, error }
    })?;
    Ok((MemoryExport::Descriptor(offer.address().clone()), Some(offer)))
}

/// Imports the memory that another process offers.
fn fetched(gpu: &Gpu, manifest: &Manifest) -> Result<DeviceMemory, DeviceChannelError> {
    let bytes = manifest.spec()?.bytes()?;
    let memory = match &manifest.travels {
        MemoryExport::Descriptor(address) => {
            let fetched = handover::fetch(address);
            let descriptor = fetched.map_err(|(what, error)| {
                let pid = address.pid();
                DeviceChannelError::Handover { pid, what, error }
            })?;
            DeviceMemory::import_descriptor(gpu, descriptor.as_fd(), bytes, manifest.whole_bytes()?)?
        }
        MemoryExport::Handle(handle) => DeviceMemory::import_plain(gpu, *handle, bytes)?,
    };
    Ok(memory)
}

impl DeviceChannelOptions {
    /// Creates a channel between processes of this host and user. This process owns the device memory and the events,
    /// and must keep the channel, or an endpoint of it, as [`SharedDeviceChannel`] requires.
    ///
    /// # Errors
    /// The errors of [`threads`](Self::threads), and an error if the system does not let processes share device memory.
    pub fn shared(&self, gpu: &Gpu) -> Result<SharedDeviceChannel, DeviceChannelError> {
        SharedDeviceChannel::create(self, gpu)
    }
}

impl SharedDeviceChannel {
    fn create(options: &DeviceChannelOptions, gpu: &Gpu) -> Result<Self, DeviceChannelError> {
        owned::reclaim_kept();
        let (spec, points) = (options.spec, options.spec.points()?);
        let memory = DeviceMemory::new(gpu, spec.bytes()?)?;
        let ring = match options.signals {
            Signals::Events => Ring::with_events(spec, memory, (0..points).map(|_| Event::shared(gpu)))?,
            Signals::Values => {
                let words = Words::create(points)?;
                let words = Words::register(gpu, words, points)?;
                Ring::with_words(spec, memory, words)?
            }
        };
        let control = options.control().shared::<DeviceFrame>()?;
        let (travels, offer) = travels(&ring.memory)?;
        let manifest = Manifest::of(&ring, options.is_static, travels)?.publish()?;
        let descriptor = DeviceDescriptor {
            control: control.descriptor().clone(),
            manifest: manifest.id().ok_or(SegmentError::Private)?,
        };
        let owned = Owned::shared(ring, control.mapped()?, offer);
        Ok(SharedDeviceChannel {
            control,
            owned: Arc::new(owned),
            descriptor,
            is_static: options.is_static,
            _manifest: Some(manifest),
        })
    }

    /// Opens the channel of a descriptor on its device. `options` determine how its endpoints wait in this process.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`] if the channel is on another device, [`DeviceChannelError::OwnChannel`] if this
    /// process created it, [`DeviceChannelError::Handover`] and [`ChannelError::Segment`](crate::ChannelError::Segment)
    /// if its creator has ended or released it.
    pub fn open(
        gpu: &Gpu,
        descriptor: &DeviceDescriptor,
        options: &DeviceChannelOptions,
    ) -> Result<Self, DeviceChannelError> {
        if descriptor.manifest.pid == std::process::id() {
            return Err(DeviceChannelError::OwnChannel);
        }
        owned::reclaim_kept();
        let manifest = Manifest::read(&descriptor.manifest)?;
        if manifest.device != gpu.id() {
            let what = "the channel";
            let (expected, found) = (gpu.id(), manifest.device);
            return Err(DeviceError::WrongDevice {
                what,
                expected,
                found,
            }
            .into());
        }
        let control = SharedChannel::open(&descriptor.control, options.control())?;
        let spec = manifest.spec()?;
        if control.shape() != (spec.slots, spec.readers) {
            let what = "a manifest of a channel of another shape";
            return Err(ChannelError::Corrupt { what }.into());
        }
        let memory = fetched(gpu, &manifest)?;
        let ring = match &manifest.points {
            SyncPoints::Events(events) => {
                let imported = events.iter().map(|event| Event::import(gpu, *event));
                Ring::with_events(spec, memory, imported)?
            }
            SyncPoints::Words(id) => {
                let words = Segment::open(id)?;
                let words = Words::register(gpu, words, spec.points()?)?;
                Ring::with_words(spec, memory, words)?
            }
        };
        Ok(SharedDeviceChannel {
            control,
            owned: Arc::new(Owned::local(ring)),
            descriptor: descriptor.clone(),
            is_static: manifest.is_static,
            _manifest: None,
        })
    }

    /// The descriptor with which another process opens the channel.
    pub fn descriptor(&self) -> &DeviceDescriptor {
        &self.descriptor
    }

    /// Reserves an endpoint for the process `pid`, for example a child that has just been started; see
    /// [`SharedChannel::expect`](crate::SharedChannel::expect).
    ///
    /// # Errors
    /// [`ChannelError::Attached`](crate::ChannelError::Attached) if the endpoint is or was taken.
    pub fn expect(&self, end: End, pid: u32) -> Result<(), DeviceChannelError> {
        Ok(self.control.expect(end, pid)?)
    }

    /// Takes the writer endpoint.
    ///
    /// # Errors
    /// [`ChannelError::Attached`](crate::ChannelError::Attached) if the endpoint is or was taken.
    pub fn writer(&self) -> Result<DeviceWriter, DeviceChannelError> {
        let mut writer = self.control.writer()?;
        if let Some(releases) = self.owned.ring.releases() {
            writer.on_death(releases);
        }
        Ok(DeviceWriter::new(
            writer,
            Arc::clone(&self.owned),
            self.is_static,
            false,
        ))
    }

    /// Takes the reader endpoint with this index, counted from 0.
    ///
    /// # Errors
    /// [`ChannelError::Attached`](crate::ChannelError::Attached) if the endpoint is or was taken,
    /// [`ChannelError::Corrupt`](crate::ChannelError::Corrupt) if no reader has this index.
    pub fn reader(&self, index: u32) -> Result<DeviceReader, DeviceChannelError> {
        let mut reader = self.control.reader(index)?;
        if let Some(releases) = self.owned.ring.releases() {
            reader.on_death(releases);
        }
        let owned = Arc::clone(&self.owned);
        Ok(DeviceReader::new(reader, owned, index, self.is_static))
    }
}
