//! Segments that processes share: memfds and, with the feature `named`, files in `/dev/shm`.

use std::sync::Arc;

use super::memfd::Memfd;
#[cfg(feature = "named")]
use super::named::{NAMED, Named};
use super::room;
use crate::error::SegmentError;
use crate::memory::segment::{Memory, Provider, SegmentId};

/// Makes a zeroed segment of a provider other than the heap.
pub(crate) fn create(provider: Provider, len_bytes: usize) -> Result<Arc<dyn Memory>, SegmentError> {
    room::check(provider, len_bytes)?;
    #[cfg(feature = "named")]
    if provider == Provider::Named {
        return Ok(Arc::new(Named::create(len_bytes)?));
    }
    Ok(Arc::new(Memfd::create(len_bytes)?))
}

/// Maps a segment that another process of this host made.
pub(crate) fn open(id: &SegmentId) -> Result<Arc<dyn Memory>, SegmentError> {
    if cfg!(miri) {
        // Miri has neither memfd nor the flags to open one.
        return Err(SegmentError::Foreign {
            pid: id.pid,
            what: "the machine is a model",
        });
    }
    #[cfg(feature = "named")]
    if id.fd == NAMED {
        return Ok(Arc::new(Named::open(id)?));
    }
    Ok(Arc::new(Memfd::open(id)?))
}

/// The provider of the segment with this id.
pub(crate) fn provider(id: &SegmentId) -> Provider {
    #[cfg(feature = "named")]
    if id.fd == NAMED {
        return Provider::Named;
    }
    let _ = id;
    Provider::Memfd
}
