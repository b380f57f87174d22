//! The senders of frames.

use std::fmt;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError, mpsc};

use super::FrameSettings;
use super::end::SharedEnd;
use super::writer::QueuedFrame;
use crate::frame::{Frame, FrameError};
use crate::net::error::{LinkCause, LinkError};

/// A sender of frames. Clones send over the same link, each frame as one piece (`NET-3`).
///
/// When the last clone is dropped, the writer writes what is queued, and ends this direction of the link.
pub struct FrameSender<P> {
    queue: mpsc::UnboundedSender<QueuedFrame<P>>,
    end: SharedEnd,
    settings: FrameSettings,
}

/// A frame that was not sent, and the reason.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct Refused<P> {
    /// The frame, as it was.
    pub frame: Frame<P>,
    /// The reason.
    #[source]
    pub why: SendError,
}

/// The reason why a frame was not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer is slower than the senders.
    #[error("{queued} of {limit} bytes wait to be written: send the frame again later, or wait with `send`")]
    Full {
        /// The bytes that wait.
        queued: usize,
        /// The limit of the queue in bytes.
        limit: usize,
    },
    /// The frame is above a limit.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The link has ended.
    #[error(transparent)]
    Ended(Box<LinkError>),
}

impl<P: AsRef<[u8]>> FrameSender<P> {
    /// Queues a frame, if there is room.
    ///
    /// # Errors
    /// [`Refused`] has the frame. [`SendError::Full`]: there is no room. [`SendError::Ended`]: the link has ended.
    /// [`SendError::Frame`]: the frame is above a limit.
    pub fn try_send(&self, frame: Frame<P>) -> Result<(), Refused<P>> {
        let (prefix, bytes) = match self.measure(&frame) {
            Ok(measured) => measured,
            Err(why) => return Err(Refused { frame, why }),
        };
        match self.end.room.clone().try_acquire_many_owned(bytes) {
            Ok(room) => self.push(frame, prefix, room),
            Err(TryAcquireError::NoPermits) => {
                let why = self.full();
                Err(Refused { frame, why })
            }
            Err(TryAcquireError::Closed) => Err(self.ended(frame)),
        }
    }

    /// Waits for room, in the order of the waiting, and queues a frame. Dropping the future leaves the frame unsent, or queued as
    /// a whole.
    ///
    /// # Errors
    /// [`Refused`] has the frame. [`SendError::Ended`]: the link has ended. [`SendError::Frame`]: the frame is above a limit.
    pub async fn send(&self, frame: Frame<P>) -> Result<(), Refused<P>> {
        let (prefix, bytes) = match self.measure(&frame) {
            Ok(measured) => measured,
            Err(why) => return Err(Refused { frame, why }),
        };
        match self.end.room.clone().acquire_many_owned(bytes).await {
            Ok(room) => self.push(frame, prefix, room),
            Err(_) => Err(self.ended(frame)),
        }
    }

    /// The bytes before the frame's parts, and the room that the frame takes.
    fn measure(&self, frame: &Frame<P>) -> Result<(Vec<u8>, u32), SendError> {
        let prefix = frame.prefix(&self.settings.limits)?;
        let parts: usize = frame.parts.iter().map(|part| part.as_ref().len()).sum();
        let bytes = u32::try_from(prefix.len() + parts).unwrap_or(u32::MAX);
        Ok((prefix, bytes.min(self.settings.queue_bytes_max)))
    }

    fn push(
        &self,
        mut frame: Frame<P>,
        prefix: Vec<u8>,
        room: OwnedSemaphorePermit,
    ) -> Result<(), Refused<P>> {
        let parts = std::mem::take(&mut frame.parts);
        let queued = self.queue.send(QueuedFrame::new(prefix, parts, room));
        queued.map_err(|mpsc::error::SendError(unsent)| {
            frame.parts = unsent.into_parts();
            self.ended(frame)
        })
    }

    fn full(&self) -> SendError {
        let limit = self.settings.queue_bytes_max as usize;
        let queued = limit.saturating_sub(self.end.room.available_permits());
        SendError::Full { queued, limit }
    }

    fn ended(&self, frame: Frame<P>) -> Refused<P> {
        let why = SendError::Ended(Box::new(self.end.error()));
        Refused { frame, why }
    }
}

impl<P> FrameSender<P> {
    pub(super) fn new(
        queue: mpsc::UnboundedSender<QueuedFrame<P>>,
        end: SharedEnd,
        settings: FrameSettings,
    ) -> Self {
        FrameSender { queue, end, settings }
    }

    /// Closes the link at once, whatever is queued. Everybody who waits for the link gets [`LinkCause::Closed`].
    pub fn close(&self) {
        self.end.end(LinkCause::Closed);
    }
}

impl<P> Clone for FrameSender<P> {
    fn clone(&self) -> Self {
        Self::new(self.queue.clone(), self.end.clone(), self.settings)
    }
}

impl<P> fmt::Debug for FrameSender<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSender")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
