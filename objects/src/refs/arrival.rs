//! Frames with parcels: calls that run at once, wait for their references, or are refused.

use std::time::Duration;

use selvedge_cluster::id_map::IdSet;
use selvedge_cluster::peer::Peer;

use super::mutant::Mutant;
use super::{Action, Fork, Message, Parcel, RefError, RefId, Refs};

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    /// The caller.
    pub(super) from: Peer,
    /// The number of its references that are not settled.
    left: usize,
    /// The objects here that the call is to make.
    kept: Vec<RefId>,
}

impl Refs {
    pub(super) fn arrived(&mut self, now: Duration, from: Peer, call: u64, parcels: Vec<Parcel>) {
        if self.is_buried(from) {
            return;
        }
        if let Err(error) = self.check_arrival(from, &parcels) {
            self.refuse(now, from, parcels);
            return self.actions.push(Action::RefuseCall { call, error });
        }
        let (mut left, mut kept) = (0, Vec::new());
        for parcel in parcels {
            let is_waiting = match parcel {
                Parcel::Keep { id } => {
                    let is_created = self.create_kept(now, from, id);
                    kept.extend(is_created.then_some(id));
                    false
                }
                Parcel::Given { id, fork } => {
                    if id.owner == from {
                        self.receive(now, id, Fork::Given(fork));
                    }
                    false
                }
                Parcel::Lent { id, fork } if id.owner == self.me => self.come_home(now, from, id, fork, call),
                Parcel::Lent { id, fork } => self.borrow(now, from, id, fork, call),
            };
            left += usize::from(is_waiting);
        }
        if left == 0 {
            self.actions.push(Action::Run { call });
        } else {
            self.charge(from);
            self.calls.insert(call, Waiting { from, left, kept });
        }
    }

    fn check_arrival(&self, from: Peer, parcels: &[Parcel]) -> Result<(), RefError> {
        if parcels.is_empty() {
            return Ok(());
        }
        if self.ending.is_some() {
            return Err(RefError::Ending(self.me));
        }
        let owners = parcels.iter().map(|it| it.id().owner);
        let peers: IdSet<_> = owners.chain([from]).filter(|it| *it != self.me).collect();
        // Each parcel, and the call itself.
        let mut rooms = peers
            .into_iter()
            .map(|peer| self.check_room(peer, parcels.len() + 1));
        rooms.find(Result::is_err).unwrap_or(Ok(()))
    }

    /// Undoes what the sender has noted for the parcels of a call that will not run. Nothing is noted for a sender that has
    /// far more here than it may have.
    fn refuse(&mut self, now: Duration, from: Peer, parcels: Vec<Parcel>) {
        for parcel in parcels {
            if self.is_far_beyond(from) || self.mutant == Mutant::RefusesSilently {
                return;
            }
            match parcel {
                Parcel::Keep { id } => self.refuse_kept(now, from, id),
                Parcel::Given { id, fork } if id.owner == from => {
                    let fork = Fork::Given(fork);
                    self.post(now, from, Message::Release { id, fork });
                }
                Parcel::Given { .. } => {}
                Parcel::Lent { id, fork } => self.accept(now, from, id, fork),
            }
        }
    }

    /// One reference of each of these calls is settled.
    pub(super) fn resume(&mut self, calls: IdSet<u64>) {
        for call in calls {
            let Some(waiting) = self.calls.get_mut(&call) else {
                continue; // abandoned
            };
            waiting.left = waiting.left.saturating_sub(1);
            if waiting.left == 0 {
                let from = waiting.from;
                self.calls.remove(&call);
                self.credit(from, 1);
                self.actions.push(Action::Run { call });
            }
        }
    }

    /// Ends calls that wait: nobody is there for their answers, or this process ends. The objects that they were to make fail.
    pub(super) fn abandon(&mut self, is_over: impl Fn(&Waiting) -> bool) {
        let over = self.calls.iter().filter(|(_, waiting)| is_over(waiting));
        for call in over.map(|(call, _)| *call).collect::<Vec<_>>() {
            let Some(waiting) = self.calls.remove(&call) else {
                continue;
            };
            self.credit(waiting.from, 1);
            self.actions.push(Action::Abandon { call });
            waiting.kept.into_iter().for_each(|id| self.fail_kept(id));
        }
    }
}
