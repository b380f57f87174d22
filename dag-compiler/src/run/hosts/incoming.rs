//! The far end of a shuttle: it writes the mirror of a channel.

use std::collections::VecDeque;

use bytes::Bytes;
use selvedge_channels::{ChannelError, Fault, SharedWriter};
use selvedge_core::ProcessId;

use super::word::{LONG_BYTES, MessageKind};
use crate::ir::ShuttlePlan;

/// A message that waits for a slot of the mirror.
struct WaitingMessage {
    kind: MessageKind,
    body: Bytes,
}

/// The far end of a shuttle.
pub(crate) struct Incoming {
    from: ProcessId,
    writer: SharedWriter,
    /// Messages that found no slot, at most as many as there are slots (`JOINT-1`).
    waiting: VecDeque<WaitingMessage>,
    /// The number of the message that is expected (`JOINT-2`).
    next: u64,
    /// The number of messages that the near end has been told of.
    told: u64,
    /// Whether one of the messages since then is long.
    is_long: bool,
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
            writer,
            waiting: VecDeque::new(),
            next: 0,
            told: 0,
            is_long: false,
        }
    }

    /// The process of the near end.
    pub(super) fn from(&self) -> ProcessId {
        self.from
    }

    /// Whether messages wait for a slot.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes a message of a process.
    pub(super) fn take(
        &mut self,
        from: ProcessId,
        number: u64,
        kind: MessageKind,
        body: Bytes,
    ) -> Result<(), IncomingError> {
        if from != self.from {
            return Err(IncomingError::Stranger);
        }
        if number != self.next {
            return Err(IncomingError::OutOfSequence {
                found: number,
                expected: self.next,
            });
        }
        if self.waiting.len() >= self.writer.slots() {
            return Err(IncomingError::TooMany);
        }
        self.next += 1;
        self.waiting.push_back(WaitingMessage { kind, body });
        Ok(())
    }

    /// Writes messages to the mirror, as far as it has slots; returns whether any was written.
    pub(super) fn flush(&mut self) -> Result<bool, IncomingError> {
        let before = self.writer.position();
        while let Some(message) = self.waiting.front() {
            let written = match message.kind {
                MessageKind::Value => self.writer.try_write_bytes(&message.body),
                MessageKind::Failed => self
                    .writer
                    .try_write_fault(&Fault::failed(message.body.to_vec(), None)),
                MessageKind::Cancelled => self.writer.try_write_fault(&Fault::cancelled()),
            };
            if !written? {
                break;
            }
            self.is_long |= message.body.len() >= LONG_BYTES;
            self.waiting.pop_front();
        }
        Ok(self.writer.position() > before)
    }

    /// The number of messages of the mirror, if the near end has to be told: when half of the slots were filled since the
    /// last time, or a long message has come. So the near end never waits for a letter that is not on its way.
    pub(super) fn taken(&mut self) -> Option<u64> {
        let messages = self.writer.position();
        let enough = (self.writer.slots() as u64).div_ceil(2);
        if messages - self.told < enough && !std::mem::take(&mut self.is_long) {
            return None;
        }
        (self.told, self.is_long) = (messages, false);
        Some(messages)
    }
}
