//! The peers of a process: a link for each that lives or is expected to, and how the others ended.

use std::sync::Arc;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::{Peer, ProcessId};
use smallvec::SmallVec;

#[cfg(test)]
use super::link_end::LinkEnd;
#[cfg(test)]
use super::mutant::MemberMutant;
use super::peer_link::PeerLink;

#[derive(Default)]
pub(super) struct PeerTable {
    links: IdMap<ProcessId, Lives>,
    /// The incarnations that have died. They are kept, so that no death is announced twice.
    dead: LastLives,
    /// The incarnations whose burial this process has heard of.
    buried: LastLives,
    /// `(below, living)`: of the processes with numbers under `below`, only those in `living` live.
    survivors: Option<(u32, IdSet<Peer>)>,
    /// The reasons of their deaths.
    #[cfg(test)]
    reasons: IdMap<Peer, LinkEnd>,
    /// The peers with a link over a network.
    far: IdSet<Peer>,
    /// The living processes that are jobs, and take no work.
    jobs: IdSet<ProcessId>,
    /// The peers that somebody has named, and of which nobody has said that they have joined.
    rumours: IdSet<Peer>,
    /// The workers that were told to end.
    leaving: IdSet<Peer>,
    /// The cores of processes on other hosts, as they have said. A process that is started again has those that it had.
    cores: IdMap<ProcessId, u32>,
    #[cfg(test)]
    pub(super) mutant: MemberMutant,
}

/// The links to the incarnations of one process, the oldest first: mostly one.
pub(super) type Lives = SmallVec<[Arc<PeerLink>; 1]>;

/// The state of a peer as far as this process knows.
pub(super) enum PeerStatus {
    Linked(Arc<PeerLink>),
    Dead,
    /// No notice of the peer has come yet.
    Unknown,
}

impl PeerTable {
    pub(super) fn find(&self, peer: Peer) -> PeerStatus {
        if let Some(link) = self.link(peer) {
            return PeerStatus::Linked(Arc::clone(link));
        }
        let has_successor = self.lives(peer.process).iter().any(|link| link.peer() > peer);
        match self.dead.has(peer) || has_successor {
            true => PeerStatus::Dead,
            false => PeerStatus::Unknown,
        }
    }

    /// Notes that of the processes with numbers under `below` only these live. Returns the known peers that are dead by this.
    pub(super) fn note_survivors(&mut self, below: u32, living: IdSet<Peer>) -> Vec<Peer> {
        self.survivors = Some((below, living));
        // The last life of the head may have ended before it could tell them to end.
        self.leaving.clear();
        let peers = self.all_lives().map(|link| link.peer());
        peers.filter(|peer| self.is_no_survivor(*peer)).collect()
    }

    /// Whether a peer is dead according to the head's present life, also if this process has never heard of it.
    pub(super) fn is_no_survivor(&self, peer: Peer) -> bool {
        let survivors = self.survivors.as_ref();
        // The next life of the head is no process of an earlier one.
        survivors.is_some_and(|(below, living)| {
            peer.process != ProcessId::HEAD && peer.process.number() < *below && !living.contains(&peer)
        })
    }

    /// Notes that a process is a job, unless it is dead. Its number is never given to another one.
    pub(super) fn note_job(&mut self, job: Peer) {
        if !matches!(self.find(job), PeerStatus::Dead) {
            self.jobs.insert(job.process);
        }
    }

    /// Notes that somebody has named a peer, of which nothing was known.
    pub(super) fn note_rumour(&mut self, peer: Peer) {
        self.rumours.insert(peer);
    }

    /// Notes that a peer has joined.
    pub(super) fn confirm(&mut self, peer: Peer) {
        self.rumours.remove(&peer);
    }

    /// Notes that a worker was told to end. The notice that it has joined may come later.
    pub(super) fn note_leaving(&mut self, peer: Peer) {
        if !matches!(self.find(peer), PeerStatus::Dead) {
            self.leaving.insert(peer);
        }
    }

    /// Whether the peer of a link gets calls that name no process: it has joined, stays, and is no job.
    pub(super) fn takes_work(&self, link: &PeerLink) -> bool {
        let peer = link.peer();
        let stays = !self.rumours.contains(&peer) && !self.leaving.contains(&peer);
        link.is_open() && stays && !self.is_job(peer.process)
    }

    /// Everybody knows that a process has died. A job is not started again.
    pub(super) fn forget_job(&mut self, process: ProcessId) {
        if self.jobs.remove(&process) {
            self.cores.remove(&process);
        }
    }

    /// Whether a process has died, or is about to.
    pub(super) fn has_lived(&self, process: ProcessId) -> bool {
        self.dead.has_any_of(process) || !self.lives(process).is_empty()
    }

    #[cfg(feature = "hosts")]
    pub(super) fn note_cores(&mut self, process: ProcessId, cores: u32) {
        self.cores.insert(process, cores);
    }

    pub(super) fn cores(&self, process: ProcessId) -> Option<u32> {
        self.cores.get(&process).copied()
    }

    pub(super) fn is_job(&self, process: ProcessId) -> bool {
        self.jobs.contains(&process)
    }

    pub(super) fn insert(&mut self, link: Arc<PeerLink>) {
        let lives = self.links.or_default(link.peer().process);
        lives.retain(|known| known.peer() != link.peer());
        let place = lives.partition_point(|known| known.peer() < link.peer());
        lives.insert(place, link);
    }

    /// Notes that the link to a peer goes over a network.
    #[cfg(any(test, feature = "hosts"))]
    pub(super) fn note_far(&mut self, peer: Peer) {
        if self.link(peer).is_some() {
            self.far.insert(peer);
        }
    }

    /// The number of peers to which no link over a network was made.
    pub(super) fn near(&self) -> usize {
        let links: usize = self.links.values().map(Lives::len).sum();
        links - self.far.len()
    }

    /// Removes a peer for good. Returns its link, which is dropped outside the lock.
    pub(super) fn bury(&mut self, peer: Peer) -> Option<Arc<PeerLink>> {
        self.far.remove(&peer);
        self.rumours.remove(&peer);
        self.leaving.remove(&peer);
        #[cfg(test)]
        if self.mutant == MemberMutant::Resurrects {
            return self.remove(peer);
        }
        self.dead.note(peer);
        self.remove(peer)
    }

    fn remove(&mut self, peer: Peer) -> Option<Arc<PeerLink>> {
        let lives = self.links.get_mut(&peer.process)?;
        let place = lives.iter().position(|link| link.peer() == peer)?;
        let link = lives.remove(place);
        if lives.is_empty() {
            self.links.remove(&peer.process);
        }
        Some(link)
    }

    pub(super) fn is_buried(&self, peer: Peer) -> bool {
        self.buried.has(peer)
    }

    /// Notes that a peer is buried. Returns what was known of it.
    pub(super) fn note_burial(&mut self, peer: Peer) -> PeerStatus {
        self.buried.note(peer);
        self.find(peer)
    }

    #[cfg(test)]
    pub(super) fn note_reason(&mut self, peer: Peer, why: LinkEnd) {
        self.reasons.insert(peer, why);
    }

    #[cfg(test)]
    /// How a peer ended.
    pub(super) fn end_of(&self, peer: Peer) -> Option<LinkEnd> {
        self.reasons.get(&peer).cloned()
    }

    /// [`lives`](Self::lives), for whoever leaves the lock.
    pub(super) fn links_of(&self, process: ProcessId) -> Lives {
        Lives::from(self.lives(process))
    }

    /// The links to incarnations of a process, in their order.
    pub(super) fn lives(&self, process: ProcessId) -> &[Arc<PeerLink>] {
        self.links.get(&process).map_or(&[], Lives::as_slice)
    }

    fn link(&self, peer: Peer) -> Option<&Arc<PeerLink>> {
        self.lives(peer.process).iter().find(|link| link.peer() == peer)
    }

    /// The links to incarnations of the first process whose number is higher than this one; none if there is no such process.
    pub(super) fn lives_after(&self, process: ProcessId) -> &[Arc<PeerLink>] {
        let number = process.number().checked_add(1).and_then(ProcessId::new);
        let next = number.and_then(|process| self.links.first_from(process));
        next.map_or(&[], |(_, lives)| lives.as_slice())
    }

    /// All links, in the order of the peers' numbers.
    pub(super) fn all_lives(&self) -> impl Iterator<Item = &Arc<PeerLink>> {
        self.links.values().flatten()
    }

    /// [`all_lives`](Self::all_lives), for whoever leaves the lock.
    pub(super) fn links(&self) -> Vec<Arc<PeerLink>> {
        self.all_lives().cloned().collect()
    }
}
