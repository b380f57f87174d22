//! The user's side: references to objects of other processes.

use std::time::Duration;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;

use super::mutant::Mutant;
use super::{Action, Fork, Message, RefId, RefStatus, Refs};

/// The user's entry of one reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) stage: Stage,
    /// Handles here, with parcels that have arrived.
    pub(super) handles: u64,
    /// Forks that were passed on and are not accepted: by number, the receiver.
    pub(super) children: IdMap<u64, Peer>,
    /// Forks that have arrived here and are to be accepted when the owner has confirmed: parent and number.
    owed: IdSet<(Peer, u64)>,
    /// Calls that wait for the confirmation.
    calls: IdSet<u64>,
    /// The time until which the owner should confirm that it keeps this result.
    pub(super) due: Option<Duration>,
    /// Whether that time has passed without the confirmation.
    pub(super) was_late: bool,
    /// Whether a user has passed the reference here since the owner was asked.
    is_renewed: bool,
}

/// How far a reference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// The owner was asked under this number.
    Pending(u64),
    /// The owner lists this registration.
    Confirmed(Fork),
    /// The object is gone. It may be made again, and then the reference arrives anew.
    Lost,
}

impl Held {
    pub(super) fn new(stage: Stage) -> Self {
        Held {
            stage,
            handles: 0,
            children: IdMap::new(),
            owed: IdSet::new(),
            calls: IdSet::new(),
            due: None,
            was_late: false,
            is_renewed: false,
        }
    }

    /// The number of forks from a parent that wait for the confirmation.
    #[cfg(test)]
    pub(super) fn owed_to(&self, parent: Peer) -> usize {
        self.owed.iter().filter(|(it, _)| *it == parent).count()
    }

    /// The knowledge of this process about the reference.
    pub(super) fn status(&self) -> RefStatus {
        match self.stage {
            Stage::Pending(_) if self.is_late() => RefStatus::TimedOut,
            Stage::Pending(_) => RefStatus::Pending,
            Stage::Confirmed(_) => RefStatus::Confirmed,
            Stage::Lost => RefStatus::Lost,
        }
    }

    /// Whether the confirmation is late and has not come since.
    pub(super) fn is_late(&self) -> bool {
        self.was_late && matches!(self.stage, Stage::Pending(_))
    }
}

impl Refs {
    /// A reference has arrived from a user. Returns whether the call has to wait for the owner.
    pub(super) fn borrow(&mut self, now: Duration, from: Peer, id: RefId, fork: u64, call: u64) -> bool {
        let is_lost = |held: &Held| held.stage == Stage::Lost && self.mutant != Mutant::StaysLost;
        let is_asked = !self.held.get(&id).is_none_or(is_lost);
        if !is_asked {
            self.hold(now, id);
        }
        let Some(held) = self.held.get_mut(&id) else {
            return false;
        };
        held.handles += 1;
        if matches!(held.stage, Stage::Pending(_)) && self.mutant != Mutant::MergesBlindly {
            held.is_renewed |= is_asked;
            let waits = self.mutant != Mutant::RunsEarly && held.calls.insert(call);
            if held.owed.insert((from, fork)) {
                self.charge(from);
            }
            return waits;
        }
        self.accept(now, from, id, fork);
        false
    }

    /// Asks the owner about a reference that is new here, or of an object that may have been made again.
    fn hold(&mut self, now: Duration, id: RefId) {
        let stage = match self.is_buried(id.owner) {
            true => Stage::Lost,
            false => self.ask_owner(now, id),
        };
        let was_charged = self.held.get(&id).is_some_and(|held| held.stage != Stage::Lost);
        if stage != Stage::Lost && !was_charged {
            self.charge(id.owner);
        }
        let held = self.held.get_or_insert_with(id, || Held::new(stage));
        (held.stage, held.was_late, held.is_renewed) = (stage, false, false);
    }

    /// A reference has arrived from its owner, which has listed this process already.
    pub(super) fn receive(&mut self, now: Duration, id: RefId, fork: Fork) {
        match self.held.get_mut(&id) {
            None => {
                let mut held = Held::new(Stage::Confirmed(fork));
                held.handles = 1;
                self.charge(id.owner);
                self.held.insert(id, held);
                self.actions.push(Action::Confirmed(id));
            }
            Some(held) => {
                held.handles += 1;
                match held.stage {
                    Stage::Pending(_) => self.confirm(now, id, fork),
                    // The object has been made again.
                    Stage::Lost if self.mutant != Mutant::StaysLost => {
                        self.charge(id.owner);
                        self.confirm(now, id, fork);
                    }
                    // One registration is enough.
                    Stage::Confirmed(_) | Stage::Lost => {
                        self.post(now, id.owner, Message::Release { id, fork })
                    }
                }
            }
        }
    }

    fn ask_owner(&mut self, now: Duration, id: RefId) -> Stage {
        let link = self.links.or_default(id.owner);
        let number = link.register();
        if self.mutant == Mutant::AddsWithoutAnswers {
            link.post(now, Message::Fork { id, number }, &self.settings);
            self.flush(now, id.owner);
            return Stage::Confirmed(Fork::Asked(number));
        }
        self.post_promptly(now, id.owner, Message::Fork { id, number });
        Stage::Pending(number)
    }

    /// The owner has answered.
    pub(super) fn forked(&mut self, now: Duration, from: Peer, id: RefId, number: u64, is_alive: bool) {
        let link = self.links.or_default(from);
        if id.owner != from || !link.settle(&Message::Fork { id, number }) {
            return;
        }
        link.answered(number);
        let fork = Fork::Asked(number);
        match self.held.get(&id).map(|held| held.stage) {
            Some(Stage::Pending(asked)) if asked == number && is_alive => self.confirm(now, id, fork),
            Some(Stage::Pending(asked)) if asked == number => self.refused(now, id),
            // The owner has meanwhile given another registration, which may have been released since.
            _ if is_alive => self.post(now, from, Message::Release { id, fork }),
            _ => {}
        }
    }

    fn confirm(&mut self, now: Duration, id: RefId, fork: Fork) {
        self.actions.push(Action::Confirmed(id));
        self.settle_entry(now, id, Stage::Confirmed(fork));
    }

    /// The owner did not have the object when it answered. It is asked once more if a user has passed the reference here since it was
    /// asked, because that user may have it from the object that was made again.
    fn refused(&mut self, now: Duration, id: RefId) {
        let is_renewed = |held: &Held| held.is_renewed && self.mutant != Mutant::StaysLost;
        match self.held.get(&id).is_some_and(is_renewed) {
            true => self.hold(now, id),
            false => self.lose(now, id),
        }
    }

    /// The object is gone for this process.
    pub(super) fn lose(&mut self, now: Duration, id: RefId) {
        let Some(held) = self.held.get_mut(&id).filter(|held| held.stage != Stage::Lost) else {
            return;
        };
        // The children ask the owner themselves, and learn the same.
        for child in std::mem::take(&mut held.children).into_values() {
            self.credit(child, 1);
        }
        self.actions.push(Action::Lost(id));
        self.credit(id.owner, 1);
        self.settle_entry(now, id, Stage::Lost);
    }

    /// The entry needs its parents no more, and calls wait for it no more.
    fn settle_entry(&mut self, now: Duration, id: RefId, stage: Stage) {
        self.stop_expecting(id);
        if let Some(held) = self.held.get_mut(&id) {
            held.stage = stage;
            let (owed, calls) = (std::mem::take(&mut held.owed), std::mem::take(&mut held.calls));
            for (parent, fork) in owed {
                self.credit(parent, 1);
                self.accept(now, parent, id, fork);
            }
            self.resume(calls);
            self.release_if_unused(now, id);
        }
    }

    /// A child needs this process no more.
    pub(super) fn accepted_by(&mut self, now: Duration, from: Peer, id: RefId, fork: u64) {
        self.remove_child(now, from, id, fork);
        self.post(now, from, Message::Accepted { id, fork });
    }

    /// A fork that was passed on has accepted, or was never sent.
    pub(super) fn remove_child(&mut self, now: Duration, child: Peer, id: RefId, fork: u64) {
        if let Some(held) = self.held.get_mut(&id)
            && held.children.get(&fork) == Some(&child)
        {
            held.children.remove(&fork);
            self.credit(child, 1);
            self.release_if_unused(now, id);
        }
    }

    pub(super) fn drop_held(&mut self, now: Duration, id: RefId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.handles = held.handles.saturating_sub(1);
            self.release_if_unused(now, id);
        }
    }

    /// The registration to release, if the reference is confirmed and neither handles nor children need it.
    fn unused(&self, id: RefId) -> Option<Fork> {
        let held = self.held.get(&id)?;
        let is_hasty = self.mutant == Mutant::EndsHastily && self.ending.is_some();
        let is_parent = !held.children.is_empty() && self.mutant != Mutant::NoParents && !is_hasty;
        match held.stage {
            Stage::Confirmed(fork) if held.handles == 0 && !is_parent => Some(fork),
            _ => None,
        }
    }

    pub(super) fn release_if_unused(&mut self, now: Duration, id: RefId) {
        if self.unused(id).is_some() {
            let link = self.links.or_default(id.owner);
            if link.leave(now, id, &self.settings) {
                self.flush(now, id.owner);
            }
        } else if self
            .held
            .get(&id)
            .is_some_and(|it| it.stage == Stage::Lost && it.handles == 0)
        {
            self.held.remove(&id);
        }
    }

    /// Decides about the releases that wait for a bundle to this owner: a reference that has arrived anew stays.
    pub(super) fn release_leaving(&mut self, now: Duration, owner: Peer) {
        let leaving = self
            .links
            .get_mut(&owner)
            .map(|link| std::mem::take(&mut link.leaving));
        for id in leaving.unwrap_or_default() {
            let revived = match self.held.get(&id).map(|held| held.stage) {
                Some(Stage::Confirmed(fork)) if self.mutant == Mutant::ReleasesRevived => Some(fork),
                _ => None,
            };
            if let Some(fork) = self.unused(id) {
                self.held.remove(&id);
                self.credit(owner, 1);
                self.post_without_flush(now, owner, Message::Release { id, fork });
            } else if let Some(fork) = revived {
                self.post_without_flush(now, owner, Message::Release { id, fork });
            }
        }
    }

    /// A process has died: references to its objects are lost, and forks that it never accepted need no parent.
    pub(super) fn bury_owner_and_children(&mut self, now: Duration, dead: Peer) {
        for id in self.held.keys().copied().collect::<Vec<_>>() {
            let Some(held) = self.held.get_mut(&id) else {
                continue;
            };
            held.owed.retain(|(parent, _)| *parent != dead); // the dead has no load any more
            let children = held.children.len();
            held.children.retain(|_, child| *child != dead);
            if id.owner == dead {
                self.lose(now, id);
            } else if held.children.len() < children {
                self.release_if_unused(now, id);
            }
        }
    }
}
