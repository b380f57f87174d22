//! The near end of a shuttle: it reads a shared channel, and sends what it reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use selvedge_channels::{ChannelError, SharedReader};
use selvedge_core::{Correspondence, ProcessId};

use super::word::{LONG_BYTES, MessageKind, Word};
use crate::ir::ShuttlePlan;

/// The most bytes that the shuttles to one process have on their way, unless it is one message; long messages count. A
/// letter that waits for a slow network keeps a copy of its message; the hub refuses letters above a limit of its own,
/// which this one keeps away.
pub(super) const BYTES_MAX: usize = 256 << 20;

/// The near end of a shuttle.
pub(crate) struct Outgoing {
    plan: ShuttlePlan,
    reader: SharedReader,
    slots: u64,
    /// The number of messages that the mirror has, as the far end has told.
    taken: Arc<AtomicU64>,
    /// The bytes that count of the messages from number `settled` on, which the mirror may not have.
    lengths: VecDeque<usize>,
    settled: u64,
}

/// The outcome of an attempt to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentMessage {
    /// No message is there, or the next one may not be sent yet.
    None,
    /// The message is longer than the caller wants to send.
    TooLong,
    /// The message was sent, and so many of its bytes count.
    Counted(usize),
}

/// The reason why a shuttle cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutgoingError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error("the other host says that it has {taken} messages, and {sent} were sent")]
    TakenTooMany { taken: u64, sent: u64 },
    #[error("{0}")]
    NotSent(String),
}

impl Outgoing {
    /// The end that reads a shared channel of this number of slots.
    pub(crate) fn new(plan: ShuttlePlan, reader: SharedReader, slots: u32) -> Self {
        Outgoing {
            plan,
            reader,
            slots: u64::from(slots),
            taken: Arc::default(),
            lengths: VecDeque::new(),
            settled: 0,
        }
    }

    /// The shuttle.
    pub(super) fn plan(&self) -> &ShuttlePlan {
        &self.plan
    }

    /// The word in which to note what the far end tells.
    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }

    /// Returns the bytes that have arrived since the last call.
    pub(super) fn settle(&mut self) -> Result<usize, OutgoingError> {
        // Relaxed: the number stands for itself; the ring of the doorbell orders it before the look.
        let (taken, sent) = (self.taken.load(Ordering::Relaxed), self.reader.position());
        if taken > sent {
            return Err(OutgoingError::TakenTooMany { taken, sent });
        }
        let mut bytes = 0;
        while self.settled < taken {
            bytes += self.lengths.pop_front().unwrap_or_default();
            self.settled += 1;
        }
        Ok(bytes)
    }

    /// Sends the next message, if it is there, the far end has room for it (`JOINT-1`), `room` bytes suffice, and it has `most`
    /// bytes or fewer.
    pub(super) fn send(
        &mut self,
        (room, most): (usize, usize),
        send: impl FnOnce(ProcessId, &Word, Bytes) -> Result<(), String>,
    ) -> Result<SentMessage, OutgoingError> {
        let number = self.reader.position();
        if number >= self.settled + self.slots || !self.reader.ready()? {
            return Ok(SentMessage::None);
        }
        let Some(message) = self.reader.current()? else {
            return Ok(SentMessage::None);
        };
        let (kind, bytes) = match &message {
            Ok(bytes) => (MessageKind::Value, *bytes),
            Err(fault) => (MessageKind::of(fault), fault.report()),
        };
        if bytes.len() > most {
            return Ok(SentMessage::TooLong);
        }
        let length = Some(bytes.len()).filter(|length| *length >= LONG_BYTES);
        let counted = length.unwrap_or_default();
        if counted > room && room < BYTES_MAX {
            return Ok(SentMessage::None);
        }
        let word = Word::Message {
            mirror: self.plan.mirror,
            number,
            kind,
        };
        let body = Correspondence::body_of(bytes).map_err(OutgoingError::NotSent)?;
        send(self.plan.to, &word, body).map_err(OutgoingError::NotSent)?;
        self.reader.release()?;
        self.lengths.push_back(counted);
        Ok(SentMessage::Counted(counted))
    }
}
