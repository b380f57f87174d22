//! The peers of a process: a link for each that lives or is expected to, and how the others ended.

use std::sync::Arc;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use smallvec::SmallVec;

#[cfg(test)]
use super::link_end::LinkEnd;
#[cfg(test)]
use super::mutant::MemberMutant;
use super::peer_link::PeerLink;

#[derive(Default)]
pub(super) struct PeerTable {
    links: IdMap<Peer, Arc<PeerLink>>,
    /// The incarnations that have died. They are kept, so that no death is announced twice.
    dead: LastLives,
    /// The reasons of their deaths.
    #[cfg(test)]
    reasons: IdMap<Peer, LinkEnd>,
    /// The living processes that are jobs, and take no work.
    jobs: IdSet<ProcessId>,
    /// The cores of processes on other hosts, as they have said. A process that is started again has those that it had.
    cores: IdMap<ProcessId, u32>,
    #[cfg(test)]
    pub(super) mutant: MemberMutant,
}

/// The state of a peer as far as this process knows.
pub(super) enum PeerStatus {
    Linked(Arc<PeerLink>),
    Dead,
    /// No notice of the peer has come yet.
    Unknown,
}

impl PeerTable {
    pub(super) fn find(&self, peer: Peer) -> PeerStatus {
        if let Some(link) = self.links.get(&peer) {
            return PeerStatus::Linked(Arc::clone(link));
        }
        let has_successor = self
            .links
            .keys()
            .any(|it| it.process == peer.process && it.incarnation > peer.incarnation);
        match self.dead.has(peer) || has_successor {
            true => PeerStatus::Dead,
            false => PeerStatus::Unknown,
        }
    }

    /// Notes that a process is a job. Its number is never given to another one.
    pub(super) fn note_job(&mut self, job: ProcessId) {
        self.jobs.insert(job);
    }

    /// Everybody knows that a process has died. A job is not started again.
    pub(super) fn forget_job(&mut self, process: ProcessId) {
        if self.jobs.remove(&process) {
            self.cores.remove(&process);
        }
    }

    /// Whether a process has died, or is about to.
    pub(super) fn has_lived(&self, process: ProcessId) -> bool {
        self.dead.has_any_of(process) || !self.links_of(process).is_empty()
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
        self.links.insert(link.peer(), link);
    }

    /// Removes a peer for good. Returns its link, which is dropped outside the lock.
    pub(super) fn bury(&mut self, peer: Peer) -> Option<Arc<PeerLink>> {
        #[cfg(test)]
        if self.mutant == MemberMutant::Resurrects {
            return self.links.remove(&peer);
        }
        self.dead.note(peer);
        self.links.remove(&peer)
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

    /// The links to incarnations of a process, in their order.
    pub(super) fn links_of(&self, process: ProcessId) -> SmallVec<[Arc<PeerLink>; 2]> {
        let [first, last] = [0, u32::MAX].map(|number| Peer {
            process,
            incarnation: Incarnation(number),
        });
        let links = self.links.between(first, last);
        links.map(|(_, link)| Arc::clone(link)).collect()
    }

    /// All links, in the order of the peers' numbers.
    pub(super) fn links(&self) -> Vec<Arc<PeerLink>> {
        self.links.values().cloned().collect()
    }
}
