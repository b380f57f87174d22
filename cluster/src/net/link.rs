//! Authenticated links.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::frames::{self, FrameReader, FrameSender, FrameSettings, FrameWriter};
use super::transport::Halves;
use crate::handshake::{Hello, Welcome};
use crate::platform::stream_socket::{self, StreamSocket};

/// A stream to a process that has proved that it knows the cookie, and that runs the same build.
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
    /// Turns the link into a stream of frames. Spawn the future [`FrameWriter::run`] in a task.
    ///
    /// ```
    /// use selvedge_cluster::frame::{Class, Frame, Service};
    /// use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role, Welcome};
    /// use selvedge_cluster::net::{FrameSettings, Listener, PeerInfo, Tcp, dial};
    /// use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let identity = |role| Identity {
    ///     hello: Hello::new("lab", "1a2b", 7, role),
    ///     cookie: Cookie::new([9; 32]),
    ///     binding: Vec::new(),
    /// };
    /// let mut listener = Listener::bind(&Tcp::loopback(), identity(Role::Worker)).await?;
    /// let to = PeerInfo { process: ProcessId::HEAD, connect_at: listener.connect_at().into() };
    /// let peer = Peer { process: ProcessId::HEAD, incarnation: Incarnation(1) };
    /// let welcome = Welcome { you: peer, me: peer };
    /// let (near, far) = tokio::join!(
    ///     async { dial(&Tcp::loopback(), &to, &identity(Role::Head)).await },
    ///     async { listener.next().await?.welcome(&welcome).await },
    /// );
    ///
    /// let (sender, _, writer) = near?.frames::<Vec<u8>>(FrameSettings::default());
    /// tokio::spawn(writer.run());
    /// let frame = Frame {
    ///     service: Service(7), class: Class::Ordered, sequence: 1, acknowledged: 0,
    ///     head: [1][..].into(), parts: [b"part".to_vec()].into(),
    /// };
    /// sender.try_send(frame.clone())?;
    /// let (_, mut reader, _writer) = far?.frames::<Vec<u8>>(FrameSettings::default());
    /// assert_eq!(reader.next().await?, Some(frame));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn frames<P>(self, settings: FrameSettings) -> (FrameSender<P>, FrameReader, FrameWriter<P>) {
        frames::over(self.name, self.halves, self.beyond, settings)
    }

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
