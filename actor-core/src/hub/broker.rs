//! The broker: the driver's list of living workers. It tells each of them who else lives, and makes the pairs of sockets
//! between them.

use std::sync::Arc;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::{Peer, ProcessId};

use super::notice::Notice;
use crate::platform::peer_socket::{PeerEnd, pair};

/// The way to one worker that does not depend on any link of the hub.
pub(crate) trait Courier: Send + Sync {
    /// Sends a notice, with an end of a pair if one belongs to it. Never blocks.
    fn tell(&self, notice: Notice, end: Option<PeerEnd>);

    /// Kills the worker. Its death is noticed as any other.
    fn kill(&self);
}

struct Member {
    peer: Peer,
    courier: Arc<dyn Courier>,
    /// The workers to which a pair was made.
    linked: IdSet<ProcessId>,
}

#[derive(Default)]
pub(super) struct Broker {
    members: IdMap<ProcessId, Member>,
}

impl Broker {
    /// Adds a worker. The worker and all others are told of each other.
    pub(super) fn join(&mut self, peer: Peer, courier: Arc<dyn Courier>) {
        for other in self.members.values() {
            other.courier.tell(Notice::Joined(peer), None);
            courier.tell(Notice::Joined(other.peer), None);
        }
        let linked = IdSet::new();
        let member = Member {
            peer,
            courier,
            linked,
        };
        self.members.insert(peer.process, member);
    }

    /// Removes a worker that is dead, and tells the others. Returns the way to it.
    pub(super) fn bury(&mut self, peer: Peer) -> Option<Arc<dyn Courier>> {
        self.courier(peer)?;
        let member = self.members.remove(&peer.process)?;
        for other in self.members.values_mut() {
            other.linked.remove(&peer.process);
            other.courier.tell(Notice::Died(peer), None);
        }
        Some(member.courier)
    }

    /// The way to a worker, if this incarnation of it lives.
    pub(super) fn courier(&self, peer: Peer) -> Option<&Arc<dyn Courier>> {
        let member = self.members.get(&peer.process)?;
        (member.peer == peer).then_some(&member.courier)
    }

    /// Makes a pair between two workers because one of them asks for it, and gives each its end.
    pub(super) fn connect(&mut self, from: Peer, about: Peer) {
        let Some(asker) = self.courier(from).cloned() else {
            return;
        };
        let Some(other) = self.courier(about).cloned().filter(|_| from != about) else {
            return asker.tell(Notice::Died(about), None);
        };
        let is_new = self
            .members
            .get_mut(&from.process)
            .is_some_and(|member| member.linked.insert(about.process));
        if !is_new {
            return;
        }
        match pair() {
            Ok((one, two)) => {
                other.tell(Notice::Linked(from), Some(two));
                asker.tell(Notice::Linked(about), Some(one));
                if let Some(member) = self.members.get_mut(&about.process) {
                    member.linked.insert(from.process);
                }
            }
            Err(error) => asker.tell(Notice::NotLinked(about, error.to_string()), None),
        }
    }

    /// Removes all workers. Returns the ways to them, which are dropped outside the lock.
    pub(super) fn clear(&mut self) -> Vec<Arc<dyn Courier>> {
        let members = std::mem::take(&mut self.members);
        members.into_values().map(|member| member.courier).collect()
    }
}
