//! The tree below a map.

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, Values};

/// The places of entries in their list, by the number of the key.
#[derive(Clone)]
pub(super) struct Places<N>(BTreeMap<N, usize>);

impl<N: Copy + Ord> Places<N> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn find(&self, number: N) -> Option<usize> {
        self.0.get(&number).copied()
    }

    /// Notes a place, and returns the place that the number had before.
    pub(super) fn note(&mut self, number: N, place: usize) -> Option<usize> {
        self.0.insert(number, place)
    }

    /// Notes a place for a number that has none. Returns the place that it has.
    pub(super) fn claim(&mut self, number: N, place: usize) -> Option<usize> {
        match self.0.entry(number) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(free) => {
                free.insert(place);
                None
            }
        }
    }

    pub(super) fn forget(&mut self, number: N) -> Option<usize> {
        self.0.remove(&number)
    }

    pub(super) fn in_order(&self) -> Values<'_, N, usize> {
        self.0.values()
    }

    pub(super) fn between(&self, first: N, last: N) -> impl Iterator<Item = usize> {
        // A tree refuses a range whose ends are the wrong way round.
        let range = (first <= last).then(|| self.0.range(first..=last));
        range.into_iter().flatten().map(|(_, place)| *place)
    }

    pub(super) fn first_from(&self, number: N) -> Option<usize> {
        self.0.range(number..).next().map(|(_, place)| *place)
    }

    pub(super) fn last_before(&self, number: N) -> Option<usize> {
        self.0.range(..number).next_back().map(|(_, place)| *place)
    }

    pub(super) fn first(&self) -> Option<usize> {
        self.0.first_key_value().map(|(_, place)| *place)
    }

    pub(super) fn last(&self) -> Option<usize> {
        self.0.last_key_value().map(|(_, place)| *place)
    }
}
