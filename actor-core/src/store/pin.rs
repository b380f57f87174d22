//! An object that is read: a pin, and the bytes.
#![allow(unsafe_code)] // reads memory that other processes have filled

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use selvedge_channels::SegmentError;
use selvedge_channels::platform::extent_file::{ExtentFile, ExtentView};
use selvedge_cluster::peer::Peer;

use super::host_store::HostStore;
use super::mappings::Mappings;
use super::message::ObjectSpot;

/// The store that has granted it.
pub(super) enum PinFrom {
    /// The store of this process.
    Host(Arc<HostStore>),
    /// Another process of the host.
    Agent { agent: Peer, mappings: Arc<Mappings> },
}

/// The right of this process to read an object. It ends with the drop of this and of all bytes that were got by it.
pub(crate) struct ObjectPin {
    spot: ObjectSpot,
    from: PinFrom,
    /// The memory of another process, once it was mapped; `None` if it cannot be.
    mapped: OnceLock<Option<Arc<ExtentFile>>>,
}

impl ObjectPin {
    pub(super) fn new(spot: ObjectSpot, from: PinFrom) -> Self {
        ObjectPin {
            spot,
            from,
            mapped: OnceLock::new(),
        }
    }

    fn memory(&self) -> Option<&Arc<ExtentFile>> {
        match &self.from {
            PinFrom::Host(host) => Some(host.memory()),
            PinFrom::Agent { agent, mappings } => {
                let mapped = self
                    .mapped
                    .get_or_init(|| mappings.of(*agent, &self.spot.memory).ok());
                mapped.as_ref()
            }
        }
    }

    /// Whether this process can map the memory in which the object lies.
    pub(crate) fn is_mappable(&self) -> bool {
        self.memory().is_some()
    }

    /// The bytes of the object, where they lie.
    ///
    /// # Errors
    /// [`SegmentError`]: this process cannot map the memory, or the object lies outside of it.
    pub(crate) fn bytes(self: Arc<Self>) -> Result<Bytes, SegmentError> {
        let length = usize::try_from(self.spot.bytes).unwrap_or(usize::MAX);
        let memory = self.memory().ok_or(SegmentError::Unsupported)?;
        // SAFETY: the object is sealed and pinned for as long as `self` lives, so nobody writes its bytes, and their memory stays
        // (STORE-2). The view is dropped before it.
        let view = unsafe { memory.view(self.spot.offset, length) }?;
        Ok(Bytes::from_owner(PinnedBytes { view, _pin: self }))
    }
}

impl Drop for ObjectPin {
    fn drop(&mut self) {
        let (object, grant) = (self.spot.object, self.spot.grant);
        match &self.from {
            PinFrom::Host(host) => host.close_here(object, grant),
            PinFrom::Agent { agent, mappings } => mappings.close(*agent, object, grant),
        }
    }
}

/// The bytes of an object. The fields are dropped in this order.
struct PinnedBytes {
    view: ExtentView,
    _pin: Arc<ObjectPin>,
}

impl AsRef<[u8]> for PinnedBytes {
    fn as_ref(&self) -> &[u8] {
        self.view.as_ref()
    }
}
