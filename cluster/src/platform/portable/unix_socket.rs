//! Unix domain sockets, which are refused.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::task::{Context, Poll};

use crate::net::Halves;

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) fn check_path(_: &Path) -> io::Result<()> {
    let text = "Unix domain sockets are built for Linux alone: take TCP";
    Err(io::Error::new(ErrorKind::Unsupported, text))
}

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) async fn connect(path: &Path) -> io::Result<Halves> {
    check_path(path)?;
    Err(ErrorKind::Unsupported.into())
}

/// A listening socket, of which there is none.
pub(crate) enum UnixAcceptor {}

impl UnixAcceptor {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        check_path(path)?;
        Err(ErrorKind::Unsupported.into())
    }

    /// Takes the next stream.
    ///
    /// # Errors
    /// None: there is no such socket.
    pub(crate) fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Halves>> {
        match *self {}
    }
}
