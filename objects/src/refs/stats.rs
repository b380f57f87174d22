//! Figures about the references of a process.

use serde::{Deserialize, Serialize};

use super::{Held, RefId, Refs, Stage};

/// Counts of everything that a process holds and waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefStats {
    /// Objects that live here.
    pub owned: usize,
    /// Registrations of other processes for them.
    pub forks: usize,
    /// References to objects of other processes.
    pub held: usize,
    /// References whose owner has not confirmed.
    pub pending: usize,
    /// Forks that were passed on and are not accepted.
    pub children: usize,
    /// Questions without an answer.
    pub questions: usize,
    /// Messages that wait for their bundle.
    pub waiting: usize,
    /// Calls that wait for the confirmation of their references.
    pub calls: usize,
}

/// The knowledge of a process about a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefStatus {
    /// The owner was asked and has not answered.
    Pending,
    /// The owner was asked to keep the object and has not confirmed that in time.
    TimedOut,
    /// The owner lists this process, or is this process.
    Confirmed,
    /// The object is gone: its owner is dead, or it was freed since the parent of this reference died.
    Lost,
}

impl Refs {
    /// The status of a reference here; `None` if this process does not hold it.
    pub fn status(&self, id: RefId) -> Option<RefStatus> {
        if id.owner == self.me {
            return self.owned.contains_key(&id).then_some(RefStatus::Confirmed);
        }
        self.held.get(&id).map(Held::status)
    }

    /// Counts of everything that this process holds and waits for.
    pub fn stats(&self) -> RefStats {
        let held = self.held.values();
        let forks = self.owned.values().flat_map(|owned| owned.forks.values());
        RefStats {
            owned: self.owned.len(),
            forks: forks.map(|forks| forks.len()).sum(),
            held: self.held.len(),
            pending: held
                .clone()
                .filter(|it| matches!(it.stage, Stage::Pending(_)))
                .count(),
            children: held.map(|held| held.children.len()).sum(),
            questions: self.links.values().map(|link| link.unanswered_questions()).sum(),
            waiting: self.links.values().map(|link| link.waiting()).sum(),
            calls: self.calls.len(),
        }
    }

    /// The references of which this process has an entry, as owner or as user.
    pub fn ids(&self) -> impl Iterator<Item = RefId> {
        self.owned.keys().chain(self.held.keys()).copied()
    }
}
