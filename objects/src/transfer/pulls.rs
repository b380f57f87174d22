//! The agent's side: the copies in the store of this host, and those on their way there.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::Peer;

use super::message::{TransferAction, TransferMessage};
use super::mutant::TransferMutant;
use super::name::{CopyAt, CopyFacts, CopyName};
use super::pull::{ChunkPlace, Pull, PullPhase};
use crate::store::StoreError;

/// The limits of pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferSettings {
    /// The length of a chunk.
    pub chunk_bytes: u64,
    /// The chunks that a pull has asked for at a time.
    pub credits: usize,
}

impl Default for TransferSettings {
    /// Four chunks of 1 MiB.
    fn default() -> Self {
        TransferSettings {
            chunk_bytes: 1 << 20,
            credits: 4,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CopyState {
    Coming(Box<Pull>),
    Here {
        attempt: u64,
        /// Whether the owner is known to know the copy. The death of the maker decides about one that is not.
        is_claimed: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HostCopy {
    owner: Peer,
    state: CopyState,
}

/// A copy in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyReport {
    /// The object.
    pub name: CopyName,
    /// The owner of the object.
    pub owner: Peer,
    /// Sealed here; otherwise on its way.
    pub is_here: bool,
}

/// The copies of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pulls {
    me: Peer,
    settings: TransferSettings,
    copies: IdMap<CopyName, HostCopy>,
    attempts: u64,
    buried: LastLives,
    mutant: TransferMutant,
    actions: Vec<TransferAction>,
}

impl Pulls {
    /// The copies of a host whose agent is `me`: none.
    pub fn new(me: Peer, settings: TransferSettings) -> Self {
        Pulls {
            me,
            settings,
            copies: IdMap::new(),
            attempts: 0,
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

    fn refuse(&mut self, waiters: Vec<u64>, error: &StoreError) {
        for request in waiters {
            let error = error.clone();
            self.actions.push(TransferAction::Refuse { request, error });
        }
    }

    fn done(&mut self) -> Vec<TransferAction> {
        std::mem::take(&mut self.actions)
    }

    fn attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    /// An object is wanted on this host. Its pull begins, if there is none.
    pub fn want(&mut self, request: u64, name: CopyName, owner: Peer) -> Vec<TransferAction> {
        match self.copies.get_mut(&name) {
            // The owner is said by whoever asks.
            Some(copy) if copy.owner != owner => self.refuse(vec![request], &StoreError::Gone),
            Some(HostCopy {
                state: CopyState::Here { .. },
                ..
            }) => self.actions.push(TransferAction::Grant { request, name }),
            Some(HostCopy {
                state: CopyState::Coming(pull),
                ..
            }) if self.mutant != TransferMutant::PullsTwice => pull.waiters.push(request),
            _ if self.buried.has(owner) => self.refuse(vec![request], &StoreError::OwnerLost),
            _ => {
                let attempt = self.attempt();
                let state = CopyState::Coming(Box::new(Pull::new(attempt, request)));
                self.copies.insert(name, HostCopy { owner, state });
                self.send(owner, TransferMessage::Seek { name, attempt });
            }
        }
        self.done()
    }

    /// An object was sealed in the store of this host that did not come from another one. Returns the copy; `None` if there is one
    /// already.
    pub fn filled(&mut self, name: CopyName, owner: Peer) -> Option<CopyAt> {
        if self.copies.contains_key(&name) {
            return None;
        }
        let (attempt, is_claimed) = (self.attempt(), false);
        let state = CopyState::Here { attempt, is_claimed };
        self.copies.insert(name, HostCopy { owner, state });
        let agent = self.me;
        Some(CopyAt { agent, attempt })
    }

    /// The maker of a copy gives it up before its owner knows it.
    pub fn abandon(&mut self, by: Peer, name: CopyName) -> Vec<TransferAction> {
        let copy = self.copies.get(&name);
        let is_its = copy.is_some_and(|copy| {
            let is_claimed = matches!(copy.state, CopyState::Here { is_claimed: true, .. });
            name.maker == by && !is_claimed
        });
        if is_its {
            self.end(name, &StoreError::Gone);
        }
        self.done()
    }

    /// The store could not read its copy: it is given up, and the owner is told.
    pub fn unreadable(&mut self, name: CopyName) -> Vec<TransferAction> {
        if let Some(copy) = self.copies.get(&name)
            && let CopyState::Here { attempt, .. } = copy.state
        {
            let owner = copy.owner;
            self.copies.remove(&name);
            self.actions.push(TransferAction::Drop { name });
            self.send(owner, TransferMessage::Dropped { name, attempt });
        }
        self.done()
    }

    /// A message has arrived. One that is for owners or sources has no effect.
    pub fn heard(&mut self, from: Peer, message: &TransferMessage) -> Vec<TransferAction> {
        if self.buried.has(from) {
            return Vec::new();
        }
        match message {
            TransferMessage::Sources {
                name,
                attempt,
                facts,
                sources,
            } => self.sources(from, *name, *attempt, (*facts, sources)),
            TransferMessage::Unfound { name, attempt, why } => self.unfound(from, *name, *attempt, why),
            TransferMessage::Unread { name, attempt } => self.unread(from, *name, *attempt),
            TransferMessage::Forget { name } => {
                let is_its = self.copies.get(name).is_some_and(|copy| copy.owner == from);
                if is_its && self.mutant != TransferMutant::PullsOn {
                    self.end(*name, &StoreError::Gone);
                }
            }
            TransferMessage::Claim { name } => self.claimed(from, *name),
            _ => {}
        }
        self.done()
    }

    /// The owner knows a copy that was filled here.
    fn claimed(&mut self, from: Peer, name: CopyName) {
        let attempt = match self.copies.get_mut(&name) {
            Some(copy) if copy.owner != from => return,
            Some(copy) => match &mut copy.state {
                CopyState::Here { is_claimed, .. } => {
                    *is_claimed = true;
                    return;
                }
                // It was lost, and the object is sought anew: by a later attempt, whose copy counts.
                CopyState::Coming(pull) => pull.attempt.saturating_sub(1),
            },
            // It was lost before the owner knew it, and the word of that has overtaken the word of its maker.
            None => self.attempts,
        };
        self.send(from, TransferMessage::Dropped { name, attempt });
    }

    fn coming(&mut self, name: CopyName) -> Option<&mut Pull> {
        match &mut self.copies.get_mut(&name)?.state {
            CopyState::Coming(pull) => Some(pull.as_mut()),
            CopyState::Here { .. } => None,
        }
    }

    /// The pull that waits for this answer of this owner.
    fn seeking(&mut self, from: Peer, name: CopyName, attempt: u64) -> Option<&mut Pull> {
        let copy = self.copies.get_mut(&name).filter(|copy| copy.owner == from)?;
        match &mut copy.state {
            CopyState::Coming(pull) if pull.phase == PullPhase::Seeking && pull.attempt == attempt => {
                Some(pull.as_mut())
            }
            _ => None,
        }
    }

    fn unfound(&mut self, from: Peer, name: CopyName, attempt: u64, why: &StoreError) {
        if self.seeking(from, name, attempt).is_some() {
            self.fail(name, why.clone());
        }
    }

    fn unread(&mut self, from: Peer, name: CopyName, attempt: u64) {
        let asks = |pull: &mut Pull| pull.attempt == attempt && pull.phase != PullPhase::Seeking;
        if self.coming(name).is_some_and(asks) {
            self.lose_source(name, from);
        }
    }

    fn sources(
        &mut self,
        from: Peer,
        name: CopyName,
        attempt: u64,
        (facts, mut sources): (CopyFacts, &[CopyAt]),
    ) {
        let me = self.me;
        let living: Vec<CopyAt> = sources
            .iter()
            .filter(|it| !self.buried.has(it.agent))
            .copied()
            .collect();
        sources = &living;
        let Some(pull) = self.seeking(from, name, attempt) else {
            return;
        };
        let is_other = pull.facts.is_some_and(|known| known != facts);
        if is_other || facts.bytes == 0 || !pull.set_sources(me, sources) {
            return self.fail(name, StoreError::Lost);
        }
        if pull.facts.is_some() {
            pull.phase = PullPhase::Filling;
            return self.go_on(name);
        }
        pull.facts = Some(facts);
        pull.phase = PullPhase::Reserving;
        let (number, bytes) = (pull.number, facts.bytes);
        self.actions.push(TransferAction::Reserve {
            name,
            pull: number,
            bytes,
        });
    }

    /// The memory for a pull is there. Returns false if nobody wants it any more.
    pub fn lent(&mut self, name: CopyName, number: u64) -> Option<Vec<TransferAction>> {
        let pull = self.coming(name)?;
        if pull.number != number || pull.phase != PullPhase::Reserving {
            return None;
        }
        pull.phase = PullPhase::Filling;
        self.go_on(name);
        Some(self.done())
    }

    /// The store has no memory for a pull.
    pub fn unlent(&mut self, name: CopyName, number: u64, error: StoreError) -> Vec<TransferAction> {
        if self.coming(name).is_some_and(|pull| pull.number == number) {
            self.fail(name, error);
        }
        self.done()
    }

    /// A chunk has arrived. Returns whether it is to be written; [`Self::written`] follows.
    pub fn chunk(
        &mut self,
        from: Peer,
        name: CopyName,
        attempt: u64,
        (offset, bytes): (u64, u64),
    ) -> Option<u64> {
        let mutant = self.mutant;
        let pull = self.coming(name)?;
        let is_asked = pull.attempt == attempt && pull.source().is_some_and(|it| it.agent == from);
        let is_good = is_asked || mutant == TransferMutant::TakesAnyChunk;
        let is_taken =
            is_good && pull.phase == PullPhase::Filling && pull.accept(ChunkPlace { offset, bytes }, mutant);
        is_taken.then_some(pull.number)
    }

    /// A chunk is written into the memory of the pull, with this checksum.
    pub fn written(
        &mut self,
        name: CopyName,
        number: u64,
        (offset, bytes): (u64, u64),
        checksum: u32,
    ) -> Vec<TransferAction> {
        if let Some(pull) = self.coming(name).filter(|pull| pull.number == number) {
            pull.wrote(ChunkPlace { offset, bytes }, checksum);
            self.go_on(name);
        }
        self.done()
    }

    /// Asks for what is missing, or ends the pull.
    fn go_on(&mut self, name: CopyName) {
        let (settings, mutant) = (self.settings, self.mutant);
        let Some(copy) = self.copies.get_mut(&name) else {
            return;
        };
        let CopyState::Coming(pull) = &mut copy.state else {
            return;
        };
        if pull.is_complete() {
            if pull.is_right() || mutant == TransferMutant::SealsUnchecked {
                return self.seal(name);
            }
            pull.damaged();
        }
        if pull.phase != PullPhase::Filling {
            return;
        }
        let Some(source) = pull.source() else {
            return self.seek_again(name);
        };
        while let Some(stretch) = pull.ask(settings.chunk_bytes, settings.credits, mutant) {
            let message = TransferMessage::Get {
                name,
                attempt: pull.attempt,
                offset: stretch.offset,
                bytes: stretch.bytes,
            };
            let to = source.agent;
            self.actions.push(TransferAction::Send { to, message });
        }
    }

    /// Asks the owner for further sources: those that it has named have failed.
    fn seek_again(&mut self, name: CopyName) {
        if self.mutant == TransferMutant::SeeksOnce {
            return self.fail(name, StoreError::Lost);
        }
        let attempt = self.attempt();
        let Some(pull) = self.coming(name) else { return };
        pull.attempt = attempt;
        pull.phase = PullPhase::Seeking;
        let owner = self.copies.get(&name).map(|copy| copy.owner);
        if let Some(owner) = owner {
            self.send(owner, TransferMessage::Seek { name, attempt });
        }
    }

    fn seal(&mut self, name: CopyName) {
        let Some(copy) = self.copies.get_mut(&name) else {
            return;
        };
        let CopyState::Coming(pull) = &mut copy.state else {
            return;
        };
        let (attempt, number, waiters) = (pull.attempt, pull.number, std::mem::take(&mut pull.waiters));
        let (owner, is_claimed) = (copy.owner, true);
        copy.state = CopyState::Here { attempt, is_claimed };
        self.actions.push(TransferAction::Seal { name, pull: number });
        self.send(owner, TransferMessage::Copied { name, attempt });
        for request in waiters {
            self.actions.push(TransferAction::Grant { request, name });
        }
    }

    fn fail(&mut self, name: CopyName, error: StoreError) {
        let is_damaged = self.coming(name).is_some_and(|pull| pull.is_damaged);
        match is_damaged && error == StoreError::Lost {
            true => self.end(name, &StoreError::Damaged),
            false => self.end(name, &error),
        }
    }

    /// Removes a copy, or ends its pull.
    fn end(&mut self, name: CopyName, error: &StoreError) {
        match self.copies.remove(&name).map(|copy| copy.state) {
            Some(CopyState::Coming(pull)) => {
                self.actions.push(TransferAction::Abort {
                    name,
                    pull: pull.number,
                });
                if self.mutant != TransferMutant::TellsNobody || *error != StoreError::OwnerLost {
                    self.refuse(pull.waiters, error);
                }
            }
            Some(CopyState::Here { .. }) => self.actions.push(TransferAction::Drop { name }),
            None => {}
        }
    }

    /// A source gives nothing any more: another one goes on from where it was.
    fn lose_source(&mut self, name: CopyName, agent: Peer) {
        let mutant = self.mutant;
        let Some(pull) = self.coming(name) else { return };
        if pull.lose(|source| source.agent == agent, mutant) {
            if mutant == TransferMutant::HasOneSource {
                return self.fail(name, StoreError::Lost);
            }
            self.go_on(name);
        }
    }

    /// A process is dead.
    pub fn bury(&mut self, peer: Peer) -> Vec<TransferAction> {
        self.buried.note(peer);
        let names: Vec<CopyName> = self.copies.keys().copied().collect();
        for name in names {
            let Some(copy) = self.copies.get(&name) else {
                continue;
            };
            let owner = copy.owner;
            let is_unclaimed = matches!(
                copy.state,
                CopyState::Here {
                    is_claimed: false,
                    ..
                }
            );
            if owner == peer {
                self.end(name, &StoreError::OwnerLost);
            } else if is_unclaimed && name.maker == peer && self.mutant != TransferMutant::KeepsOrphans {
                self.send(owner, TransferMessage::Orphan { name });
            } else {
                self.lose_source(name, peer);
            }
        }
        self.done()
    }

    /// Whether the object is in the store of this host.
    pub fn has(&self, name: CopyName) -> bool {
        let copy = self.copies.get(&name);
        copy.is_some_and(|copy| matches!(copy.state, CopyState::Here { .. }))
    }

    /// The copies, sealed and on their way.
    pub fn report(&self) -> Vec<CopyReport> {
        let report = |(name, copy): (&CopyName, &HostCopy)| CopyReport {
            name: *name,
            owner: copy.owner,
            is_here: matches!(copy.state, CopyState::Here { .. }),
        };
        self.copies.iter().map(report).collect()
    }
}
