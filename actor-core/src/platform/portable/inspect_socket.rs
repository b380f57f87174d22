//! The sockets by which other processes look into this one, which do not exist here.

use std::io;
use std::time::Instant;

/// A socket.
pub(crate) enum InspectListener {}

/// A process that asks.
#[allow(dead_code, reason = "there is none")]
pub(crate) struct InspectCaller {
    pub(crate) stream: InspectStream,
    pub(crate) is_allowed: bool,
}

impl InspectListener {
    /// Refuses to listen.
    pub(crate) fn bind() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) async fn accept(&self) -> io::Result<Option<InspectCaller>> {
        match *self {}
    }
}

/// A conversation.
pub(crate) enum InspectStream {}

impl InspectStream {
    pub(crate) fn read_until(&self, _: &mut [u8], _: Instant) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn write_until(&self, _: &[u8], _: Instant) -> io::Result<()> {
        match *self {}
    }
}

/// The reason that a process cannot be asked.
#[allow(dead_code, reason = "here it is always the system")]
pub(crate) enum Absent {
    Process,
    OtherUser,
    OtherNetwork,
    System(io::Error),
}

/// A place.
pub(crate) enum InspectSpot {}

impl InspectSpot {
    pub(crate) fn number(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn connect(&self) -> io::Result<Option<InspectStream>> {
        match *self {}
    }
}

/// Refuses to look for a process.
pub(crate) fn find(_: u32) -> Result<Vec<InspectSpot>, Absent> {
    Err(Absent::System(io::ErrorKind::Unsupported.into()))
}

/// No process.
pub(crate) fn parent(_: u32) -> Option<u32> {
    None
}

/// No process.
pub(crate) fn processes() -> Vec<u32> {
    Vec::new()
}
