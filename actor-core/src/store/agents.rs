//! The agents of hosts: the processes that have the hosts' stores.
//!
//! The process that made the runtime is the agent of its own host, and names those of others: the first process of a host that asks,
//! and after its death the next one that does. So all agree, and a host without large objects has no store.

use std::io::ErrorKind;
use std::sync::Arc;

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::store::StoreEvent;

use super::message::StoreMessage;
use super::options::StoreOptions;
use super::stores::Stores;
use crate::platform::process_end::WatchedProcess;

/// A continuation for when the agent is known; `None` if this process can use no store. Runs no user code.
type ThenAgent = Box<dyn FnOnce(Option<Peer>) + Send>;

/// The agents that a process knows.
#[derive(Default)]
pub(super) struct AgentTable {
    /// The agent of this host.
    known: Option<Peer>,
    /// The waiters for the answer to the open question; empty, if none is open.
    waiting: Vec<ThenAgent>,
    /// Processes that are dead for this one, or that it cannot reach.
    gone: LastLives,
    /// The agents of other hosts, each with its host. Only the process that made the runtime has them.
    of_hosts: IdMap<Peer, String>,
    /// The processes of this host that use the store of this one and whose ends this one watches itself, each until it is dead and has
    /// ended.
    entered: IdMap<Peer, UserEnd>,
    watched: Vec<WatchedPeers>,
    /// The number of the last of these.
    last_watched: u64,
}

/// The end of a process that uses the store of this one: it may count as dead and still run, or have ended and count as living.
#[derive(Clone, Copy, Default)]
struct UserEnd {
    is_dead: bool,
    has_ended: bool,
}

impl AgentTable {
    /// Notes a part of the end of a process. After both nothing comes of it any more, so nothing is kept of it.
    fn note_end(&mut self, peer: Peer, note: impl FnOnce(&mut UserEnd)) {
        if let Some(end) = self.entered.get_mut(&peer) {
            note(end);
            if end.is_dead && end.has_ended {
                self.entered.remove(&peer);
            }
        }
    }
}

/// A process of this host and the peers that it is or was, one after the other: jobs of one process may come and go.
struct WatchedPeers {
    number: u64,
    pid: u32,
    process: WatchedProcess,
    peers: Vec<Peer>,
}

impl Stores {
    /// The agent of this host, if it is known without a question: outside, whether it is.
    pub(super) fn known_agent(&self) -> Option<Option<Peer>> {
        let me = self.post().me();
        if me.process == ProcessId::HEAD {
            return Some(Some(me));
        }
        let head = self.post().peer(ProcessId::HEAD);
        if let Some(head) = head.filter(|head| self.post().is_near(*head)) {
            return Some(Some(head));
        }
        if head.is_none() {
            return Some(None);
        }
        if let Some(known) = self.agents.lock().known {
            return Some(Some(known));
        }
        // Last: to find the host's name takes two system calls or more.
        self.post().host().is_none().then_some(None)
    }

    /// Does something once the agent of this host is known.
    pub(super) fn with_agent(&self, then: impl FnOnce(Option<Peer>) + Send + 'static) {
        if let Some(known) = self.known_agent() {
            return then(known);
        }
        let mut agents = self.agents.lock();
        if let Some(known) = agents.known {
            drop(agents);
            return then(Some(known));
        }
        let is_asked = !agents.waiting.is_empty();
        agents.waiting.push(Box::new(then));
        drop(agents);
        if is_asked {
            return;
        }
        let (head, host) = (self.post().peer(ProcessId::HEAD), self.post().host());
        let asked = head.zip(host).is_some_and(|(head, host)| {
            let question = StoreMessage::FindAgent { host };
            self.say(head, &question).is_ok()
        });
        if !asked {
            self.agent_found(None);
        }
    }

    /// A process asks for the agent of its host.
    pub(super) fn find_agent(&self, from: Peer, host: String) {
        let me = self.post().me();
        if me.process != ProcessId::HEAD {
            let why = "it asks a worker for the agent of its host".to_owned();
            return self.post().cut(from, why);
        }
        let agent = match self.post().host().as_ref() == Some(&host) {
            true => me,
            false => {
                let mut agents = self.agents.lock();
                let known = agents.of_hosts.get(&from);
                if known.is_some_and(|known| *known != host) {
                    drop(agents);
                    let why = "it says to be on two hosts".to_owned();
                    return self.post().cut(from, why);
                }
                let known = agents.of_hosts.iter().find(|(_, known)| **known == host);
                let known = known.map(|(agent, _)| *agent);
                known.unwrap_or_else(|| {
                    agents.of_hosts.insert(from, host);
                    from
                })
            }
        };
        let options = self.options();
        let sent = self.say(from, &StoreMessage::Agent { agent, options });
        self.post().told(from, sent);
    }

    /// The process that made the runtime says which process is the agent of this host.
    pub(super) fn agent_is(&self, from: Peer, agent: Peer, options: StoreOptions) {
        if from.process != ProcessId::HEAD {
            let why = "it says which process is an agent, and did not make the runtime".to_owned();
            return self.post().cut(from, why);
        }
        let me = self.post().me();
        if agent == me {
            self.set_options(options);
        } else {
            let pid = std::process::id();
            // Before all questions. One that cannot be told counts as dead.
            if self.say(agent, &StoreMessage::Enter { pid }).is_err() {
                return self.agent_found(None);
            }
        }
        self.agent_found(Some(agent));
    }

    fn agent_found(&self, agent: Option<Peer>) {
        let mut agents = self.agents.lock();
        let agent = agent.filter(|agent| !agents.gone.has(*agent));
        agents.known = agent;
        let waiting = std::mem::take(&mut agents.waiting);
        drop(agents);
        waiting.into_iter().for_each(|then| then(agent));
    }

    /// A process of this host uses the store of this one from now on. What it maps is its own until its process has ended, also if it
    /// counts as dead before.
    pub(super) fn entered(self: &Arc<Self>, from: Peer, pid: u32) {
        let mut agents = self.agents.lock();
        if agents.entered.contains_key(&from) {
            return;
        }
        agents.entered.insert(from, UserEnd::default());
        let known = agents.watched.iter_mut().find(|watched| watched.pid == pid);
        if let Some(known) = known.filter(|known| !known.process.has_ended()) {
            return known.peers.push(from);
        }
        let process = match WatchedProcess::find(pid) {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                drop(agents);
                return self.has_ended(from);
            }
            // Nobody knows when it ends, so it may lend nothing.
            Err(_) => {
                agents.entered.remove(&from);
                return;
            }
        };
        agents.last_watched += 1;
        let number = agents.last_watched;
        agents.watched.push(WatchedPeers {
            number,
            pid,
            process: process.clone(),
            peers: vec![from],
        });
        drop(agents);
        let this = Arc::downgrade(self);
        let watching = self.post().spawn(Box::pin(async move {
            let has_ended = process.ended().await.is_ok();
            if let Some(this) = this.upgrade() {
                this.watched(number, has_ended);
            }
        }));
        if !watching {
            self.watched(number, false);
        }
    }

    /// A watch is over: its process has ended, or else cannot be watched, and may lend nothing.
    fn watched(&self, number: u64, has_ended: bool) {
        let mut agents = self.agents.lock();
        let of_number = |watched: &mut WatchedPeers| watched.number == number;
        let over: Vec<_> = agents.watched.extract_if(.., of_number).collect();
        let peers: Vec<Peer> = over.into_iter().flat_map(|watched| watched.peers).collect();
        if has_ended {
            drop(agents);
            peers.into_iter().for_each(|peer| self.has_ended(peer));
        } else {
            peers.iter().for_each(|peer| _ = agents.entered.remove(peer));
        }
    }

    fn has_ended(&self, peer: Peer) {
        self.own_event(StoreEvent::Ended(peer));
        self.agents.lock().note_end(peer, |end| end.has_ended = true);
    }

    /// A process is dead that may use the store of this one.
    pub(super) fn user_died(&self, peer: Peer) {
        self.own_event(StoreEvent::Dead(peer));
        self.agents.lock().note_end(peer, |end| end.is_dead = true);
    }

    /// Whether a process may use the store of this one.
    pub(super) fn is_of_host(&self, peer: Peer) -> bool {
        self.post().is_near(peer) || self.is_watched(peer)
    }

    /// Whether this process sees the end of another one itself.
    pub(super) fn is_watched(&self, peer: Peer) -> bool {
        self.agents.lock().entered.contains_key(&peer)
    }

    /// A peer is dead: if it was an agent, the next process of its host that asks is one.
    pub(super) fn agent_died(&self, peer: Peer) {
        let mut agents = self.agents.lock();
        agents.of_hosts.remove(&peer);
        if peer.process == ProcessId::HEAD || agents.known == Some(peer) {
            agents.known = None;
        }
        agents.gone.note(peer);
        drop(agents);
        // Its answer does not come any more.
        if peer.process == ProcessId::HEAD {
            self.agent_found(None);
        }
    }
}
