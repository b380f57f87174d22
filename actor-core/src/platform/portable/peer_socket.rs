//! The sockets between two processes that are peers, which do not exist here.

use std::io::{self, IoSlice};

use tokio::runtime::Handle;

use super::lead_poll::LeadPoll;

/// An end of a pair.
pub(crate) enum PeerEnd {}

/// Refuses to make a pair.
pub(crate) fn pair() -> io::Result<(PeerEnd, PeerEnd)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses to take the socket of a link.
#[cfg(feature = "hosts")]
pub(crate) fn of_link(_: selvedge_cluster::net::Link) -> io::Result<(PeerEnd, Vec<u8>)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Leaves a stream as it is.
#[cfg(feature = "hosts")]
pub(crate) fn watch_over(_: &selvedge_cluster::net::Halves) {}

/// Drops an end.
#[cfg(any(test, feature = "hosts"))]
pub(crate) fn drop_unused(end: PeerEnd) {
    match end {}
}

/// An end.
pub(crate) enum PeerSocket {}

/// The events of an end.
pub(crate) enum PeerSource {}

pub(crate) fn register(end: PeerEnd, _: &Handle) -> io::Result<(PeerSource, PeerSocket)> {
    match end {}
}

/// The memory to read into.
#[allow(dead_code, reason = "there is no end")]
pub(crate) struct ReadInto<'a> {
    pub(crate) memory: &'a mut Vec<u8>,
    pub(crate) most: usize,
}

/// An event of an end.
#[allow(dead_code, reason = "there is no end")]
pub(crate) enum SourceEvent {
    Bytes,
    Room,
}

impl PeerSource {
    pub(crate) fn begin(&self, _: &LeadPoll, _: u64) -> io::Result<()> {
        match *self {}
    }

    pub(crate) async fn next(&mut self, _: bool) -> io::Result<SourceEvent> {
        match *self {}
    }
}

impl PeerSocket {
    pub(crate) fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn try_read(&self, _: ReadInto<'_>) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn try_fill(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn leave(&self, _: &LeadPoll) {
        match *self {}
    }

    pub(crate) fn abandon(&self) {
        match *self {}
    }

    pub(crate) fn is_reset(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }

    pub(crate) fn has_room(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_rings(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_bytes(&self) -> bool {
        match *self {}
    }

    pub(crate) fn watch(&self) {
        match *self {}
    }

    pub(crate) fn unwatch(&self) -> io::Result<bool> {
        match *self {}
    }
}
