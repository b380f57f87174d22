//! The sockets between two processes that are peers, which do not exist here.

use std::io::{self, IoSlice};

use tokio::runtime::Handle;

/// An end of a pair.
pub(crate) enum PeerEnd {}

/// Refuses to make a pair.
pub(crate) fn pair() -> io::Result<(PeerEnd, PeerEnd)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The writing half of an end.
pub(crate) enum PeerSocket {}

/// The reading half of an end.
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
    Read(usize),
    Room,
}

impl PeerSource {
    pub(crate) async fn next(&mut self, _: ReadInto<'_>, _: bool) -> io::Result<SourceEvent> {
        match *self {}
    }

    pub(crate) fn read_now(&self, _: ReadInto<'_>) -> io::Result<usize> {
        match *self {}
    }
}

impl PeerSocket {
    pub(crate) fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }
}
