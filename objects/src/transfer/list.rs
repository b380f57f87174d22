//! The owner's list: which hosts have a sealed copy of each of its objects.

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::Peer;

use super::message::{TransferAction, TransferMessage};
use super::mutant::TransferMutant;
use super::name::{CopyAt, CopyFacts, CopyName};
use super::orphans::Orphans;
use crate::store::StoreError;

/// The owner's knowledge of the copy of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LastCopy {
    /// The last attempt that a notice was about.
    attempt: u64,
    /// Whether the copy that came by it is there.
    is_there: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Listed {
    bytes: u64,
    /// `None` until somebody has asked.
    checksum: Option<u32>,
    copies: IdMap<Peer, LastCopy>,
    /// The agents that were told sources or wait for them, and have not said that they have a copy.
    seekers: IdMap<Peer, u64>,
    /// Whether the checksum is being computed for the seekers.
    is_measured: bool,
    /// Set once the loss of the last copy was told.
    is_lost: bool,
}

impl Listed {
    fn sources(&self) -> impl Iterator<Item = CopyAt> {
        let there = self.copies.iter().filter(|(_, copy)| copy.is_there);
        there.map(|(agent, copy)| CopyAt {
            agent: *agent,
            attempt: copy.attempt,
        })
    }
}

/// The copies of the objects of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyList {
    me: Peer,
    listed: IdMap<CopyName, Listed>,
    orphans: Orphans,
    buried: LastLives,
    mutant: TransferMutant,
    actions: Vec<TransferAction>,
}

impl CopyList {
    /// The empty list of a process.
    pub fn new(me: Peer) -> Self {
        CopyList {
            me,
            listed: IdMap::new(),
            orphans: Orphans::default(),
            buried: LastLives::default(),
            mutant: TransferMutant::None,
            actions: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_mutant(mut self, mutant: TransferMutant) -> Self {
        self.mutant = mutant;
        self
    }

    fn send(&mut self, to: Peer, message: TransferMessage) {
        self.actions.push(TransferAction::Send { to, message });
    }

    fn done(&mut self) -> Vec<TransferAction> {
        std::mem::take(&mut self.actions)
    }

    /// An object of this process has been made, with its first copy, which may be lost already. Without a checksum the first copy is this
    /// process's own. An object that is listed already stays as it is.
    pub fn list(
        &mut self,
        name: CopyName,
        bytes: u64,
        checksum: Option<u32>,
        at: Option<CopyAt>,
    ) -> Vec<TransferAction> {
        if self.listed.contains_key(&name) {
            return Vec::new();
        }
        self.orphans.remove(name);
        let mut listed = Listed {
            bytes,
            checksum,
            copies: IdMap::new(),
            seekers: IdMap::new(),
            is_measured: false,
            is_lost: true,
        };
        match at.filter(|at| !self.buried.has(at.agent)) {
            Some(CopyAt { agent, attempt }) => {
                let is_there = true;
                listed.copies.insert(agent, LastCopy { attempt, is_there });
                listed.is_lost = false;
                self.send(agent, TransferMessage::Claim { name });
            }
            None => self.actions.push(TransferAction::Lost { name }),
        }
        self.listed.insert(name, listed);
        self.done()
    }

    /// The checksum of this process's own copy was computed, or the copy cannot be read. If it is not gone, but out of reach for the
    /// moment, whoever seeks the object is told so, and the next one that seeks it has the checksum computed.
    pub fn measured(&mut self, name: CopyName, checksum: Result<u32, StoreError>) -> Vec<TransferAction> {
        let Some(listed) = self.listed.get_mut(&name) else {
            return Vec::new();
        };
        listed.is_measured = false;
        match checksum {
            Ok(checksum) => listed.checksum = Some(checksum),
            Err(why) if !why.is_gone() && self.mutant != TransferMutant::LosesWhatIsOutOfReach => {
                let seekers = std::mem::take(&mut listed.seekers);
                for (to, attempt) in seekers {
                    let why = why.clone();
                    self.send(to, TransferMessage::Unfound { name, attempt, why });
                }
                return self.done();
            }
            Err(_) => {
                if let Some(copy) = listed.copies.get_mut(&self.me) {
                    copy.is_there = false;
                }
            }
        }
        let seekers = listed.seekers.clone();
        self.note_loss(name);
        for (seeker, attempt) in seekers {
            self.answer(seeker, name, attempt);
        }
        self.done()
    }

    /// A message of a host agent has arrived. One that is for agents has no effect.
    pub fn heard(&mut self, from: Peer, message: &TransferMessage) -> Vec<TransferAction> {
        if self.buried.has(from) && self.mutant != TransferMutant::HeedsTheBuried {
            return Vec::new();
        }
        match *message {
            TransferMessage::Seek { name, attempt } => self.seek(from, name, attempt),
            TransferMessage::Copied { name, attempt } => self.copied(from, name, attempt),
            TransferMessage::Dropped { name, attempt } => self.dropped(from, name, attempt),
            TransferMessage::Orphan { name } => self.orphan(from, name),
            _ => {}
        }
        self.done()
    }

    fn seek(&mut self, by: Peer, name: CopyName, attempt: u64) {
        let Some(listed) = self.listed.get_mut(&name) else {
            let why = StoreError::Gone;
            return self.send(by, TransferMessage::Unfound { name, attempt, why });
        };
        match listed.copies.get_mut(&by) {
            // The notice of the copy has overtaken the question.
            Some(copy) if copy.attempt >= attempt => return,
            // Who has a copy seeks none: the notice of its loss is still to come.
            Some(copy) => copy.is_there = false,
            None => {}
        }
        listed.seekers.insert(by, attempt);
        self.note_loss(name);
        self.answer(by, name, attempt);
    }

    /// Tells that the last copy is lost, if it is now and was not before.
    fn note_loss(&mut self, name: CopyName) {
        let Some(listed) = self.listed.get_mut(&name) else {
            return;
        };
        let is_lost = listed.sources().next().is_none();
        if is_lost && !listed.is_lost {
            self.actions.push(TransferAction::Lost { name });
        }
        listed.is_lost = is_lost;
    }

    fn answer(&mut self, to: Peer, name: CopyName, attempt: u64) {
        let Some(listed) = self.listed.get_mut(&name) else {
            return;
        };
        let sources: Vec<CopyAt> = listed.sources().collect();
        let is_mine = sources.iter().any(|copy| copy.agent == self.me);
        // Others have copies of an object of unknown checksum only if they lie.
        if sources.is_empty() || (listed.checksum.is_none() && !is_mine) {
            listed.seekers.remove(&to);
            let why = StoreError::Lost;
            return self.send(to, TransferMessage::Unfound { name, attempt, why });
        }
        let Some(checksum) = listed.checksum else {
            if !std::mem::replace(&mut listed.is_measured, true) {
                self.actions.push(TransferAction::Measure { name });
            }
            return;
        };
        let facts = CopyFacts {
            bytes: listed.bytes,
            checksum,
        };
        let message = TransferMessage::Sources {
            name,
            attempt,
            facts,
            sources,
        };
        self.send(to, message);
    }

    fn copied(&mut self, by: Peer, name: CopyName, attempt: u64) {
        let Some(listed) = self.listed.get_mut(&name) else {
            return self.send(by, TransferMessage::Forget { name });
        };
        let last = listed.copies.get(&by);
        let is_stale = last.is_some_and(|last| last.attempt >= attempt);
        if is_stale && self.mutant != TransferMutant::HeedsStaleNotices {
            return;
        }
        let is_there = true;
        listed.copies.insert(by, LastCopy { attempt, is_there });
        listed.is_lost = false;
        if listed.seekers.get(&by).is_some_and(|sought| *sought <= attempt) {
            listed.seekers.remove(&by);
        }
    }

    /// An agent has lost the copy that came by this attempt.
    fn dropped(&mut self, by: Peer, name: CopyName, attempt: u64) {
        let Some(listed) = self.listed.get_mut(&name) else {
            return;
        };
        let last = listed.copies.get(&by);
        let is_stale = last.is_some_and(|last| last.attempt > attempt);
        if is_stale && self.mutant != TransferMutant::HeedsStaleNotices {
            return;
        }
        let is_there = false;
        listed.copies.insert(by, LastCopy { attempt, is_there });
        self.note_loss(name);
    }

    fn orphan(&mut self, by: Peer, name: CopyName) {
        if self.listed.contains_key(&name) {
            return self.send(by, TransferMessage::Claim { name });
        }
        if self.buried.has(name.maker) {
            return self.send(by, TransferMessage::Forget { name });
        }
        // The maker's letter may be on its way.
        if !self.orphans.ask(by, name) {
            let why = "it has too many copies that nobody knows of";
            self.actions.push(TransferAction::Cut { peer: by, why });
        }
    }

    /// The last reference to an object is gone.
    pub fn free(&mut self, name: CopyName) -> Vec<TransferAction> {
        if let Some(listed) = self.listed.remove(&name) {
            let agents = listed.copies.keys().chain(listed.seekers.keys());
            for agent in agents.copied().collect::<IdSet<Peer>>() {
                self.send(agent, TransferMessage::Forget { name });
            }
        }
        self.done()
    }

    /// A process is dead: its copies are lost.
    pub fn bury(&mut self, peer: Peer) -> Vec<TransferAction> {
        self.buried.note(peer);
        let mut touched = Vec::new();
        for (name, listed) in self.listed.iter_mut() {
            listed.seekers.remove(&peer);
            touched.extend(listed.copies.remove(&peer).map(|_| *name));
        }
        touched.sort_unstable();
        touched.into_iter().for_each(|name| self.note_loss(name));
        for (name, agent) in self.orphans.bury(peer) {
            self.send(agent, TransferMessage::Forget { name });
        }
        self.done()
    }

    /// The agents of the hosts that have a sealed copy of an object; none, if it is not listed.
    pub fn copies(&self, name: CopyName) -> Vec<CopyAt> {
        let listed = self.listed.get(&name);
        listed
            .map(|listed| listed.sources().collect())
            .unwrap_or_default()
    }

    /// The objects that are listed.
    pub fn names(&self) -> impl Iterator<Item = CopyName> {
        self.listed.keys().copied()
    }

    /// The length of an object that is listed.
    pub fn bytes(&self, name: CopyName) -> Option<u64> {
        self.listed.get(&name).map(|listed| listed.bytes)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.orphans.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::peer::ProcessId;

    use super::super::orphans::ORPHANS_MAX;
    use super::*;

    #[test]
    fn an_agent_that_asks_about_too_many_copies_is_cut_off_and_no_other_one_is() {
        let [owner, liar, lawful, maker] =
            [1, 2, 3, 4].map(|number| ProcessId::new(number).unwrap().first_life());
        let mut list = CopyList::new(owner);
        let of = |number: usize| CopyName {
            maker,
            number: number as u64,
        };
        let mut ask = |by, name| list.heard(by, &TransferMessage::Orphan { name });
        for number in 0..ORPHANS_MAX {
            assert_eq!(ask(liar, of(number)), []);
        }
        assert_eq!(ask(lawful, of(0)), []);
        assert_eq!(ask(lawful, of(ORPHANS_MAX)), []);
        // Once more about the same copy.
        assert_eq!(ask(liar, of(1)), []);
        let cut = ask(liar, of(ORPHANS_MAX));
        assert!(
            matches!(cut[..], [TransferAction::Cut { peer, .. }] if peer == liar),
            "{cut:?}"
        );
        // One is known by now, so there is room for another one.
        list.list(of(0), 1, Some(0), None);
        let name = of(ORPHANS_MAX);
        assert_eq!(list.heard(liar, &TransferMessage::Orphan { name }), []);
        list.bury(liar);
        let to = lawful;
        let message = TransferMessage::Forget { name };
        assert_eq!(list.bury(maker), [TransferAction::Send { to, message }]);
        list.free(of(0));
        assert!(list.is_empty());
    }
}
