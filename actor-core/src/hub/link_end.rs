//! The reason that a link between two processes has ended.

use std::io;

use selvedge_cluster::frame::{FrameError, Service};
use selvedge_cluster::session::SessionError;
use thiserror::Error;

/// The reason that the link to a peer has ended, and the peer counts as dead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LinkEnd {
    #[error("its end of the link was closed")]
    Closed,
    #[error("its end of the link was closed, or the connection reset")]
    Reset,
    #[error("the link cannot be read or written: {0}")]
    Io(io::ErrorKind),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("a letter for service {}, which no process has: the peer violates the protocol", .0.0)]
    UnknownService(Service),
    #[error("service {} failed on a letter: {text}", .service.0)]
    ServiceFailed { service: Service, text: String },
    #[error("bug in selvedge, please report: the link to it has failed: {0}")]
    Failed(String),
    #[error("it was cut off: {0}")]
    CutOff(String),
    #[error("no link to it could be made: {0}")]
    NoLink(String),
    #[error("its connection broke, and there is no other one: {0}")]
    Lost(String),
    #[error("its process has ended")]
    Buried,
    #[error("the runtime was shut down")]
    Shutdown,
    #[cfg(feature = "hosts")]
    #[error("the head of the runtime, process 1, has ended, and with it the links of this process")]
    Orphaned,
}

impl From<io::Error> for LinkEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The other end was closed before it had read everything, or a network has lost the connection.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => LinkEnd::Reset,
            kind => LinkEnd::Io(kind),
        }
    }
}

impl LinkEnd {
    /// Whether the peer is at fault or cannot be reached while its process may live.
    pub(super) fn is_severed(&self) -> bool {
        !matches!(
            self,
            LinkEnd::Closed | LinkEnd::Reset | LinkEnd::Buried | LinkEnd::Shutdown
        )
    }

    /// Whether perhaps only the connection has ended, and another one can carry the link on. An end of the stream is none of
    /// these: the system of a process sends it when the process has closed the connection or is dead.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self, LinkEnd::Reset | LinkEnd::Io(_))
    }

    /// Whether the letters that have arrived before the end are still delivered.
    pub(super) fn drains(&self) -> bool {
        matches!(
            self,
            LinkEnd::Closed | LinkEnd::Reset | LinkEnd::Buried | LinkEnd::Io(_)
        )
    }
}
