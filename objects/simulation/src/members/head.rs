//! The head, as it serves the agents of hosts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::membership::{Change, MemberEvent, Members, Notice, Refusal, WhyDead};
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_cluster::session::{Packet, Session, SessionSettings};

use super::host::{Frame, Message, Welcome};
use super::setting::MemberSetting;

/// The head's name.
pub const HEAD: Peer = Peer {
    process: ProcessId::HEAD,
    incarnation: Incarnation(1),
};

/// The head of a simulated cluster.
pub struct Head {
    /// The membership.
    pub members: Members,
    setting: MemberSetting,
    agents: BTreeMap<u32, Agent>,
    /// Notices that no bundle has yet.
    pending: Vec<Notice>,
    /// The hosts to whose agents something is to be sent, or was sent and is not acknowledged.
    due: BTreeSet<u32>,
    /// Deaths since the last look.
    deaths: Vec<(Peer, WhyDead)>,
}

/// An agent, as the head knows it.
struct Agent {
    me: Peer,
    workers: Vec<Peer>,
    session: Session<Message>,
    /// Bundles that the session's window has no room for.
    waiting: VecDeque<Message>,
    start: u64,
    welcome: Arc<Welcome>,
}

impl Head {
    /// The head of a new cluster.
    pub fn new(setting: MemberSetting) -> Self {
        Head {
            members: Members::new(setting.times),
            setting,
            agents: BTreeMap::new(),
            pending: Vec::new(),
            due: BTreeSet::new(),
            deaths: Vec::new(),
        }
    }

    /// The deaths since the last call.
    pub fn take_deaths(&mut self) -> Vec<(Peer, WhyDead)> {
        std::mem::take(&mut self.deaths)
    }

    /// Whether all members were told of all changes as far as the head can tell.
    pub fn is_settled(&self) -> bool {
        let is_idle = |agent: &Agent| agent.waiting.is_empty() && agent.session.in_flight() == 0;
        self.pending.is_empty() && self.agents.values().all(is_idle)
    }

    /// A frame of a host has arrived. Returns the frames to answer with.
    pub fn receive(&mut self, now: Duration, host: u32, frame: Frame) -> Vec<Frame> {
        match frame {
            Frame::Dial(process, start) => self.dialled(now, host, process, start),
            Frame::Packet(from, packet) => self.packet(now, host, from, packet),
            Frame::Welcome(..) | Frame::Buried(_) => Vec::new(),
        }
    }

    /// The address of a host refuses links: its agent is dead.
    pub fn refused(&mut self, host: u32) {
        if let Some(me) = self.agents.get(&host).map(|agent| agent.me) {
            let events = self.members.died(me, WhyDead::Refused);
            self.note(events);
        }
    }

    /// Buries the silent.
    pub fn tick(&mut self, now: Duration) {
        let events = self.members.tick(now);
        self.note(events);
    }

    /// Sends a sign of life to all agents, and what is due in the session of each.
    pub fn heartbeats(&mut self) -> Vec<(u32, Frame)> {
        let beat = |(host, agent): (&u32, &mut Agent)| {
            let packet = agent.session.send_loose(Message::Heartbeat)?;
            Some((*host, Frame::Packet(agent.me, packet)))
        };
        self.agents.iter_mut().filter_map(beat).collect()
    }

    /// Sends the notices that have come together.
    pub fn flush(&mut self, now: Duration) -> Vec<(u32, Frame)> {
        if !self.pending.is_empty() {
            let bundle: Arc<[Notice]> = std::mem::take(&mut self.pending).into();
            for agent in self.agents.values_mut() {
                agent.waiting.push_back(Message::Notices(Arc::clone(&bundle)));
            }
            self.due.extend(self.agents.keys());
        }
        let hosts = std::mem::take(&mut self.due);
        hosts
            .into_iter()
            .flat_map(|host| self.session_tick(now, host))
            .collect()
    }

    fn session_tick(&mut self, now: Duration, host: u32) -> Vec<(u32, Frame)> {
        let Some(agent) = self.agents.get_mut(&host) else {
            return Vec::new();
        };
        let mut packets = agent.session.tick(now);
        while let Some(message) = agent.waiting.pop_front() {
            match agent.session.send(now, message, 1) {
                Ok((_, packet)) => packets.extend(packet),
                Err(full) => {
                    agent.waiting.push_front(full.message);
                    break;
                }
            }
        }
        if agent.session.deadline().is_some() || !agent.waiting.is_empty() {
            self.due.insert(host);
        }
        let me = agent.me;
        packets
            .into_iter()
            .map(|packet| (host, Frame::Packet(me, packet)))
            .collect()
    }

    fn dialled(&mut self, now: Duration, host: u32, process: Option<ProcessId>, start: u64) -> Vec<Frame> {
        if let Some(agent) = self.agents.get(&host)
            && agent.start == start
        {
            return vec![Frame::Welcome(start, Arc::clone(&agent.welcome))];
        }
        let admitted = match process {
            None => self.members.admit(now, None),
            Some(process) => self.restart(now, process),
        };
        let Ok((me, event)) = admitted else {
            return Vec::new();
        };
        self.note([event]);
        let before = self
            .agents
            .remove(&host)
            .map(|agent| agent.workers)
            .unwrap_or_default();
        let workers = self.workers(now, me, &before);
        let welcome = Arc::new(Welcome {
            you: me,
            workers: workers.clone(),
            epoch: self.members.epoch(),
            members: self.members.members().collect(),
        });
        let mut session = Session::new(HEAD, me, SessionSettings::default());
        // The link is to the agent that has dialled.
        let _ = session.connected(now, me);
        let agent = Agent {
            me,
            workers,
            session,
            waiting: VecDeque::new(),
            start,
            welcome: Arc::clone(&welcome),
        };
        self.agents.insert(host, agent);
        vec![Frame::Welcome(start, welcome)]
    }

    /// The next life of a process. It was started again, so the one before is dead, whether somebody has told so or not.
    fn restart(&mut self, now: Duration, process: ProcessId) -> Result<(Peer, MemberEvent), Refusal> {
        let first = self.members.restart(now, process, None);
        let Err(Refusal::StillAlive(peer)) = first else {
            return first;
        };
        let events = self.members.died(peer, WhyDead::Ended);
        self.note(events);
        self.members.restart(now, process, None)
    }

    /// Lets the workers of a host join, in their next lives if they have had some.
    fn workers(&mut self, now: Duration, agent: Peer, before: &[Peer]) -> Vec<Peer> {
        let mut workers = Vec::new();
        for place in 0..self.setting.workers as usize {
            let joined = match before.get(place) {
                None => self.members.admit(now, Some(agent)),
                Some(worker) => self.members.restart(now, worker.process, Some(agent)),
            };
            if let Ok((worker, event)) = joined {
                self.note([event]);
                workers.push(worker);
            }
        }
        workers
    }

    fn packet(&mut self, now: Duration, host: u32, from: Peer, packet: Packet<Message>) -> Vec<Frame> {
        let Ok(recovered) = self.members.heard(now, from) else {
            return vec![Frame::Buried(from)];
        };
        self.note(recovered);
        self.due.insert(host);
        let Some(agent) = self.agents.get_mut(&host).filter(|agent| agent.me == from) else {
            return Vec::new();
        };
        let Ok(received) = agent.session.received(now, packet, 1) else {
            return Vec::new();
        };
        for message in received.messages {
            match message {
                Message::Ended(worker) => {
                    let events = self.members.died(worker, WhyDead::Ended);
                    self.note(events);
                }
                Message::Start(process) => {
                    if let Ok((_, event)) = self.members.restart(now, process, Some(from)) {
                        self.note([event]);
                    }
                }
                Message::Heartbeat | Message::Notices(_) => {}
            }
        }
        Vec::new()
    }

    fn note(&mut self, events: impl IntoIterator<Item = MemberEvent>) {
        for event in events {
            if let MemberEvent::Changed(notice) = event {
                if let Change::Died(why) = notice.change {
                    self.deaths.push((notice.peer, why));
                }
                self.pending.push(notice);
            }
        }
    }
}
