//! The broker: the driver's list of living workers. It tells each of them who else lives, and makes the pairs of ends
//! between them.

use std::sync::Arc;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::{Peer, ProcessId};

#[cfg(test)]
use super::mutant::MemberMutant;
use super::notice::{Notice, Secret};
use crate::platform::peer_socket::{PeerEnd, pair};
use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;
use crate::topology::{Station, Topology};

/// The way to one worker that does not depend on any link of the hub.
pub(crate) trait Courier: Send + Sync {
    /// Sends a notice, with an end of a pair if one belongs to it. Never blocks.
    fn tell(&self, notice: Notice, end: Option<PeerEnd>);

    /// Kills the worker, for this reason. Its death is noticed as any other.
    fn kill(&self, why: &str);

    /// How the process of the worker ends, if that is seen already.
    fn seen_end(&self) -> Option<ProcessEnd> {
        None
    }

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

/// A notice that a process has joined, for a member.
pub(super) struct News {
    pub(super) to: Peer,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) notice: Notice,
}

/// The steps that follow when a process has joined.
pub(super) struct Joined {
    /// In the order in which it is told.
    pub(super) all_news: Vec<News>,
    /// The members that have asked for a link to the process while it was away.
    pub(super) wanted: IdSet<Peer>,
}

struct Member {
    peer: Peer,
    joins_as: JoinsAs,
    courier: Arc<dyn Courier>,
    /// How others reach the worker; `None` for one of this host, which takes ends of pairs.
    station: Option<Station>,
    /// The workers to which a pair was made.
    linked: IdSet<ProcessId>,
    /// Whether the worker was told to end.
    leaves: bool,
    /// Whether the worker was a member in the head's last life, and so has its links to others that were.
    is_back: bool,
}

#[derive(Default)]
pub(super) struct Broker {
    members: IdMap<ProcessId, Member>,
    /// The keys by which workers of this host dial others, once there is a member of another host.
    keys: Option<Secret>,
    topology: Topology,
    /// The head, if it takes no work.
    only_head: Option<Peer>,
    /// The members of the head's last life that may come back, each with those that want a link to it.
    away: IdMap<Peer, IdSet<Peer>>,
    /// The number of the first process of this life of the head.
    first: u32,
    #[cfg(test)]
    pub(super) mutant: MemberMutant,
}

impl Broker {
    /// Begins the life of a head that takes no work.
    #[cfg(feature = "hosts")]
    pub(super) fn begin(&mut self, head: Peer, first: u32, away: Vec<Peer>) {
        self.only_head = Some(head);
        self.first = first;
        self.away = away.into_iter().map(|peer| (peer, IdSet::new())).collect();
    }

    /// The processes of earlier lives of the head that live, or may.
    fn survivors(&self) -> Notice {
        let members = self.members.values().map(|member| member.peer);
        let living = self
            .only_head
            .into_iter()
            .chain(self.away.keys().copied())
            .chain(members);
        Notice::Survivors {
            below: self.first,
            living: living.filter(|peer| peer.process.number() < self.first).collect(),
        }
    }

    /// Whether a peer that has no link yet may get one: it has joined, or was a member in the head's last life.
    pub(super) fn expects(&self, peer: Peer) -> bool {
        let member = self.members.get(&peer.process);
        self.away.contains_key(&peer) || member.is_some_and(|member| member.peer == peer)
    }

    /// A member of the head's last life is dead. All are told: some may have known it.
    #[cfg(feature = "hosts")]
    pub(super) fn stayed_away(&mut self, peer: Peer, end: &ProcessEnd) {
        if self.away.remove(&peer).is_none() {
            return;
        }
        self.tell_others(&Notice::Died(peer, end.clone()), peer);
    }

    /// Adds a worker. Once the worker and all others have been told of each other, [`link_joined`](Self::link_joined) makes its links.
    pub(super) fn join(
        &mut self,
        peer: Peer,
        courier: Arc<dyn Courier>,
        station: Option<Station>,
        joins_as: JoinsAs,
    ) -> Joined {
        let mut all_news = Vec::new();
        let mut tell = |to, courier: &Arc<dyn Courier>, notice| {
            let courier = Arc::clone(courier);
            all_news.push(News { to, courier, notice });
        };
        for other in self.members.values() {
            tell(other.peer, &other.courier, joins_as.notice(peer, courier.name()));
            let known = other.joins_as.notice(other.peer, other.courier.name());
            tell(peer, &courier, known);
            if other.leaves {
                tell(peer, &courier, Notice::Leaves(other.peer));
            }
        }
        if let Some(head) = self.only_head {
            tell(peer, &courier, Notice::Job(head, None));
        }
        let tells_survivors = self.away.contains_key(&peer);
        #[cfg(test)]
        let tells_survivors = tells_survivors && self.mutant != MemberMutant::ForgetsSurvivors;
        if tells_survivors {
            courier.tell(self.survivors(), None);
        }
        let wanted = self.away.remove(&peer);
        // Last, so that whoever has heard its own name knows all others.
        if let Some(name) = courier.name() {
            tell(peer, &courier, joins_as.notice(peer, Some(name)));
        }
        let linked = IdSet::new();
        let member = Member {
            peer,
            joins_as,
            courier,
            station,
            linked,
            leaves: false,
            is_back: wanted.is_some(),
        };
        self.members.insert(peer.process, member);
        let wanted = wanted.into_iter().flatten().collect();
        Joined { all_news, wanted }
    }

    /// Links a worker that has joined with others, if the topology wants that, and with those that have asked for it.
    pub(super) fn link_joined(&mut self, peer: Peer, wanted: &IdSet<Peer>) {
        let joins_as = self.members.get(&peer.process).map(|member| member.joins_as);
        if self.topology.is_eager() && joins_as == Some(JoinsAs::Worker) {
            self.link_all(peer);
        }
        for asker in wanted {
            self.connect(*asker, peer);
        }
    }

    /// Links a new worker with the others, as far as one of the two is dialled.
    fn link_all(&mut self, peer: Peer) {
        let one = self.station(peer);
        let is_back = |peer: Peer| self.members.get(&peer.process).is_some_and(|it| it.is_back);
        let one_is_back = is_back(peer);
        let others = self.members.values().filter(|other| {
            let other_station = other.station.as_ref();
            other.peer != peer
                && !(one_is_back && other.is_back)
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

    /// A worker was told to end. Tells the others, and those that join later.
    pub(super) fn leaves(&mut self, peer: Peer) {
        let member = self.members.get_mut(&peer.process);
        let Some(member) = member.filter(|member| member.peer == peer) else {
            return;
        };
        member.leaves = true;
        self.tell_others(&Notice::Leaves(peer), peer);
    }

    /// Removes a worker that is dead, and tells the others how it ended. Returns the way to it.
    pub(super) fn bury(&mut self, peer: Peer, end: &ProcessEnd) -> Option<Arc<dyn Courier>> {
        self.courier(peer)?;
        let member = self.members.remove(&peer.process)?;
        #[cfg(test)]
        if self.mutant == MemberMutant::BuriesSilently {
            return Some(member.courier);
        }
        for other in self.members.values_mut() {
            other.linked.remove(&peer.process);
        }
        self.tell_others(&Notice::Died(peer, end.clone()), peer);
        Some(member.courier)
    }

    /// Tells all members but the one that it is about.
    fn tell_others(&self, notice: &Notice, about: Peer) {
        let others = self.members.values().filter(|member| member.peer != about);
        others.for_each(|other| other.courier.tell(notice.clone(), None));
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
        if let Some(wanted) = self.away.get_mut(&about) {
            #[cfg(test)]
            match self.mutant {
                MemberMutant::TakesAwayForDead => {
                    return asker.tell(Notice::Died(about, ProcessEnd::unknown()), None);
                }
                MemberMutant::ForgetsWanted => return,
                _ => {}
            }
            wanted.insert(from);
            return;
        }
        let Some(other) = self.courier(about).cloned().filter(|_| from != about) else {
            #[cfg(test)]
            if self.mutant == MemberMutant::LeavesWaiting {
                return;
            }
            return asker.tell(Notice::Died(about, ProcessEnd::unknown()), None);
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
        #[cfg(test)]
        let is_new = is_new || self.mutant == MemberMutant::LinksTwice;
        if !is_new {
            return;
        }
        #[cfg(test)]
        if self.mutant == MemberMutant::LinksNever {
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

#[cfg(test)]
impl Broker {
    /// Adds a worker, tells all by their couriers, and makes the links.
    pub(super) fn join_and_tell(&mut self, peer: Peer, courier: Arc<dyn Courier>, station: Option<Station>) {
        let joined = self.join(peer, courier, station, JoinsAs::Worker);
        for news in joined.all_news {
            news.courier.tell(news.notice, None);
        }
        self.link_joined(peer, &joined.wanted);
    }
}

fn dial(peer: Peer, connect_at: String, keys: Option<Secret>) -> Notice {
    Notice::Dial {
        peer,
        connect_at,
        keys,
    }
}

#[cfg(all(test, feature = "hosts"))]
mod tests {
    use parking_lot::Mutex;
    use selvedge_cluster::peer::Incarnation;

    use super::*;
    use crate::testing::peer;
    use crate::topology::Names;

    /// Notes what a member is told.
    #[derive(Default)]
    struct TellTale(Mutex<Vec<Notice>>);

    impl Courier for TellTale {
        fn tell(&self, notice: Notice, _: Option<PeerEnd>) {
            self.0.lock().push(notice);
        }

        fn kill(&self, _: &str) {}
    }

    impl TellTale {
        fn take(&self) -> Vec<Notice> {
            std::mem::take(&mut self.0.lock())
        }
    }

    fn join(broker: &mut Broker, member: Peer) -> Arc<TellTale> {
        let told = Arc::<TellTale>::default();
        let station = Station {
            listens_at: Some(format!("place {member}")),
            names: Names::default(),
        };
        broker.join_and_tell(member, Arc::clone(&told) as _, Some(station));
        told
    }

    #[test]
    fn rft_07_a_link_to_a_member_that_is_away_waits_for_its_coming_back_or_its_death() {
        let head = Peer {
            incarnation: Incarnation(2),
            ..peer(1)
        };
        let (one, two, three) = (peer(2), peer(3), peer(4));
        let mut broker = Broker::default();
        broker.begin(head, 6, vec![one, two, three]);
        assert!(broker.expects(one) && !broker.expects(peer(5)) && !broker.expects(peer(6)));
        let new = join(&mut broker, peer(6));
        let at_one = join(&mut broker, one);
        let living = vec![head, one, two, three];
        let told = [
            Notice::Survivors { below: 6, living },
            Notice::Joined(peer(6), None),
            Notice::Job(head, None),
        ];
        assert_eq!(at_one.take(), told, "process 5 has died with the last life");
        drop(new);
        broker.connect(one, two);
        broker.connect(one, three);
        assert_eq!(at_one.take(), [], "nothing is known of either yet");
        let at_two = join(&mut broker, two);
        let joined = Notice::Joined(two, None);
        let dial = Notice::Dial {
            peer: two,
            connect_at: format!("place {two}"),
            keys: None,
        };
        assert_eq!(at_one.take(), [joined, dial]);
        broker.stayed_away(three, &ProcessEnd::unknown());
        broker.stayed_away(three, &ProcessEnd::unknown());
        assert!(broker.expects(two) && !broker.expects(three));
        assert_eq!(at_one.take(), [Notice::Died(three, ProcessEnd::unknown())]);
        assert_eq!(
            at_two.take().last(),
            Some(&Notice::Died(three, ProcessEnd::unknown()))
        );
        broker.connect(one, three);
        assert_eq!(at_one.take(), [Notice::Died(three, ProcessEnd::unknown())]);
        // Whoever is new has never heard of the dead.
        let at_new = join(&mut broker, peer(7)).take();
        let is_of_dead = |notice: &Notice| matches!(notice, Notice::Died(..) | Notice::Survivors { .. });
        assert!(!at_new.iter().any(is_of_dead));
    }

    #[test]
    fn whoever_joins_while_a_worker_leaves_hears_of_both() {
        let mut broker = Broker::default();
        let (leaves, stays, new) = (peer(2), peer(3), peer(4));
        let [at_leaves, at_stays] = [leaves, stays].map(|member| join(&mut broker, member));
        at_leaves.take();
        at_stays.take();
        broker.leaves(leaves);
        broker.leaves(peer(9));
        assert_eq!(at_leaves.take(), []);
        assert_eq!(at_stays.take(), [Notice::Leaves(leaves)]);
        let told = join(&mut broker, new).take();
        let about_leaving = [Notice::Joined(leaves, None), Notice::Leaves(leaves)];
        assert!(told.windows(2).any(|two| two == about_leaving), "{told:?}");
    }

    #[test]
    fn members_that_come_back_have_their_links_and_new_ones_get_theirs() {
        let mut broker = Broker::default();
        broker.set_topology(Topology::AllToAll { lazy: false });
        let (one, two, new) = (peer(2), peer(3), peer(4));
        broker.begin(peer(1), 4, vec![one, two]);
        let told = [one, two, new].map(|member| join(&mut broker, member));
        let dials = told.map(|told| {
            let notices = told.take().into_iter();
            notices
                .filter(|notice| matches!(notice, Notice::Dial { .. }))
                .count()
        });
        assert_eq!(dials, [0, 0, 2]);
    }
}
