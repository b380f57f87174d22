//! The manifest: a description of a channel's device side for other processes. It is written once into a segment of its
//! own, before any other process has the descriptor. The reading process does not trust it.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::error::DeviceChannelError;
use super::handover::Address;
use super::ring::{Ring, RingSpec};
use crate::device::error::DeviceId;
use crate::device::event::Event;
use crate::device::handles::IpcHandle;
use crate::error::{ChannelError, DecodeError, EncodeError, SegmentError};
use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment, SegmentId};
use crate::payload::SerdeError;

/// The name of the manifest in errors.
const MANIFEST: &str = "manifest of a channel of tensors";

/// The version of the format, stored first. Every change of the format increases it.
const VERSION: u32 = 1;

/// The maximum size of an accepted manifest: enough for thousands of slots and readers.
const BYTES_MAX: u64 = 1 << 26;

/// The form in which the memory is exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MemoryExport {
    /// A descriptor, which the creator sends over a socket.
    Descriptor(Address),
    /// A legacy handle of the driver.
    Handle(IpcHandle),
}

/// The means by which an endpoint tells another that its stream is done with a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SyncPoints {
    /// Events of the creator, in the order of [`RingSpec::points`].
    Events(Vec<IpcHandle>),
    /// Numbers in a segment.
    Words(SegmentId),
}

/// The contents of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    pub(super) device: DeviceId,
    slots: u64,
    readers: u64,
    slot_bytes: u64,
    /// The allocated size of the memory in bytes.
    whole_bytes: u64,
    pub(super) is_static: bool,
    pub(super) travels: MemoryExport,
    pub(super) points: SyncPoints,
}

fn corrupt(what: &'static str) -> DeviceChannelError {
    ChannelError::Corrupt { what }.into()
}

impl Manifest {
    /// Describes a ring whose memory is exported as `travels`.
    pub(super) fn of(
        ring: &Ring,
        is_static: bool,
        travels: MemoryExport,
    ) -> Result<Self, DeviceChannelError> {
        let points = match ring.words() {
            None => {
                let exported: Result<_, _> = ring.events().map(Event::export).collect();
                SyncPoints::Events(exported?)
            }
            Some(words) => {
                let id = words.segment().and_then(Segment::id);
                SyncPoints::Words(id.ok_or(SegmentError::Private)?)
            }
        };
        Ok(Manifest {
            version: VERSION,
            device: ring.memory.gpu().id(),
            slots: ring.spec.slots as u64,
            readers: ring.spec.readers as u64,
            slot_bytes: ring.spec.slot_bytes as u64,
            whole_bytes: ring.memory.whole_bytes() as u64,
            is_static,
            travels,
            points,
        })
    }

    /// Writes the manifest into a new segment.
    pub(super) fn publish(&self) -> Result<Segment, DeviceChannelError> {
        let bytes = postcard::to_allocvec(self).map_err(|error| {
            ChannelError::Encode(EncodeError::Serialize {
                type_name: MANIFEST,
                error: SerdeError::said(error),
            })
        })?;
        let len = bytes.len().next_multiple_of(8) + 8;
        let segment = Segment::create(Provider::Memfd, SEGMENT_HEADER_BYTES + len)?;
        let region = segment.part(SEGMENT_HEADER_BYTES, len)?;
        // Relaxed, also below: a reader gets the segment's id from this process later, and maps the segment after that.
        region.atomic_u64(0)?.store(bytes.len() as u64, Ordering::Relaxed);
        for (at, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            // Relaxed: see above.
            region
                .atomic_u64(8 + 8 * at)?
                .store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        Ok(segment)
    }

    /// Reads the manifest of another process. Each word is read once, so later writes of that process change nothing.
    pub(super) fn read(id: &SegmentId) -> Result<Self, DeviceChannelError> {
        let segment = Segment::open(id)?;
        let len = segment.len_bytes().saturating_sub(SEGMENT_HEADER_BYTES);
        let region = segment.part(SEGMENT_HEADER_BYTES, len)?;
        // Relaxed: the segment was written before its id was known to this process.
        let said = region.atomic_u64(0)?.load(Ordering::Relaxed);
        if said > BYTES_MAX || said > (len as u64).saturating_sub(8) {
            return Err(corrupt("a manifest longer than its segment"));
        }
        let mut bytes = Vec::with_capacity(said as usize + 8);
        while (bytes.len() as u64) < said {
            // Relaxed: see above.
            let word = region.atomic_u64(8 + bytes.len())?.load(Ordering::Relaxed);
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        let manifest: Manifest = postcard::from_bytes(&bytes).map_err(|error| {
            ChannelError::Decode(DecodeError::Deserialize {
                type_name: MANIFEST,
                error: SerdeError::said(error),
            })
        })?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks that the numbers of the manifest fit together.
    fn check(&self) -> Result<(), DeviceChannelError> {
        if self.version != VERSION {
            return Err(corrupt("a manifest of another version"));
        }
        let spec = self.spec()?;
        let points = spec.points()?;
        if let SyncPoints::Events(events) = &self.points
            && events.len() != points
        {
            return Err(corrupt(
                "a manifest with another number of events than its slots and readers need",
            ));
        }
        if self.whole_bytes()? < spec.bytes()? {
            return Err(corrupt("a manifest whose memory is shorter than its slots"));
        }
        Ok(())
    }

    pub(super) fn spec(&self) -> Result<RingSpec, DeviceChannelError> {
        let number = |number: u64| usize::try_from(number).map_err(|_| SegmentError::unaddressable());
        Ok(RingSpec {
            slots: number(self.slots)?,
            readers: number(self.readers)?,
            slot_bytes: number(self.slot_bytes)?,
        })
    }

    pub(super) fn whole_bytes(&self) -> Result<usize, DeviceChannelError> {
        Ok(usize::try_from(self.whole_bytes).map_err(|_| SegmentError::unaddressable())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let event = IpcHandle::from([7; 64]);
        Manifest {
            version: VERSION,
            device: DeviceId([1; 16]),
            slots: 2,
            readers: 1,
            slot_bytes: 1000,
            whole_bytes: 2 << 20,
            is_static: false,
            travels: MemoryExport::Handle(IpcHandle::from([9; 64])),
            points: SyncPoints::Events(vec![event; 4]),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn chan_24_a_card_is_read_by_who_has_its_id() {
        let manifest = manifest();
        let segment = manifest.publish().unwrap();
        assert_eq!(Manifest::read(&segment.id().unwrap()).unwrap(), manifest);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn a_card_whose_numbers_do_not_belong_together_is_refused() {
        let wrong: [fn(&mut Manifest); 6] = [
            |manifest| manifest.version = 2,
            |manifest| manifest.slots = 3,
            |manifest| manifest.readers = u64::MAX,
            |manifest| manifest.slot_bytes = u64::MAX,
            |manifest| manifest.whole_bytes = 1024,
            |manifest| manifest.points = SyncPoints::Events(Vec::new()),
        ];
        for change in wrong {
            let mut manifest = manifest();
            change(&mut manifest);
            let segment = manifest.publish().unwrap();
            let refused = Manifest::read(&segment.id().unwrap()).unwrap_err();
            assert!(matches!(refused, DeviceChannelError::Channel(_)), "{refused}");
        }
        let other = Segment::create(Provider::Memfd, SEGMENT_HEADER_BYTES + 64).unwrap();
        let words = other.part(SEGMENT_HEADER_BYTES, 64).unwrap();
        words.atomic_u64(0).unwrap().store(57, Ordering::Relaxed);
        assert!(Manifest::read(&other.id().unwrap()).is_err(), "too long");
    }
}
