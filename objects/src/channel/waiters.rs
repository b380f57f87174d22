//! Requests that wait, in the order in which they came.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;

/// A request, by its process and that process's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Asker {
    pub(super) peer: Peer,
    pub(super) number: u64,
}

/// The place of a request among all requests of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Arrival(u64);

selvedge_cluster::id_key!(Asker as (Peer, u64): |asker| (asker.peer, asker.number));

selvedge_cluster::id_key!(Arrival as u64: |arrival| arrival.0);

/// The interest of a process that does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sight {
    /// The oldest value.
    Value,
    /// Only that there is one.
    Presence,
}

/// Requests of one kind that wait, each with what it brings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiters<T>(IdMap<Arrival, (Asker, T)>);

impl<T> Waiters<T> {
    pub(super) fn new() -> Self {
        Waiters(IdMap::new())
    }

    pub(super) fn push(&mut self, arrival: Arrival, asker: Asker, brings: T) {
        self.0.insert(arrival, (asker, brings));
    }

    pub(super) fn pop(&mut self) -> Option<(Asker, T)> {
        self.0.pop_first().map(|(_, waiter)| waiter)
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.0.values().next().map(|(_, brings)| brings)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn remove(&mut self, arrival: Arrival) {
        self.0.remove(&arrival);
    }
}

/// All requests that are open: those that wait, and takes that are not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    arrived: u64,
    by_peer: IdMap<Peer, IdMap<u64, Arrival>>,
}

impl Open {
    pub(super) fn new() -> Self {
        Open {
            arrived: 0,
            by_peer: IdMap::new(),
        }
    }

    /// Enters a request.
    pub(super) fn enter(&mut self, asker: Asker) -> Arrival {
        self.arrived += 1;
        let arrival = Arrival(self.arrived);
        let numbers = self.by_peer.or_default(asker.peer);
        numbers.insert(asker.number, arrival);
        arrival
    }

    /// Removes a request. Returns its place.
    pub(super) fn remove(&mut self, asker: Asker) -> Option<Arrival> {
        let numbers = self.by_peer.get_mut(&asker.peer)?;
        let arrival = numbers.remove(&asker.number);
        if numbers.is_empty() {
            self.by_peer.remove(&asker.peer);
        }
        arrival
    }

    /// Whether a number of a process is in use.
    pub(super) fn contains(&self, asker: Asker) -> bool {
        let numbers = self.by_peer.get(&asker.peer);
        numbers.is_some_and(|numbers| numbers.contains_key(&asker.number))
    }

    /// The numbers of a process's requests.
    pub(super) fn of(&self, peer: Peer) -> Vec<u64> {
        let numbers = self.by_peer.get(&peer);
        numbers.map(|it| it.keys().copied().collect()).unwrap_or_default()
    }

    /// The number of a process's requests.
    pub(super) fn count(&self, peer: Peer) -> usize {
        self.by_peer.get(&peer).map_or(0, IdMap::len)
    }
}
