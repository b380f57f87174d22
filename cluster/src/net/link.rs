//! Authenticated links.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::transport::Halves;
use crate::handshake::{Hello, Welcome};
use crate::platform::stream_socket::{self, StreamSocket};

/// A stream to a process that has proved that it knows the cookie, and that runs the same build.
///
/// ```
/// use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role, Welcome};
/// use selvedge_cluster::net::{Listener, PeerInfo, Tcp, dial};
/// use selvedge_cluster::peer::ProcessId;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let identity = |role| Identity {
///     hello: Hello::new("lab", "1a2b", 7, role),
///     cookie: Cookie::new([9; 32]),
///     binding: Vec::new(),
/// };
/// let mut listener = Listener::bind(&Tcp::loopback(), identity(Role::Worker)).await?;
/// let to = PeerInfo { process: ProcessId::HEAD, connect_at: listener.connect_at().into() };
/// let peer = ProcessId::HEAD.first_life();
/// let welcome = Welcome { you: peer, me: peer, note: Vec::new() };
/// let (near, far) = tokio::join!(
///     async { dial(&Tcp::loopback(), &to, &identity(Role::Head)).await },
///     async { listener.next().await?.welcome(&welcome).await },
/// );
/// let (mut near, mut far) = (near?, far?);
/// near.halves.writer.write_all(b"frames").await?;
/// near.halves.writer.shutdown().await?;
/// far.halves.reader.read_to_end(&mut far.beyond).await?;
/// assert_eq!(far.beyond, b"frames");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Link {
    /// The name of the link for errors: its transport, and who is at the other end.
    pub name: Arc<str>,
    /// The peer, as it has introduced itself.
    pub hello: Hello,
    /// The words with which the dialer was admitted.
    pub welcome: Welcome,
    /// The stream.
    pub halves: Halves,
    /// The bytes that were read behind the handshake. They come before those that the read half gives.
    pub beyond: Vec<u8>,
}

impl Link {
    /// Takes the socket of the link, in non-blocking mode, and the bytes that come before those of the socket.
    ///
    /// A stream that is no socket, or whose bytes do not travel as they are (TLS), is carried by a pair of Unix domain sockets: a
    /// task of the current runtime of tokio copies its bytes, and ends when the socket is closed or the stream is lost. When the
    /// peer ends the stream, the socket reads its end, as that of TCP does. When the stream is lost, the socket polls as a
    /// hang-up besides.
    ///
    /// # Errors
    /// No descriptor is left; or this is another system than Linux, which has no such sockets.
    pub fn into_socket(self) -> io::Result<(StreamSocket, Vec<u8>)> {
        let socket = stream_socket::into_socket(self.halves)?;
        Ok((socket, self.beyond))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.name)
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}
