//! The far end of a shuttle: it writes the mirror of a channel.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::{ChannelError, Fault, SharedWriter};
use selvedge_core::ProcessId;

use super::word::{LONG_BYTES, MessageKind};
use crate::ir::ShuttlePlan;

/// A message that waits for a slot of the mirror.
struct WaitingMessage {
    kind: MessageKind,
    body: Bytes,
}

/// The far end of a shuttle. Messages are taken by the thread that reads their link, which never waits for one that copies.
pub(crate) struct Incoming {
    from: ProcessId,
    slots: usize,
    arrivals: Mutex<Arrivals>,
    mirror: Mutex<MirrorEnd>,
}

/// The messages that have arrived.
struct Arrivals {
    /// Messages that found no slot, at most as many as there are slots (`JOINT-1`).
    waiting: VecDeque<WaitingMessage>,
    /// The number of the message that is expected (`JOINT-2`).
    next: u64,
}

/// The writer of the mirror.
struct MirrorEnd {
    writer: SharedWriter,
    /// The number of messages that the near end has been told of.
    told: u64,
    /// Whether one of the messages since then is long.
    is_long: bool,
}

/// The outcome of an attempt to write to a mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// Whether a message was written.
    pub(super) moved: bool,
    /// Whether messages still wait.
    pub(super) waits: bool,
    /// The number of messages of the mirror, if the near end has to be told.
    pub(super) taken: Option<u64>,
}

/// The reason why a mirror cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncomingError {
    #[error(transparent)]
    Mirror(#[from] ChannelError),
    #[error("it is not the writer's process")]
    Stranger,
    #[error("message {found} came in the place of message {expected}")]
    OutOfSequence { found: u64, expected: u64 },
    #[error("more messages came than the channel has slots")]
    TooMany,
}

impl Incoming {
    /// The end that writes a mirror.
    pub(crate) fn new(plan: &ShuttlePlan, writer: SharedWriter) -> Self {
        Incoming {
            from: plan.from,
            slots: writer.slots(),
            arrivals: Mutex::new(Arrivals {
                waiting: VecDeque::new(),
                next: 0,
            }),
            mirror: Mutex::new(MirrorEnd {
                writer,
                told: 0,
                is_long: false,
            }),
        }
    }

    /// The process of the near end.
    pub(super) fn from(&self) -> ProcessId {
        self.from
    }

    /// Takes a message of a process.
    pub(super) fn take(
        &self,
        from: ProcessId,
        number: u64,
        kind: MessageKind,
        body: Bytes,
    ) -> Result<(), IncomingError> {
        if from != self.from {
            return Err(IncomingError::Stranger);
        }
        let mut arrivals = self.arrivals.lock();
        let expected = arrivals.next;
        if number != expected {
            let found = number;
            return Err(IncomingError::OutOfSequence { found, expected });
        }
        if arrivals.waiting.len() >= self.slots {
            return Err(IncomingError::TooMany);
        }
        arrivals.next += 1;
        arrivals.waiting.push_back(WaitingMessage { kind, body });
        Ok(())
    }

    /// Writes messages to the mirror, as far as it has slots.
    pub(super) fn flush(&self) -> Result<Flushed, IncomingError> {
        self.flush_to(&mut self.mirror.lock())
    }

    /// Writes messages to the mirror as [`flush`](Self::flush) does, unless another thread does it already.
    pub(super) fn try_flush(&self) -> Result<Flushed, IncomingError> {
        match self.mirror.try_lock() {
            Some(mut mirror) => self.flush_to(&mut mirror),
            None => Ok(Flushed {
                waits: true,
                ..Flushed::default()
            }),
        }
    }

    fn flush_to(&self, mirror: &mut MirrorEnd) -> Result<Flushed, IncomingError> {
        let mut flushed = Flushed::default();
        loop {
            let is_empty = self.arrivals.lock().waiting.is_empty();
            flushed.waits = !is_empty;
            if is_empty || !mirror.writer.has_space()? {
                break;
            }
            // Only the holder of the mirror takes messages out.
            let message = self.arrivals.lock().waiting.pop_front();
            if let Some(message) = message {
                flushed.moved |= mirror.write(&message)?;
            }
        }
        flushed.taken = mirror.taken();
        Ok(flushed)
    }
}

impl MirrorEnd {
    /// Writes a message into a free slot.
    fn write(&mut self, message: &WaitingMessage) -> Result<bool, IncomingError> {
        self.is_long |= message.body.len() >= LONG_BYTES;
        Ok(match message.kind {
            MessageKind::Value => self.writer.try_write_bytes(&message.body)?,
            MessageKind::Failed => {
                let fault = Fault::failed(message.body.to_vec(), None);
                self.writer.try_write_fault(&fault)?
            }
            MessageKind::Cancelled => self.writer.try_write_fault(&Fault::cancelled())?,
        })
    }

    /// The number of messages of the mirror, if the near end has to be told: when half of the slots were filled since the
    /// last time, or a long message has come. So the near end never waits for a letter that is not on its way.
    fn taken(&mut self) -> Option<u64> {
        let messages = self.writer.position();
        let enough = (self.writer.slots() as u64).div_ceil(2);
        if messages - self.told < enough && !self.is_long {
            return None;
        }
        (self.told, self.is_long) = (messages, false);
        Some(messages)
    }
}
