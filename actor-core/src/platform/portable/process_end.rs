//! The end of other processes of this host, which this system does not tell.

use std::io;

/// A process that is to be watched, of which there is none.
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
    ///
    /// # Errors
    /// None.
    pub(crate) async fn ended(self) -> io::Result<()> {
        match self {}
    }
}
