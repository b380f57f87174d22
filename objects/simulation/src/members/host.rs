//! A host: its agent, as a member of the cluster.

use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::membership::{Contact, ContactStep, MemberSettings, Notice, View};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::{Packet, Packets, Session, SessionSettings};

/// A message between the head and an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The sender lives.
    Heartbeat,
    /// A worker of the agent has ended.
    Ended(Peer),
    /// A worker of this number starts again.
    Start(ProcessId),
    /// Changes of the membership.
    Notices(Arc<[Notice]>),
}

/// A frame between the head and an agent.
#[derive(Clone, Debug)]
pub enum Frame {
    /// The agent wants to join: as a new process, or in the next life of one. The number tells the dials of one start from those
    /// of another.
    Dial(Option<ProcessId>, u64),
    /// The answer to a dial of this number: the agent's name, those of its workers, and the membership after so many changes.
    Welcome(u64, Arc<Welcome>),
    /// A packet of the session with this agent.
    Packet(Peer, Packet<Message>),
    /// This incarnation was declared dead.
    Buried(Peer),
}

/// The head's answer to an agent that joins.
#[derive(Debug)]
pub struct Welcome {
    /// The agent's name.
    pub you: Peer,
    /// The names of its workers.
    pub workers: Vec<Peer>,
    /// The number of changes so far.
    pub epoch: u64,
    /// The members.
    pub members: Vec<Peer>,
}

/// A host and its agent.
#[derive(Debug, Default)]
pub struct Host {
    /// The number of its agent's start.
    pub start: u64,
    /// The agent's process, once it has one.
    pub process: Option<ProcessId>,
    /// The names of its workers.
    pub workers: Vec<Peer>,
    /// `None` until the agent is welcomed.
    pub member: Option<Member>,
    /// The end of the time for which it stands still.
    pub still_until: Duration,
    /// The moment since which the head hears nothing of it: it stands still, is cut off, or its agent was killed.
    pub mute_since: Option<Duration>,
    /// Whether the host is cut off from the head.
    pub is_cut: bool,
    /// Whether the host's agent runs.
    pub runs: bool,
}

/// An agent that was welcomed.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub me: Peer,
    /// The membership as it was told.
    pub view: View,
    /// Its contact with the head.
    pub contact: Contact,
    /// Its session with the head.
    pub session: Session<Message>,
}

impl Member {
    /// The agent that a welcome names.
    pub fn new(now: Duration, welcome: &Welcome, head: Peer, times: MemberSettings) -> Self {
        let mut session = Session::new(welcome.you, head, SessionSettings::default());
        // The link is to the head, which the welcome has come from.
        let _ = session.connected(now, head);
        Member {
            me: welcome.you,
            view: View::new(welcome.epoch, &welcome.members),
            contact: Contact::new(now, times),
            session,
        }
    }

    /// A packet of the head. `None` if it breaks the protocol, or if notices were missing.
    pub fn receive(&mut self, now: Duration, packet: Packet<Message>) -> Option<()> {
        self.contact.heard(now);
        let received = self.session.received(now, packet, 1).ok()?;
        for message in received.messages {
            if let Message::Notices(notices) = message {
                for notice in notices.iter() {
                    self.view.apply(notice).ok()?;
                }
            }
        }
        Some(())
    }

    /// Performs what is due. Returns the packets to send; `None` if the head was silent for too long.
    pub fn tick(&mut self, now: Duration) -> Option<Packets<Message>> {
        let mut packets = self.session.tick(now);
        match self.contact.step(now) {
            ContactStep::Orphaned(_) => return None,
            ContactStep::Heartbeat => packets.extend(self.session.send_loose(Message::Heartbeat)),
            ContactStep::Wait => {}
        }
        if !packets.is_empty() {
            self.contact.said(now);
        }
        Some(packets)
    }

    /// The next moment at which something is due.
    pub fn deadline(&self) -> Duration {
        let contact = self.contact.deadline();
        self.session.deadline().map_or(contact, |due| due.min(contact))
    }
}
