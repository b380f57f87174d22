//! Unix domain sockets.

use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::task::{Context, Poll};

use tokio::net::{UnixListener, UnixStream};

use crate::net::Halves;

/// The bytes of a socket's path, without the zero behind them.
const PATH_BYTES_MAX: usize = 107;

/// Checks that a socket can have this path.
///
/// # Errors
/// The path is too long.
pub(crate) fn check_path(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_bytes().len();
    if bytes <= PATH_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "the path {} has {bytes} bytes, and that of a socket has {PATH_BYTES_MAX} at most: choose a shorter directory",
        path.display()
    );
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}

/// Connects to the socket of this path.
///
/// # Errors
/// Nobody listens there, or the path is too long.
pub(crate) async fn connect(path: &Path) -> io::Result<Halves> {
    check_path(path)?;
    UnixStream::connect(path).await.map(halves)
}

/// A listening socket.
pub(crate) struct UnixAcceptor(UnixListener);

impl UnixAcceptor {
    /// Listens at this path.
    ///
    /// # Errors
    /// The path is too long or in use, or the directory cannot be written.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        check_path(path)?;
        UnixListener::bind(path).map(UnixAcceptor)
    }

    /// Takes the next stream.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Halves>> {
        self.0.poll_accept(cx).map_ok(|(stream, _)| halves(stream))
    }
}

fn halves(stream: UnixStream) -> Halves {
    let (reader, writer) = stream.into_split();
    Halves::new(reader, writer)
}
