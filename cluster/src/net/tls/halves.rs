//! The two halves of a stream of TLS.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, join, sink};
use tokio_rustls::TlsStream;

use crate::net::transport::{Halves, ReadHalf, WriteHalf};

/// The label of the exporter (RFC 5705) that the handshake of a link includes.
const LABEL: &[u8] = b"EXPORTER-selvedge-handshake-1";

/// A stream of the transport below.
pub(super) type Below = Join<ReadHalf, WriteHalf>;

/// The halves of the transport below as one stream.
pub(super) fn joined(halves: Halves) -> Below {
    join(halves.reader, halves.writer)
}

/// The halves of a stream whose handshake of TLS is over, bound to its session.
///
/// # Errors
/// TLS gives no exporter.
pub(super) fn secured(stream: TlsStream<Below>) -> io::Result<Halves> {
    let binding = match &stream {
        TlsStream::Client(stream) => stream.get_ref().1.export_keying_material([0; 32], LABEL, None),
        TlsStream::Server(stream) => stream.get_ref().1.export_keying_material([0; 32], LABEL, None),
    };
    let binding = binding.map_err(io::Error::other)?.to_vec();
    let shared = Arc::new(Mutex::new(stream));
    let is_cut = Arc::<AtomicBool>::default();
    let writer = TlsWriter {
        session: SharedSession(shared.clone()),
        is_cut: Arc::clone(&is_cut),
    };
    Ok(Halves {
        binding,
        // Relaxed: whoever cuts the stream drops the writer afterwards.
        cut: Some(Box::new(move || is_cut.store(true, Ordering::Relaxed))),
        ..Halves::new(TlsReader(SharedSession(shared)), writer)
    })
}

/// A session has one state for both directions, so its halves take turns. Each turn is as long as the system takes or gives
/// what it can at once.
struct SharedSession(Arc<Mutex<TlsStream<Below>>>);

impl SharedSession {
    fn turn<T>(&self, turn: impl FnOnce(Pin<&mut TlsStream<Below>>) -> T) -> T {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turn(Pin::new(&mut stream))
    }
}

struct TlsReader(SharedSession);

impl AsyncRead for TlsReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.turn(|stream| stream.poll_read(cx, bytes))
    }
}

struct TlsWriter {
    session: SharedSession,
    /// Whether the stream is left without the message that ends it, which the peer sees.
    is_cut: Arc<AtomicBool>,
}

impl AsyncWrite for TlsWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.session.turn(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.turn(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.turn(|stream| stream.poll_shutdown(cx))
    }
}

/// The direction ends: in order if the system takes the last bytes at once, and otherwise in an error of the peer, which
/// has not got them. A stream that was cut ends in such an error too.
impl Drop for TlsWriter {
    fn drop(&mut self) {
        // Relaxed: the thread that drops the writer has seen the cut, if there was one.
        let is_cut = self.is_cut.load(Ordering::Relaxed);
        let below = self.session.turn(|stream| {
            let stream = stream.get_mut();
            if !is_cut {
                let _ = Pin::new(&mut *stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
            }
            let (below, _) = stream.get_mut();
            std::mem::replace(below.writer_mut(), Box::new(sink()))
        });
        drop(below);
    }
}
