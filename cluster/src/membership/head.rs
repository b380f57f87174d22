//! The head's table of members.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::Refusal;
use super::mutant::MemberMutant;
use super::notice::{Change, Notice, WhyDead};
use super::settings::MemberSettings;
use crate::peer::{Incarnation, Peer, ProcessId};

/// The members, as the head decides. No other process decides about any of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members {
    settings: MemberSettings,
    epoch: u64,
    /// The number of the next new process.
    next: u32,
    /// The last life of each process that has joined and was not removed.
    lives: BTreeMap<ProcessId, Life>,
    pub(super) mutant: MemberMutant,
}

/// The last life of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Life {
    incarnation: Incarnation,
    /// `None` once it is dead.
    living: Option<Living>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Living {
    watch: Watch,
    is_suspected: bool,
}

/// The process that watches a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    /// The head itself, which has heard of it last at this moment.
    Head(Duration),
    /// The agent of its host. It is as silent as its agent.
    Agent(ProcessId),
    /// No process: this is the head.
    Nobody,
}

/// A conclusion of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberEvent {
    /// The membership has changed: tell all members, the one that has died as well if a link to it stands.
    Changed(Notice),
    /// Nothing was heard of a member for half the time after which it is dead.
    Suspected(Peer),
    /// A suspected member was heard again.
    Recovered(Peer),
}

impl Members {
    /// The membership of a new cluster: the head, in its first life.
    pub fn new(settings: MemberSettings) -> Self {
        let head = Life {
            incarnation: Incarnation(1),
            living: Some(Living::new(Watch::Nobody)),
        };
        Members {
            settings,
            epoch: 0,
            next: 2,
            lives: BTreeMap::from([(ProcessId::HEAD, head)]),
            mutant: MemberMutant::None,
        }
    }

    /// The number of changes so far.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The members in the order of their numbers, the head first.
    pub fn members(&self) -> impl Iterator<Item = Peer> {
        self.alive().map(|(peer, _)| peer)
    }

    /// Whether this incarnation is a member.
    pub fn is_member(&self, peer: Peer) -> bool {
        self.living(peer).is_some()
    }

    /// Admits a new process under the next number. With an agent, which is a member, that process watches it; the head
    /// does otherwise.
    ///
    /// # Errors
    /// [`Refusal::NoAgent`], [`Refusal::NoNumbers`].
    pub fn admit(&mut self, now: Duration, agent: Option<Peer>) -> Result<(Peer, MemberEvent), Refusal> {
        let watch = self.watch(now, agent)?;
        let process = ProcessId::new(self.next).ok_or(Refusal::NoNumbers)?;
        self.next = self.next.checked_add(1).unwrap_or(0);
        let incarnation = Incarnation(1);
        let peer = Peer { process, incarnation };
        Ok((peer, self.join(peer, watch)))
    }

    /// Admits the next life of a process that is dead and was not removed.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::StillAlive`], [`Refusal::NoAgent`], [`Refusal::NoNumbers`].
    pub fn restart(
        &mut self,
        now: Duration,
        process: ProcessId,
        agent: Option<Peer>,
    ) -> Result<(Peer, MemberEvent), Refusal> {
        let watch = self.watch(now, agent)?;
        let life = self.lives.get(&process).ok_or(Refusal::Unknown(process))?;
        let Incarnation(last) = life.incarnation;
        if life.living.is_some() {
            let incarnation = life.incarnation;
            return Err(Refusal::StillAlive(Peer { process, incarnation }));
        }
        let incarnation = Incarnation(last.checked_add(1).ok_or(Refusal::NoNumbers)?);
        let peer = Peer { process, incarnation };
        Ok((peer, self.join(peer, watch)))
    }

    /// Holds a process that dials again, and says who it is, against the membership. Its handshake has succeeded.
    ///
    /// # Errors
    /// [`Refusal::Buried`]: it was declared dead; it has to end. [`Refusal::Unknown`].
    pub fn readmit(&mut self, now: Duration, peer: Peer) -> Result<Option<MemberEvent>, Refusal> {
        if self.mutant == MemberMutant::Resurrects {
            let watch = Watch::Head(now);
            let is_dead = self
                .lives
                .get(&peer.process)
                .is_some_and(|life| life.living.is_none());
            return Ok(is_dead.then(|| self.join(peer, watch)));
        }
        self.heard(now, peer)
    }

    /// A frame of a process has arrived.
    ///
    /// # Errors
    /// [`Refusal::Buried`], [`Refusal::Unknown`]: do not act on the frame, and close the link.
    pub fn heard(&mut self, now: Duration, peer: Peer) -> Result<Option<MemberEvent>, Refusal> {
        let life = self
            .lives
            .get_mut(&peer.process)
            .filter(|life| life.incarnation >= peer.incarnation);
        let life = life.ok_or(Refusal::Unknown(peer.process))?;
        let living = life
            .living
            .as_mut()
            .filter(|_| life.incarnation == peer.incarnation);
        let living = living.ok_or(Refusal::Buried(peer))?;
        if let Watch::Head(heard) = &mut living.watch {
            *heard = now;
        }
        let was_suspected = std::mem::take(&mut living.is_suspected);
        Ok(was_suspected.then_some(MemberEvent::Recovered(peer)))
    }

    /// A member is dead for this reason. With an agent die the processes that it watches. Nothing happens if it is no member.
    pub fn died(&mut self, peer: Peer, why: WhyDead) -> Vec<MemberEvent> {
        if peer.process == ProcessId::HEAD || !self.is_member(peer) {
            return Vec::new();
        }
        let mut events = vec![self.bury(peer, why)];
        let is_watched = |living: &Living| living.watch == Watch::Agent(peer.process);
        let watched = self.alive().filter(|(_, living)| is_watched(living));
        let watched: Vec<Peer> = watched.map(|(peer, _)| peer).collect();
        let with_agent = WhyDead::WithAgent(peer.process);
        events.extend(watched.into_iter().map(|it| self.bury(it, with_agent)));
        events
    }

    /// Removes a process for good: it is dead, and its number is never given again.
    pub fn remove(&mut self, process: ProcessId) -> Vec<MemberEvent> {
        if process == ProcessId::HEAD {
            return Vec::new();
        }
        let Some(incarnation) = self.lives.get(&process).map(|life| life.incarnation) else {
            return Vec::new();
        };
        let peer = Peer { process, incarnation };
        let events = self.died(peer, WhyDead::Removed);
        self.lives.remove(&process);
        if self.mutant == MemberMutant::ReusesNumbers {
            self.next = process.number();
        }
        events
    }

    /// Suspects and buries the members that were silent for too long.
    pub fn tick(&mut self, now: Duration) -> Vec<MemberEvent> {
        let timeout = self.settings.silence_timeout;
        let mut events = Vec::new();
        let watched: Vec<_> = self.watched_by_head().collect();
        for (peer, heard, _) in watched {
            let silence = now.saturating_sub(heard);
            if silence >= timeout {
                events.extend(self.died(peer, WhyDead::Silent(silence)));
            } else if silence >= timeout / 2 {
                events.extend(self.suspect(peer));
            }
        }
        events
    }

    /// The next moment at which [`tick`](Self::tick) has something to conclude, if nothing is heard until then.
    pub fn deadline(&self) -> Option<Duration> {
        let timeout = self.settings.silence_timeout;
        let due = self.watched_by_head().filter_map(|(_, heard, is_suspected)| {
            heard.checked_add(if is_suspected { timeout } else { timeout / 2 })
        });
        due.min()
    }

    fn watch(&self, now: Duration, agent: Option<Peer>) -> Result<Watch, Refusal> {
        match agent {
            None => Ok(Watch::Head(now)),
            Some(agent) if self.is_member(agent) => Ok(Watch::Agent(agent.process)),
            Some(agent) => Err(Refusal::NoAgent(agent)),
        }
    }

    fn join(&mut self, peer: Peer, watch: Watch) -> MemberEvent {
        let life = Life {
            incarnation: peer.incarnation,
            living: Some(Living::new(watch)),
        };
        self.lives.insert(peer.process, life);
        self.change(peer, Change::Joined)
    }

    fn bury(&mut self, peer: Peer, why: WhyDead) -> MemberEvent {
        if let Some(life) = self.lives.get_mut(&peer.process) {
            life.living = None;
        }
        self.change(peer, Change::Died(why))
    }

    fn change(&mut self, peer: Peer, change: Change) -> MemberEvent {
        self.epoch += 1;
        let epoch = self.epoch;
        MemberEvent::Changed(Notice { epoch, peer, change })
    }

    fn suspect(&mut self, peer: Peer) -> Option<MemberEvent> {
        let living = self.lives.get_mut(&peer.process)?.living.as_mut()?;
        let was_suspected = std::mem::replace(&mut living.is_suspected, true);
        (!was_suspected).then_some(MemberEvent::Suspected(peer))
    }

    fn living(&self, peer: Peer) -> Option<&Living> {
        let life = self.lives.get(&peer.process)?;
        life.living
            .as_ref()
            .filter(|_| life.incarnation == peer.incarnation)
    }

    /// The members, each with its watch.
    fn alive(&self) -> impl Iterator<Item = (Peer, &Living)> {
        self.lives.iter().filter_map(|(process, life)| {
            let peer = Peer {
                process: *process,
                incarnation: life.incarnation,
            };
            Some((peer, life.living.as_ref()?))
        })
    }

    /// The members that the head watches, each with the moment at which it was heard last, and whether it is suspected.
    fn watched_by_head(&self) -> impl Iterator<Item = (Peer, Duration, bool)> {
        self.alive().filter_map(|(peer, living)| match living.watch {
            Watch::Head(heard) => Some((peer, heard, living.is_suspected)),
            Watch::Agent(_) | Watch::Nobody => None,
        })
    }
}

impl Living {
    fn new(watch: Watch) -> Self {
        Living {
            watch,
            is_suspected: false,
        }
    }
}
