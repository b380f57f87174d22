//! Sessions: messages between two living incarnations, exactly once and in order, over links that promise nothing.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/session) of this folder has the states, the
//! invariants `SESSION-1` to `SESSION-6`, and the models that check them.

mod error;
mod incoming;
mod mutant;
mod outgoing;
mod settings;

#[cfg(test)]
mod model;

use std::ops::RangeInclusive;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

pub use error::{SessionError, WindowFull};
pub use settings::SessionSettings;

use crate::peer::Peer;
use incoming::Incoming;
use mutant::Mutant;
use outgoing::Outgoing;

/// The content of one frame of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content<M> {
    /// A message of class [`Ordered`](crate::frame::Class::Ordered), with its sequence number, from 1.
    Ordered(u64, M),
    /// A message of class [`Loose`](crate::frame::Class::Loose).
    Loose(M),
    /// Nothing but the acknowledgement.
    Acknowledgement,
}

impl<M> Content<M> {
    /// The message, if there is one.
    pub fn into_message(self) -> Option<M> {
        match self {
            Content::Ordered(_, message) | Content::Loose(message) => Some(message),
            Content::Acknowledgement => None,
        }
    }
}

/// One frame of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packet<M> {
    /// The last sequence number that the sender has delivered; 0 for none.
    pub acknowledged: u64,
    /// The content.
    pub content: Content<M>,
}

/// The fate of an ordered message that the peer has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The message was never handed to a link, so the peer has never seen it.
    NotSent,
    /// The message was handed to a link and not acknowledged: the peer may have seen it.
    Unknown,
}

/// Packets to write to the link: mostly one. If that fails, drop them and report [`Session::disconnected`].
pub type Packets<M> = SmallVec<[Packet<M>; 1]>;

/// The effects of a packet that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<M> {
    /// The sequence numbers of ordered messages that the peer's session has delivered; often none. Their services may not have acted
    /// on them.
    pub settled: RangeInclusive<u64>,
    /// The messages for their services, in order: mostly one.
    pub messages: SmallVec<[M; 1]>,
}

/// One side of a session. `M` is a message; clones are kept for retransmission, so a message is best an `Arc`.
///
/// All times are durations since any fixed moment; they must not go backwards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session<M> {
    local: Peer,
    remote: Peer,
    settings: SessionSettings,
    is_connected: bool,
    outgoing: Outgoing<M>,
    incoming: Incoming<M>,
    mutant: Mutant,
}

impl<M: Clone> Session<M> {
    /// A session between this incarnation and another one, before their first link.
    pub fn new(local: Peer, remote: Peer, settings: SessionSettings) -> Self {
        Session {
            local,
            remote,
            settings,
            is_connected: false,
            outgoing: Outgoing::new(settings),
            incoming: Incoming::new(settings),
            mutant: Mutant::None,
        }
    }

    /// The incarnation at this end.
    pub fn local(&self) -> Peer {
        self.local
    }

    /// The incarnation at the other end.
    pub fn remote(&self) -> Peer {
        self.remote
    }

    /// The number of ordered messages that are not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.outgoing.len()
    }

    /// The bytes of messages that have arrived behind a gap; at most [`SessionSettings::bytes_max`].
    pub fn early_bytes(&self) -> usize {
        self.incoming.early_bytes()
    }

    /// A link is up, and the handshake on it has named the process at its other end. All unacknowledged messages are
    /// sent again.
    ///
    /// # Errors
    /// [`SessionError::OtherPeer`]: the link leads to another incarnation. This session has to [end](Session::end), and
    /// another one begins.
    pub fn connected(&mut self, now: Duration, remote: Peer) -> Result<Packets<M>, SessionError> {
        if remote != self.remote {
            return Err(SessionError::OtherPeer {
                expected: self.remote,
                found: remote,
            });
        }
        self.is_connected = true;
        if self.mutant == Mutant::SequencePerLink {
            self.incoming = Incoming::new(self.settings);
        }
        self.outgoing.connected();
        Ok(self.resend(now, usize::MAX))
    }

    /// The link is down. Messages wait for the next one.
    pub fn disconnected(&mut self) {
        self.is_connected = false;
        self.outgoing.disconnected();
    }

    /// Sends an ordered message of `bytes` bytes. Returns its sequence number, under which its outcome is reported, and the packet
    /// if there is a link.
    ///
    /// # Errors
    /// [`WindowFull`] with the message: too many messages are unacknowledged. Send again after some are
    /// [settled](Received::settled).
    pub fn send(
        &mut self,
        now: Duration,
        message: M,
        bytes: usize,
    ) -> Result<(u64, Option<Packet<M>>), WindowFull<M>> {
        let sequence = self.outgoing.push(message, bytes)?;
        let packet = match self.is_connected {
            true => self.transmit(now, sequence),
            false => None,
        };
        Ok((sequence, packet))
    }

    /// Sends a loose message: now, or never if there is no link.
    pub fn send_loose(&mut self, message: M) -> Option<Packet<M>> {
        match self.is_connected {
            true => Some(self.packet(Content::Loose(message))),
            false => None,
        }
    }

    /// A packet of `bytes` bytes has arrived.
    ///
    /// # Errors
    /// [`SessionError::NeverSent`], [`SessionError::BeyondWindow`]: the peer violates the protocol. Nothing has changed;
    /// close the link and report the peer.
    pub fn received(
        &mut self,
        now: Duration,
        packet: Packet<M>,
        bytes: usize,
    ) -> Result<Received<M>, SessionError> {
        self.received_keeping(now, packet, bytes, drop)
    }

    /// [`received`](Self::received), which gives `spent` each message that the session needs no more, for a caller that holds a lock
    /// under which no message may be dropped.
    ///
    /// # Errors
    /// Those of [`received`](Self::received).
    pub fn received_keeping(
        &mut self,
        now: Duration,
        packet: Packet<M>,
        bytes: usize,
        mut spent: impl FnMut(M),
    ) -> Result<Received<M>, SessionError> {
        let checked = match &packet.content {
            Content::Ordered(sequence, _) => self.incoming.check(*sequence),
            Content::Loose(_) | Content::Acknowledgement => Ok(()),
        };
        let acknowledged = |()| self.outgoing.acknowledge(now, packet.acknowledged, &mut spent);
        let settled = match checked.and_then(acknowledged) {
            Ok(settled) => settled,
            Err(error) => {
                packet.content.into_message().into_iter().for_each(spent);
                return Err(error);
            }
        };
        let messages = match packet.content {
            Content::Ordered(sequence, message) => {
                self.incoming
                    .accept(now, sequence, message, bytes, self.mutant, spent)
            }
            Content::Loose(message) => smallvec![message],
            Content::Acknowledgement => SmallVec::new(),
        };
        Ok(Received { settled, messages })
    }

    /// Performs everything that is due at `now`. Call this at [`Session::deadline`], or earlier.
    pub fn tick(&mut self, now: Duration) -> Packets<M> {
        let mut packets = Packets::new();
        if !self.is_connected {
            return packets;
        }
        if self.outgoing.is_due(now) {
            self.outgoing.back_off();
            packets = self.resend(now, self.settings.resend_burst);
        }
        if self.incoming.is_due(now) {
            packets.push(self.packet(Content::Acknowledgement));
        }
        packets
    }

    /// Sends the acknowledgement that is owed, if one is, before its time: a receiver that has taken half the window calls
    /// this, so that a sender with nothing to receive does not wait.
    pub fn acknowledge(&mut self) -> Option<Packet<M>> {
        match self.is_connected && self.incoming.due().is_some() {
            true => Some(self.packet(Content::Acknowledgement)),
            false => None,
        }
    }

    /// The next moment at which something is due, if anything is.
    pub fn deadline(&self) -> Option<Duration> {
        let due = [self.outgoing.due(), self.incoming.due()];
        due.into_iter().flatten().min().filter(|_| self.is_connected)
    }

    /// Ends the session, because one of the two incarnations has died or was declared dead. Returns the outcome of each
    /// message that had none, in order.
    pub fn end(self) -> Vec<(u64, Outcome)> {
        self.end_keeping(drop)
    }

    /// [`end`](Self::end), which gives `spent` each message that the session has held.
    pub fn end_keeping(self, mut spent: impl FnMut(M)) -> Vec<(u64, Outcome)> {
        self.incoming.into_early().for_each(&mut spent);
        self.outgoing.end(self.mutant, spent)
    }

    fn resend(&mut self, now: Duration, most: usize) -> Packets<M> {
        let sequences = self.outgoing.unacknowledged().take(most);
        sequences
            .filter_map(|sequence| self.transmit(now, sequence))
            .collect()
    }

    fn transmit(&mut self, now: Duration, sequence: u64) -> Option<Packet<M>> {
        let message = self.outgoing.hand_over(now, sequence)?;
        Some(self.packet(Content::Ordered(sequence, message)))
    }

    /// A packet with the acknowledgement that is owed.
    fn packet(&mut self, content: Content<M>) -> Packet<M> {
        Packet {
            acknowledged: self.incoming.acknowledge(self.mutant),
            content,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::ProcessId;

    #[test]
    fn an_acknowledgement_is_sent_early_when_it_is_asked_for_and_once() {
        let me = ProcessId::HEAD.first_life();
        let mut session = Session::new(me, me, SessionSettings::default());
        let now = Duration::ZERO;
        session.connected(now, me).unwrap();
        assert_eq!(session.acknowledge(), None, "nothing is owed");
        let packet = Packet {
            acknowledged: 0,
            content: Content::Ordered(1, "message"),
        };
        session.received(now, packet, 7).unwrap();
        let acknowledgement = Packet {
            acknowledged: 1,
            content: Content::Acknowledgement,
        };
        assert_eq!(session.acknowledge(), Some(acknowledgement));
        assert_eq!((session.acknowledge(), session.deadline()), (None, None));
    }
}
