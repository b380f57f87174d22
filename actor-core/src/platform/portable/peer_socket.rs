//! The sockets between two processes that are peers, which do not exist here.

use std::io::{self, IoSlice};

use tokio::runtime::Handle;

/// An end of a pair.
pub(crate) enum PeerEnd {}

/// Refuses to make a pair.
pub(crate) fn pair() -> io::Result<(PeerEnd, PeerEnd)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// An end of a pair that a reactor watches.
pub(crate) enum PeerSocket {}

impl PeerSocket {
    pub(crate) fn register(end: PeerEnd, _: &Handle) -> io::Result<Self> {
        match end {}
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn try_read(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn read_now(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }
}
