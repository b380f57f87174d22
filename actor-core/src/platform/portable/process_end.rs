//! The end of other processes of this host, which this system does not tell.

use std::io;

/// A process that is watched, of which there is none.
#[derive(Clone)]
pub(crate) enum WatchedProcess {}

impl WatchedProcess {
    /// Finds no process.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`].
    pub(crate) fn find(_: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does not exist.
    pub(crate) fn has_ended(&self) -> bool {
        match *self {}
    }

    /// Does not exist.
    ///
    /// # Errors
    /// None.
    pub(crate) async fn ended(self) -> io::Result<()> {
        match self {}
    }
}
