//! The near end of a shuttle: it reads a shared channel, and sends what it reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::payload::EncodedSegments;
use selvedge_channels::{Bypass, ChannelError, SharedReader};
use selvedge_core::{Body, Correspondence, ProcessId};

use super::lent::{Home, Told};
use super::word::{LONG_BYTES, MessageKind, Word};
use crate::ir::ShuttlePlan;

/// The most bytes that the shuttles to one process have on their way, unless it is one message; long messages count. A
/// letter that waits for a slow network keeps a copy of its message; the hub refuses letters above a limit of its own,
/// which this one keeps away.
pub(super) const BYTES_MAX: usize = 256 << 20;

/// The length in bytes of the shortest message that is sent from its slot. A shorter one is copied, so that its slot is free at once
/// and the next message follows it.
const LENT_MIN: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };

/// The near end of a shuttle.
pub(crate) struct Outgoing {
    plan: ShuttlePlan,
    /// `None` while the body of a letter has it.
    reader: Option<SharedReader>,
    home: Home,
    /// Long values come by it, if the shuttle is the only reader.
    bypass: Option<Bypass>,
    /// The number of messages that were sent.
    sent: u64,
    /// Whether a message could not be sent.
    is_broken: bool,
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
    /// The end that reads a shared channel of this number of slots. The joint's thread is told when a slot that was lent is back.
    pub(crate) fn new(
        plan: ShuttlePlan,
        reader: SharedReader,
        slots: u32,
        told: Told,
        bypass: Option<Bypass>,
    ) -> Self {
        Outgoing {
            plan,
            reader: Some(reader),
            home: Home::new(told),
            bypass,
            sent: 0,
            is_broken: false,
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

    /// Nothing is sent any more: drops the values that have come by the bypass.
    pub(super) fn end(&self) {
        self.bypass.iter().for_each(Bypass::close);
    }

    /// Returns the bytes that have arrived since the last call.
    pub(super) fn settle(&mut self) -> Result<usize, OutgoingError> {
        // Relaxed: the number stands for itself; the ring of the doorbell orders it before the look.
        let (taken, sent) = (self.taken.load(Ordering::Relaxed), self.sent);
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
        send: impl FnOnce(ProcessId, &Word, Body) -> Result<(), String>,
    ) -> Result<SentMessage, OutgoingError> {
        if self.is_broken || self.sent >= self.settled + self.slots {
            return Ok(SentMessage::None);
        }
        let Some((kind, length)) = self.next()? else {
            return Ok(SentMessage::None);
        };
        if length > most {
            return Ok(SentMessage::TooLong);
        }
        let counted = Some(length)
            .filter(|length| *length >= LONG_BYTES)
            .unwrap_or_default();
        if counted > room && room < BYTES_MAX {
            return Ok(SentMessage::None);
        }
        let word = Word::Message {
            mirror: self.plan.mirror,
            number: self.sent,
            kind,
        };
        // A message that was not sent is not followed by another one under its number.
        self.is_broken = true;
        let body = self.body(kind, length)?;
        send(self.plan.to, &word, body).map_err(OutgoingError::NotSent)?;
        self.is_broken = false;
        self.sent += 1;
        self.lengths.push_back(counted);
        Ok(SentMessage::Counted(counted))
    }

    /// The kind and the length of the next message, if it is there.
    fn next(&mut self) -> Result<Option<(MessageKind, usize)>, OutgoingError> {
        if let Some(mut back) = self.home.take() {
            back.release()?;
            self.reader = Some(back);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        let length = match reader.current()? {
            None => return Ok(None),
            Some(Err(fault)) => return Ok(Some((MessageKind::of(&fault), fault.report().len()))),
            Some(Ok([])) => {
                let number = reader.position();
                let beside = self.bypass.as_ref().and_then(|bypass| bypass.len_of(number));
                beside.unwrap_or_default()
            }
            Some(Ok(bytes)) => bytes.len(),
        };
        Ok(Some((MessageKind::Value, length)))
    }

    /// The body of the message that `next` has found: what has come by the bypass, its slot if it is long, and else a copy.
    fn body(&mut self, kind: MessageKind, length: usize) -> Result<Body, OutgoingError> {
        let beside = self.take_beside();
        if beside.is_none()
            && kind == MessageKind::Value
            && length >= LENT_MIN
            && let Some(reader) = self.reader.take()
        {
            return Ok(self.home.lend(reader).into());
        }
        let Some(reader) = &mut self.reader else {
            return Ok(Body::default());
        };
        let body = match (beside, reader.seen()?) {
            (Some(segments), _) => Ok(segments.into()),
            (None, Ok(bytes)) => Correspondence::body_of(bytes),
            (None, Err(fault)) => Correspondence::body_of(fault.report()),
        };
        reader.release()?;
        body.map_err(OutgoingError::NotSent)
    }

    /// Takes the value of the message in hand, if it has come by the bypass.
    fn take_beside(&self) -> Option<EncodedSegments> {
        let (bypass, reader) = (self.bypass.as_ref()?, self.reader.as_ref()?);
        match reader.seen() {
            Ok(Ok([])) => bypass.take(reader.position()),
            _ => None,
        }
    }
}
