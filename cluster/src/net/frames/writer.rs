//! The writer of frames: the one who writes to a link.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};

use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::end::SharedEnd;
use crate::frame::Parts;
use crate::net::error::{LinkCause, LinkError};
use crate::net::transport::WriteHalf;

/// The frames that one write takes together, and the pieces of memory of one write.
const FRAMES_MAX: usize = 32;
const SLICES_MAX: usize = 64;

/// A frame on its way out, with the room that it takes in the queue.
pub(super) struct QueuedFrame<P> {
    prefix: Vec<u8>,
    parts: Parts<P>,
    _room: OwnedSemaphorePermit,
}

impl<P> QueuedFrame<P> {
    pub(super) fn new(prefix: Vec<u8>, parts: Parts<P>, room: OwnedSemaphorePermit) -> Self {
        QueuedFrame {
            prefix,
            parts,
            _room: room,
        }
    }

    pub(super) fn into_parts(self) -> Parts<P> {
        self.parts
    }
}

impl<P: AsRef<[u8]>> QueuedFrame<P> {
    /// The pieces of memory of the frame, in order.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.parts.iter().map(AsRef::as_ref);
        std::iter::once(&self.prefix[..]).chain(parts)
    }

    fn bytes(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }
}

/// The writer of a link. It writes each frame from where its parts lie, several frames at a time.
pub struct FrameWriter<P> {
    writer: WriteHalf,
    queued: mpsc::UnboundedReceiver<QueuedFrame<P>>,
    end: SharedEnd,
    /// Whether this direction has ended because nobody can send any more.
    is_done: bool,
}

impl<P> FrameWriter<P> {
    pub(super) fn new(
        writer: WriteHalf,
        queued: mpsc::UnboundedReceiver<QueuedFrame<P>>,
        end: SharedEnd,
    ) -> Self {
        FrameWriter {
            writer,
            queued,
            end,
            is_done: false,
        }
    }
}

impl<P: AsRef<[u8]> + Send + Sync> FrameWriter<P> {
    /// Writes frames until the last sender is dropped, and then ends this direction; the reader goes on. Dropping the
    /// future closes the link.
    ///
    /// # Errors
    /// [`LinkError`]: the link has ended before.
    pub async fn run(mut self) -> Result<(), LinkError> {
        let end = self.end.clone();
        let written = tokio::select! {
            biased;
            ended = end.ended() => return Err(ended),
            written = write(&mut self.writer, &mut self.queued) => written,
        };
        written.map_err(|error| end.lost(&error))?;
        self.is_done = true;
        Ok(())
    }
}

impl<P> Drop for FrameWriter<P> {
    fn drop(&mut self) {
        if !self.is_done {
            self.end.end(LinkCause::Closed);
        }
    }
}

impl<P> fmt::Debug for FrameWriter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameWriter")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Writes all frames of the queue, and ends the direction behind the last.
async fn write<P: AsRef<[u8]>>(
    writer: &mut WriteHalf,
    queued: &mut mpsc::UnboundedReceiver<QueuedFrame<P>>,
) -> io::Result<()> {
    let mut batch = VecDeque::new();
    while let Some(frame) = queued.recv().await {
        batch.push_back(frame);
        // The bytes of the first frame that are written.
        let mut done = 0;
        while !batch.is_empty() {
            while batch.len() < FRAMES_MAX
                && let Ok(frame) = queued.try_recv()
            {
                batch.push_back(frame);
            }
            match writer.write_vectored(&rest(&batch, done)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => done += written,
            }
            while let Some(bytes) = batch
                .front()
                .map(QueuedFrame::bytes)
                .filter(|bytes| *bytes <= done)
            {
                done -= bytes;
                batch.pop_front();
            }
        }
        writer.flush().await?;
    }
    writer.shutdown().await
}

/// The first pieces of memory that are not written yet.
fn rest<P: AsRef<[u8]>>(batch: &VecDeque<QueuedFrame<P>>, mut done: usize) -> Vec<IoSlice<'_>> {
    let pieces = batch.iter().flat_map(QueuedFrame::pieces).filter_map(|piece| {
        let (written, rest) = piece.split_at_checked(done).unwrap_or((piece, &[]));
        done -= written.len();
        (!rest.is_empty()).then(|| IoSlice::new(rest))
    });
    pieces.take(SLICES_MAX).collect()
}
