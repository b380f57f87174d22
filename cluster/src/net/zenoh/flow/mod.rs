//! A stream of bytes over packets that may be lost, repeated and reordered: both directions of one end, as functions over plain values.
//!
//! Each side cuts what it writes into fragments with numbers, keeps them until the peer has them, and sends those again that were
//! dropped. The peer says in each receipt which it has, and up to which number it takes more. So neither side holds more than
//! [`BYTES_MAX`] bytes of a direction, and a peer that does not read stops the writer and nobody else.
//!
//! The caller brings the time and carries the packets.
//!
//! - `FLOW-1`: bytes are read in the order in which they were written, each once, and the end after all of them.
//! - `FLOW-2`: a side holds at most 64 fragments, or 1 MiB, of each direction, whatever the peer sends.
//! - `FLOW-3`: while an answer is waited for there is a deadline. A peer that is silent for [`SILENCE_MAX`] then has lost the stream.
//! - `FLOW-4`: an orphan, a flow that this side neither reads nor writes any more, ends. Its peer has to take something within
//!   [`SILENCE_MAX`], whatever else it says, and one that was never heard is told the end once.

mod receiving;
mod round_trip;
mod sending;
mod window;

use std::time::Duration;

use receiving::ReceiveSide;
use sending::SendSide;

pub(super) use receiving::FlowRead;

use super::packet::{FRAGMENT_BYTES, FlowPacket};

/// The fragments of a direction that may be on their way, or wait to be read.
const FRAGMENTS: u64 = 64;
/// The bytes of a direction that a side holds at most.
const BYTES_MAX: usize = FRAGMENTS as usize * FRAGMENT_BYTES;
/// The time after which a peer that does not answer has lost the stream: longer than a router needs to start again.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Both directions of one end of a stream.
#[derive(Debug)]
pub(super) struct Flow {
    sending: SendSide,
    receiving: ReceiveSide,
    is_lost: bool,
    /// Whether a packet of the peer has arrived.
    has_heard: bool,
    /// Since when an answer is waited for.
    asked: Option<Duration>,
}

/// The reason that a flow takes no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotWritten {
    /// The peer reads no more, or this side has ended its direction.
    Ended,
    /// The stream is lost.
    Lost,
}

impl Flow {
    pub(super) fn new() -> Self {
        Flow {
            sending: SendSide::new(),
            receiving: ReceiveSide::new(),
            is_lost: false,
            has_heard: false,
            asked: None,
        }
    }

    /// Takes bytes as far as there is room, and returns their number: 0 if there is none.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, NotWritten> {
        match self.is_lost {
            true => Err(NotWritten::Lost),
            false if self.sending.is_refused() || self.sending.is_ended() => Err(NotWritten::Ended),
            false => Ok(self.sending.write(bytes)),
        }
    }

    /// Ends the direction in which this side writes.
    pub(super) fn end(&mut self) {
        self.sending.end();
    }

    /// Reads bytes into a buffer that is not empty. `None`: the stream is lost, and what has arrived before was read.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Option<FlowRead> {
        match self.receiving.read(buffer) {
            FlowRead::Nothing if self.is_lost => None,
            read => Some(read),
        }
    }

    /// Ends the reading of this side.
    pub(super) fn refuse(&mut self) {
        self.receiving.refuse();
    }

    /// The peer has no such stream any more. That is its end if nothing can be missing, and else its loss.
    pub(super) fn gone(&mut self) {
        match self.receiving.is_done() {
            true => {
                self.sending.refuse();
                self.sending.end();
            }
            false => self.lose(),
        }
    }

    /// The stream is lost.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Whether the flow needs its peer no more.
    pub(super) fn is_over(&self) -> bool {
        let is_done = self.sending.is_done() && self.receiving.is_done() && !self.receiving.owes();
        self.is_lost
            || is_done
            || (self.is_orphan() && !self.has_heard && self.sending.has_sent_only_the_end())
    }

    /// Whether this side neither reads nor writes any more.
    pub(super) fn is_orphan(&self) -> bool {
        self.sending.is_ended() && self.receiving.is_deaf()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// A packet of the peer.
    pub(super) fn receive(&mut self, packet: FlowPacket<'_>, now: Duration) {
        self.has_heard = true;
        let takes_more = self.sending.receive(&packet.receipt, now);
        if takes_more || !self.is_orphan() {
            self.asked = None;
        }
        if packet.asks {
            self.receiving.ask();
        }
        if let Some(fragment) = packet.fragment {
            self.receiving.receive(fragment);
        }
    }

    /// The way to the peer is there again.
    pub(super) fn resume(&mut self) {
        self.sending.resume();
    }

    /// Looks at what the time has brought. Call it before [`next`](Self::next).
    pub(super) fn tick(&mut self, now: Duration) {
        self.sending.tick(now);
        match (self.sending.is_asking(), self.asked) {
            (false, _) => self.asked = None,
            (true, None) => self.asked = Some(now),
            (true, Some(asked)) if asked + SILENCE_MAX <= now => self.lose(),
            (true, Some(_)) => {}
        }
    }

    /// The next packet that is to be sent now.
    pub(super) fn next(&mut self, now: Duration) -> Option<FlowPacket<'_>> {
        if self.is_lost {
            return None;
        }
        let asks = self.sending.take_ask();
        let fragment = self.sending.next(now);
        if !asks && fragment.is_none() && !self.receiving.owes() {
            return None;
        }
        Some(FlowPacket {
            receipt: self.receiving.receipt(),
            asks,
            fragment,
        })
    }

    /// The time at which this side has to look again, if no packet comes before.
    pub(super) fn deadline(&self) -> Option<Duration> {
        if self.is_lost {
            return None;
        }
        let lost = self.asked.map(|asked| asked + SILENCE_MAX);
        self.sending.deadline().into_iter().chain(lost).min()
    }

    /// Whether the peer waits for a receipt.
    pub(super) fn owes(&self) -> bool {
        self.receiving.owes()
    }

    /// Owes the peer a word, although there is nothing to say.
    pub(super) fn greet(&mut self) {
        self.receiving.ask();
    }
}

#[cfg(test)]
mod tests;
