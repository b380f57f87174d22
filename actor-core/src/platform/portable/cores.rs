//! The affinity of threads, which `std` does not have.

use std::io;

/// Returns no core: the system does not tell them.
pub(crate) fn allowed() -> Vec<u32> {
    Vec::new()
}

/// The pinning of a thread to one core, which does not exist here.
pub(crate) enum Pinned {}

impl Pinned {
    /// Refuses to pin the calling thread.
    pub(crate) fn to(_: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn free(self) {
        match self {}
    }
}
