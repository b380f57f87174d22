//! The broker: the driver's list of living workers. It tells each of them who else lives, and makes the pairs of ends
//! between them.

use std::sync::Arc;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::{Peer, ProcessId};

use super::notice::{Notice, Secret};
use crate::platform::peer_socket::{PeerEnd, pair};
use crate::process_name::ProcessName;
use crate::topology::{Station, Topology};

/// The way to one worker that does not depend on any link of the hub.
pub(crate) trait Courier: Send + Sync {
    /// Sends a notice, with an end of a pair if one belongs to it. Never blocks.
    fn tell(&self, notice: Notice, end: Option<PeerEnd>);

    /// Kills the worker, for this reason. Its death is noticed as any other.
    fn kill(&self, why: &str);

    /// The worker, as errors name it.
    fn name(&self) -> Option<ProcessName> {
        None
    }
}

/// The reason that two workers have no link, neither of which others can dial.
const NOBODY_LISTENS: &str = "neither of the two listens for other workers (help: start one of them without `--no-port`, or add \
     a worker of this host by `LocalManager`)";

/// The part that a process plays which joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinsAs {
    /// A process that runs functions and actors.
    Worker,
    /// A process with a program of its own, which takes no work.
    #[cfg_attr(not(feature = "hosts"), expect(dead_code, reason = "jobs dial in"))]
    Job,
}

impl JoinsAs {
    /// The notice by which others learn of the process.
    fn notice(self, peer: Peer, name: Option<ProcessName>) -> Notice {
        match self {
            JoinsAs::Worker => Notice::Joined(peer, name),
            JoinsAs::Job => Notice::Job(peer, name),
        }
    }
}

struct Member {
    peer: Peer,
    joins_as: JoinsAs,
    courier: Arc<dyn Courier>,
    /// How others reach the worker; `None` for one of this host, which takes ends of pairs.
    station: Option<Station>,
    /// The workers to which a pair was made.
    linked: IdSet<ProcessId>,
}

#[derive(Default)]
pub(super) struct Broker {
    members: IdMap<ProcessId, Member>,
    /// The keys by which workers of this host dial others, once there is a member of another host.
    keys: Option<Secret>,
    topology: Topology,
}

impl Broker {
    /// Adds a worker. The worker and all others are told of each other, and linked if the topology wants that.
    pub(super) fn join(
        &mut self,
        peer: Peer,
        courier: Arc<dyn Courier>,
        station: Option<Station>,
        joins_as: JoinsAs,
    ) {
        for other in self.members.values() {
            other.courier.tell(joins_as.notice(peer, courier.name()), None);
            let known = other.joins_as.notice(other.peer, other.courier.name());
            courier.tell(known, None);
        }
        // Last, so that whoever has heard its own name knows all others.
        if let Some(name) = courier.name() {
            courier.tell(joins_as.notice(peer, Some(name)), None);
        }
        let linked = IdSet::new();
        let member = Member {
            peer,
            joins_as,
            courier,
            station,
            linked,
        };
        self.members.insert(peer.process, member);
        if self.topology.is_eager() && joins_as == JoinsAs::Worker {
            self.link_all(peer);
        }
    }

    /// Links a new worker with the others, as far as one of the two is dialled.
    fn link_all(&mut self, peer: Peer) {
        let one = self.station(peer);
        let others = self.members.values().filter(|other| {
            let other_station = other.station.as_ref();
            other.peer != peer
                && other.joins_as == JoinsAs::Worker
                && (one.is_some() || other_station.is_some())
                && self.topology.allows(one.as_ref(), other_station)
        });
        let is_dialled = |other: &Member| {
            let stations = one.as_ref().zip(other.station.as_ref());
            stations.is_some_and(|(one, other)| self.topology.is_dialled(one, other))
        };
        let others: Vec<(Peer, bool)> = others.map(|other| (other.peer, is_dialled(other))).collect();
        for (other, is_dialled) in others {
            match is_dialled {
                true => self.connect(other, peer),
                false => self.connect(peer, other),
            }
        }
    }

    /// Sets which workers have links with each other.
    #[cfg(feature = "hosts")]
    pub(super) fn set_topology(&mut self, topology: Topology) {
        self.topology = topology;
    }

    /// Sets the keys by which workers of this host dial others.
    #[cfg(feature = "hosts")]
    pub(super) fn set_keys(&mut self, keys: Secret) {
        self.keys = Some(keys);
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

    /// Makes a link between two workers because one of them asks for it: each gets its end of a pair, or one of them dials.
    pub(super) fn connect(&mut self, from: Peer, about: Peer) {
        let Some(asker) = self.courier(from).cloned() else {
            return;
        };
        let Some(other) = self.courier(about).cloned().filter(|_| from != about) else {
            return asker.tell(Notice::Died(about), None);
        };
        let (one, two) = (self.station(from), self.station(about));
        if !self.topology.allows(one.as_ref(), two.as_ref()) {
            let why = format!(
                "the topology of the workers ({}) has no link between the two",
                self.topology
            );
            return asker.tell(Notice::NotLinked(about, why), None);
        }
        let is_new = self
            .members
            .get_mut(&from.process)
            .is_some_and(|member| member.linked.insert(about.process));
        if !is_new {
            return;
        }
        // A worker without a station takes ends of pairs, and needs keys to dial.
        let [one_keys, two_keys] = [&one, &two].map(|it| it.is_none().then(|| self.keys.clone()).flatten());
        let is_pair = one.is_none() && two.is_none();
        let [one, two] = [one, two].map(|station| station.and_then(|it| it.listens_at));
        match (one, two) {
            _ if is_pair => match pair() {
                Ok((one, two)) => {
                    other.tell(Notice::Linked(from), Some(two));
                    asker.tell(Notice::Linked(about), Some(one));
                }
                Err(error) => return asker.tell(Notice::NotLinked(about, error.to_string()), None),
            },
            (_, Some(place)) => asker.tell(dial(about, place, one_keys), None),
            (Some(place), None) => other.tell(dial(from, place, two_keys), None),
            (None, None) => return asker.tell(Notice::NotLinked(about, NOBODY_LISTENS.to_owned()), None),
        }
        if let Some(member) = self.members.get_mut(&about.process) {
            member.linked.insert(from.process);
        }
    }

    /// A worker could not dial another one: tells that one, which may wait for the link.
    pub(super) fn not_linked(&self, from: Peer, about: Peer, why: String) {
        if let Some(other) = self.courier(about) {
            other.tell(Notice::NotLinked(from, why), None);
        }
    }

    fn station(&self, peer: Peer) -> Option<Station> {
        self.members.get(&peer.process)?.station.clone()
    }

    /// Removes all workers. Returns the ways to them, which are dropped outside the lock.
    pub(super) fn clear(&mut self) -> Vec<Arc<dyn Courier>> {
        let members = std::mem::take(&mut self.members);
        members.into_values().map(|member| member.courier).collect()
    }
}

fn dial(peer: Peer, connect_at: String, keys: Option<Secret>) -> Notice {
    Notice::Dial {
        peer,
        connect_at,
        keys,
    }
}
