//! The halves of a stream, and the task that carries it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::time::timeout_at;

use super::node::Node;
use super::stream::{Next, RoutedStream};
use crate::net::transport::Halves;

/// The bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The halves of a stream, which a task of the current runtime carries from now on.
///
/// # Errors
/// There is no runtime of tokio.
pub(super) fn begin(node: &Arc<Node>, stream: Arc<RoutedStream>) -> io::Result<Halves> {
    let carried = CarriedStream {
        node: Arc::clone(node),
        stream: Arc::clone(&stream),
    };
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    runtime.spawn(carried.carry());
    let mut halves = Halves::new(
        RoutedReader(Arc::clone(&stream)),
        RoutedWriter(Arc::clone(&stream)),
    );
    halves.cut = Some(Box::new(move || stream.cut()));
    Ok(halves)
}

/// A stream in the hands of its task. When the task ends, with the runtime at the latest, so does the stream.
struct CarriedStream {
    node: Arc<Node>,
    stream: Arc<RoutedStream>,
}

impl CarriedStream {
    async fn carry(self) {
        let far = self.node.key(self.stream.far_node);
        loop {
            let (said, next) = self.stream.turn();
            for (packet, is_short) in said {
                self.node.send(&far, packet, is_short);
            }
            match next {
                Next::End => return,
                Next::Wait(None) => self.stream.nudged().await,
                Next::Wait(Some(deadline)) => {
                    let _ = timeout_at(deadline, self.stream.nudged()).await;
                }
            }
        }
    }
}

impl Drop for CarriedStream {
    fn drop(&mut self) {
        self.node.switchboard().remove(&self.stream);
        if self.stream.leave() {
            let far = self.node.key(self.stream.far_node);
            for (packet, is_short) in self.stream.turn().0 {
                self.node.send(&far, packet, is_short);
            }
        }
    }
}

/// The half of a stream that is read. Dropping it tells the peer that nobody reads.
struct RoutedReader(Arc<RoutedStream>);

impl AsyncRead for RoutedReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = buffer.remaining().min(READ_BYTES);
        if length > 0 {
            let read = ready!(self.0.poll_read(cx, buffer.initialize_unfilled_to(length)))?;
            buffer.advance(read);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for RoutedReader {
    fn drop(&mut self) {
        self.0.refuse();
    }
}

/// The half of a stream that is written. Dropping it ends the direction.
struct RoutedWriter(Arc<RoutedStream>);

impl AsyncWrite for RoutedWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task sends what is written as soon as the way bears it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for RoutedWriter {
    fn drop(&mut self) {
        self.0.end();
    }
}
