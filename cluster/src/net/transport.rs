//! The trait of transports: whoever makes streams of bytes between processes.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::peer::ProcessId;

/// A future of a transport.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;
/// The half of a stream that is read.
pub type ReadHalf = Box<dyn ByteReader>;
/// The half of a stream that is written.
pub type WriteHalf = Box<dyn ByteWriter>;

/// Any type that can be the half of a stream that is read.
pub trait ByteReader: AsyncRead + Any + Send + Unpin {}

impl<T: AsyncRead + Any + Send + Unpin> ByteReader for T {}

/// Any type that can be the half of a stream that is written.
pub trait ByteWriter: AsyncWrite + Any + Send + Unpin {}

impl<T: AsyncWrite + Any + Send + Unpin> ByteWriter for T {}

/// A way to make streams of bytes between processes: [`Tcp`](super::Tcp), [`Uds`](super::Uds), [`Bridge`](super::Bridge),
/// `Tls` over one of them, or a type of the user's.
///
/// A transport promises what `transport_contract!` (feature `contract`) tests: bytes arrive completely and in order
/// in each direction, and the death of the other process ends every wait of a stream. It need not be secret, and need
/// not know who the other process is: the handshake finds out.
pub trait Transport: Send + Sync {
    /// The word that the name of each link begins with, as in "tcp to process 3 at 127.0.0.1:4000".
    fn name(&self) -> &str;

    /// Makes a stream to a process. Dropping the future gives up and leaves nothing.
    ///
    /// # Errors
    /// The process cannot be reached. The future need not end by itself; whoever dials has a deadline.
    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves>;

    /// Begins to listen for streams of other processes.
    ///
    /// # Errors
    /// The system has no place to listen at.
    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>>;
}

/// The listening side of a transport. Dropping it ends the listening, and leaves nothing.
pub trait Acceptor: Send {
    /// The text by which other processes connect to this place. It means something to the transport alone.
    fn connect_at(&self) -> &str;

    /// Takes the next stream that another process has made. Nothing waits for that process here: what a transport agrees on
    /// with it belongs into [`Accepted::halves`].
    ///
    /// # Errors
    /// No stream could be taken; the listening goes on. The kinds of [`io::ErrorKind`] with "connection" in their name are
    /// about one stream. Every other one is a shortage, after which the caller waits a while before it asks again.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>>;
}

/// A stream that another process has made.
pub struct Accepted {
    /// A text that says where the stream comes from.
    pub from: String,
    /// The stream, once the transport has agreed on it with the other process, as TLS does. The future need not end by itself;
    /// whoever listens has a deadline. Dropping the future closes the stream.
    pub halves: Pending<'static, Halves>,
}

impl Accepted {
    /// A stream that is ready.
    pub fn new(halves: Halves, from: impl Into<String>) -> Self {
        let (from, halves) = (from.into(), Box::pin(std::future::ready(Ok(halves))));
        Accepted { from, halves }
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// A process, and the place where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The process.
    pub process: ProcessId,
    /// The text that its [`Acceptor::connect_at`] gave.
    pub connect_at: String,
}

/// The two halves of a stream. Dropping the write half ends that direction, and dropping both closes the stream.
pub struct Halves {
    /// The half that is read.
    pub reader: ReadHalf,
    /// The half that is written.
    pub writer: WriteHalf,
    /// Bytes that both ends of this stream know and no other stream has, such as the exporter of TLS. Empty if the
    /// transport has none.
    pub binding: Vec<u8>,
    /// The way to leave the stream so that the other side sees that it is lost, and not that it has ended: called before both
    /// halves are dropped. `None` if the transport has none; its streams end then, whatever happens.
    pub cut: Option<Cut>,
}

/// Leaves a stream so that the other side sees that it is lost.
pub type Cut = Box<dyn FnOnce() + Send>;

impl Halves {
    /// The halves of a stream without a binding.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Halves {
            reader: Box::new(reader),
            writer: Box::new(writer),
            binding: Vec::new(),
            cut: None,
        }
    }
}

impl fmt::Debug for Halves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Halves").finish_non_exhaustive()
    }
}
