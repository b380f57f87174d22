//! Unix domain sockets.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use super::random;
use super::transport::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};
use crate::platform::private_directory;
use crate::platform::unix_socket::{self, UnixAcceptor};

/// Streams over Unix domain sockets, between processes of one user on one host.
///
/// The sockets lie in a directory that nobody else may enter (mode 0700). Each listener has a socket of its own there, and
/// removes it in the end.
#[derive(Clone, Debug)]
pub struct Uds {
    directory: Arc<Directory>,
}

impl Uds {
    /// Makes a directory of its own within the system's directory for temporary files. The last clone removes it; if the
    /// process is killed before, the next call of a process of this user does.
    ///
    /// # Errors
    /// The directory cannot be made, or its path is too long for sockets: choose another by `TMPDIR`.
    pub fn new() -> io::Result<Self> {
        let (path, used) = private_directory::make_own(&std::env::temp_dir(), &random::name()?)?;
        let directory = Directory {
            path,
            is_own: true,
            _used: used,
        };
        unix_socket::check_path(&directory.path.join(random::name()?))?;
        Ok(Self::at(directory))
    }

    /// Puts the sockets into this directory, which is made if it is not there, and is not removed: it belongs to the
    /// process that launches the others, for example.
    ///
    /// # Errors
    /// The directory cannot be made, others may enter it, or its path is too long for sockets.
    pub fn within(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let path = directory.into();
        unix_socket::check_path(&path.join(random::name()?))?;
        let used = private_directory::make(&path)?;
        Ok(Self::at(Directory {
            path,
            is_own: false,
            _used: used,
        }))
    }

    fn at(directory: Directory) -> Self {
        let directory = Arc::new(directory);
        Uds { directory }
    }

    /// The directory of the sockets.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    fn bind(&self) -> io::Result<Box<dyn Acceptor>> {
        let path = self.directory.path.join(random::name()?);
        let connect_at = path.to_str().ok_or_else(not_a_text)?.to_owned();
        Ok(Box::new(UdsAcceptor {
            acceptor: UnixAcceptor::bind(&path)?,
            connect_at,
            _directory: self.directory.clone(),
        }))
    }
}

impl Transport for Uds {
    fn name(&self) -> &str {
        "unix socket"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(unix_socket::connect(Path::new(&to.connect_at)))
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async { self.bind() })
    }
}

fn not_a_text() -> io::Error {
    let text = "the path of the directory is no UTF-8: choose another directory";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Whether the directory is removed in the end.
    is_own: bool,
    /// While this is open, nobody takes the directory for one that a dead process has left.
    _used: File,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_own {
            // Somebody else may have cleaned up before.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

struct UdsAcceptor {
    acceptor: UnixAcceptor,
    connect_at: String,
    _directory: Arc<Directory>,
}

impl Acceptor for UdsAcceptor {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let halves = self.acceptor.poll_accept(cx);
        halves
            .map_ok(|halves| Accepted::new(halves, format!("a process of this user, at {}", self.connect_at)))
    }
}

impl Drop for UdsAcceptor {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.connect_at);
    }
}
