//! The values of a channel: stored, or on their way to a taker.

use selvedge_cluster::id_map::IdMap;

use super::mutant::ChannelMutant;
use super::waiters::Asker;

/// Values in the order in which they were put.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Items<V> {
    /// By place in the order of puts.
    stored: IdMap<u64, V>,
    /// The values on their way, each with its place.
    reserved: IdMap<Asker, (u64, V)>,
    /// The place of the next put.
    next: u64,
}

impl<V: Clone> Items<V> {
    pub(super) fn new() -> Self {
        Items {
            stored: IdMap::new(),
            reserved: IdMap::new(),
            next: 0,
        }
    }

    /// Stores a value behind all others.
    pub(super) fn push(&mut self, value: V) {
        self.stored.insert(self.next, value);
        self.next += 1;
    }

    /// Reserves the oldest stored value for a taker.
    pub(super) fn reserve(&mut self, taker: Asker, mutant: ChannelMutant) -> Option<V> {
        let (place, value) = if mutant == ChannelMutant::TakesTheNewest {
            self.stored.pop_last()?
        } else if mutant == ChannelMutant::DeliversTwice {
            self.stored.first_key_value().map(|(at, it)| (*at, it.clone()))?
        } else {
            self.stored.pop_first()?
        };
        self.reserved.insert(taker, (place, value.clone()));
        Some(value)
    }

    /// Removes what a taker has got. Returns whether there was something.
    pub(super) fn acknowledge(&mut self, taker: Asker) -> bool {
        self.reserved.remove(&taker).is_some()
    }

    /// Puts back what a taker has not acknowledged, at its old place: before everything that was put later.
    pub(super) fn put_back(&mut self, taker: Asker, mutant: ChannelMutant) {
        let Some((place, value)) = self.reserved.remove(&taker) else {
            return;
        };
        if mutant == ChannelMutant::ReturnsToTheBack {
            self.push(value);
        } else {
            self.stored.insert(place, value);
        }
    }

    pub(super) fn is_reserved(&self, taker: Asker) -> bool {
        self.reserved.contains_key(&taker)
    }

    pub(super) fn first(&self) -> Option<&V> {
        self.stored.values().next()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.stored.values()
    }

    #[cfg(test)]
    pub(super) fn reserved_values(&self) -> impl Iterator<Item = &V> {
        self.reserved.values().map(|(_, value)| value)
    }

    pub(super) fn clear(&mut self) {
        self.stored.clear();
    }

    pub(super) fn stored(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn reserved(&self) -> usize {
        self.reserved.len()
    }
}
