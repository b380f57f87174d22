//! The far end of a shuttle: it writes the mirror of a channel.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::{ChannelError, Fault, OwnedLoan, SharedWriter};
use selvedge_core::{LentMemory, ProcessId};

use super::placed::WriterHome;
use super::word::{LONG_BYTES, MessageKind};
use crate::ir::ShuttlePlan;

/// A message that waits for a slot of the mirror.
struct WaitingMessage {
    kind: MessageKind,
    /// `None` if the message is in its slot already.
    body: Option<Bytes>,
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
    /// The address of the slot that was lent for that message.
    placed: Option<usize>,
}

/// The writer of the mirror.
struct MirrorEnd {
    /// `None` while the body of a letter has it.
    writer: Option<SharedWriter>,
    home: WriterHome,
    slots: usize,
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
    #[error("bug in selvedge, please report: a message has arrived in its slot, and the letter keeps it")]
    Kept,
}

impl Incoming {
    /// The end that writes a mirror.
    pub(crate) fn new(plan: &ShuttlePlan, writer: SharedWriter) -> Self {
        let slots = writer.slots();
        Incoming {
            from: plan.from,
            slots,
            arrivals: Mutex::new(Arrivals {
                waiting: VecDeque::new(),
                next: 0,
                placed: None,
            }),
            mirror: Mutex::new(MirrorEnd {
                writer: Some(writer),
                home: WriterHome::default(),
                slots,
                told: 0,
                is_long: false,
            }),
        }
    }

    /// The process of the near end.
    pub(super) fn from(&self) -> ProcessId {
        self.from
    }

    /// The slot of a value of so many bytes that a process has begun to send, as memory for its body. `None` if other messages come before
    /// it in the mirror, or if the mirror has no slot for it now: then it arrives elsewhere and is copied.
    pub(super) fn lend(&self, from: ProcessId, number: u64, bytes: usize) -> Option<Box<dyn LentMemory>> {
        if from != self.from {
            return None;
        }
        {
            let mut arrivals = self.arrivals.lock();
            // What was lent before, for a message that begins again, is lent no more.
            arrivals.placed = None;
            if number != arrivals.next || !arrivals.waiting.is_empty() {
                return None;
            }
        }
        // Whoever copies a message that comes before holds the mirror.
        let (address, memory) = self.mirror.try_lock()?.lend(bytes)?;
        self.arrivals.lock().placed = Some(address);
        Some(memory)
    }

    /// Takes a message of a process. Returns whether it is in its slot already.
    pub(super) fn take(
        &self,
        from: ProcessId,
        number: u64,
        kind: MessageKind,
        body: Bytes,
    ) -> Result<bool, IncomingError> {
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
        // An address is no word of the other process's: that may send the same number twice, with a body elsewhere.
        let is_placed = arrivals.placed.take() == Some(body.as_ptr().addr());
        let body = Some(body).filter(|_| !is_placed);
        arrivals.waiting.push_back(WaitingMessage { kind, body });
        Ok(is_placed)
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
        while let Some(message) = self.next_to_write(mirror, &mut flushed.waits)? {
            flushed.moved |= mirror.write(&message)?;
            // Whoever takes a message meanwhile finds that this thread holds the mirror, and sees to it.
            if !flushed.waits {
                break;
            }
        }
        flushed.taken = mirror.taken();
        Ok(flushed)
    }

    /// Takes the next message out, if it can be written now. Notes whether messages wait besides.
    fn next_to_write(
        &self,
        mirror: &mut MirrorEnd,
        others_wait: &mut bool,
    ) -> Result<Option<WaitingMessage>, ChannelError> {
        let mut arrivals = self.arrivals.lock();
        let is_ready = match arrivals.waiting.front().map(|next| &next.body) {
            None => false,
            // It is in its slot.
            Some(None) => true,
            Some(Some(_)) => match mirror.writer() {
                Some(writer) => writer.has_space()?,
                None => false,
            },
        };
        let next = arrivals.waiting.pop_front_if(|_| is_ready);
        *others_wait = !arrivals.waiting.is_empty();
        Ok(next)
    }
}

impl MirrorEnd {
    /// The writer, unless the body of a letter has it.
    fn writer(&mut self) -> Option<&mut SharedWriter> {
        if self.writer.is_none() {
            self.writer = self.home.take().map(OwnedLoan::give_back);
        }
        self.writer.as_mut()
    }

    /// Lends the next slot, if it is free.
    fn lend(&mut self, bytes: usize) -> Option<(usize, Box<dyn LentMemory>)> {
        self.writer()?;
        match self.home.lend(self.writer.take()?, bytes) {
            Ok(lent) => Some(lent),
            Err(writer) => {
                self.writer = Some(writer);
                None
            }
        }
    }

    /// Writes a message into a free slot.
    fn write(&mut self, message: &WaitingMessage) -> Result<bool, IncomingError> {
        let Some(body) = &message.body else {
            return self.publish();
        };
        self.is_long |= body.len() >= LONG_BYTES;
        let Some(writer) = self.writer() else {
            return Ok(false);
        };
        Ok(match message.kind {
            MessageKind::Value => writer.try_write_bytes(body)?,
            MessageKind::Failed => writer.try_write_fault(&Fault::failed(body.to_vec(), None))?,
            MessageKind::Cancelled => writer.try_write_fault(&Fault::cancelled())?,
        })
    }

    /// Publishes the message that has arrived in its slot.
    fn publish(&mut self) -> Result<bool, IncomingError> {
        let loan = self.home.take().ok_or(IncomingError::Kept)?;
        self.is_long = true;
        let (writer, published) = loan.publish();
        self.writer = Some(writer);
        published?;
        Ok(true)
    }

    /// The number of messages of the mirror, if the near end has to be told: when half of the slots were filled since the
    /// last time, or a long message has come. So the near end never waits for a letter that is not on its way.
    fn taken(&mut self) -> Option<u64> {
        let messages = self.writer.as_ref()?.position();
        let enough = (self.slots as u64).div_ceil(2);
        if messages - self.told < enough && !self.is_long {
            return None;
        }
        (self.told, self.is_long) = (messages, false);
        Some(messages)
    }
}
