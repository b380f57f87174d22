//! Maps and sets whose keys are identifiers, in the order of the identifiers.
//!
//! `BTreeMap` compiles to some sixty functions for each pair of types, and the actors and the compiler have eighty such
//! pairs. Here one tree, which knows the keys only as numbers, finds the places of the entries in a list. A look-up
//! costs the same, and the program is smaller by a sixth.

use std::collections::BTreeMap;
use std::collections::btree_map::Values;
use std::fmt;

use crate::id::{ActorId, Address, LaneId, ProcessId};

/// A key that is a number: its order is the order of the numbers.
pub trait IdKey: Copy {
    /// The number of bits that suffice for each number.
    const BITS: u32;

    /// Returns the number of the key, which no other key has.
    fn number(self) -> u128;
}

macro_rules! numbers {
    ($($key:ty),+) => {$(
        impl IdKey for $key {
            const BITS: u32 = <$key>::BITS;

            fn number(self) -> u128 {
                self as u128
            }
        }
    )+};
}

numbers!(u16, u32, u64, usize);

macro_rules! ids {
    ($($key:ty),+) => {$(
        impl IdKey for $key {
            const BITS: u32 = u32::BITS;

            fn number(self) -> u128 {
                self.0.into()
            }
        }
    )+};
}

ids!(ActorId, LaneId, ProcessId);

impl IdKey for Address {
    const BITS: u32 = 3 * u32::BITS;

    fn number(self) -> u128 {
        (self.host.0, (self.process, self.lane)).number()
    }
}

impl<A: IdKey, B: IdKey> IdKey for (A, B) {
    const BITS: u32 = {
        assert!(A::BITS + B::BITS <= u128::BITS, "these keys have too many bits");
        A::BITS + B::BITS
    };

    fn number(self) -> u128 {
        // A shift by 128 bits or more does not compile, since `BITS` of the pair is then too large.
        const { assert!(Self::BITS <= u128::BITS) };
        self.0.number() << B::BITS | self.1.number()
    }
}

impl<A: IdKey> IdKey for Option<A> {
    const BITS: u32 = A::BITS + 1;

    fn number(self) -> u128 {
        self.map_or(0, |key| 1 << A::BITS | key.number())
    }
}

/// The places of entries in their list, by the number of the key.
#[derive(Clone, Default)]
struct Places(BTreeMap<u128, usize>);

impl Places {
    fn find(&self, number: u128) -> Option<usize> {
        self.0.get(&number).copied()
    }

    /// Notes a place, and returns the place that the number had before.
    fn note(&mut self, number: u128, place: usize) -> Option<usize> {
        self.0.insert(number, place)
    }

    fn forget(&mut self, number: u128) -> Option<usize> {
        self.0.remove(&number)
    }

    fn in_order(&self) -> Values<'_, u128, usize> {
        self.0.values()
    }

    fn last(&self) -> Option<usize> {
        self.0.last_key_value().map(|(_, place)| *place)
    }
}

/// A map from identifiers to values, in the order of the identifiers.
#[derive(Clone)]
pub struct IdMap<K, V> {
    places: Places,
    entries: Vec<(K, V)>,
}

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self {
            places: Places::default(),
            entries: Vec::new(),
        }
    }
}

impl<K: IdKey, V> IdMap<K, V> {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is an entry for `key`.
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.places.find(key.number()).is_some()
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let place = self.places.find(key.number())?;
        self.entries.get(place).map(|(_, value)| value)
    }

    /// Returns the value of `key`, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.places.find(key.number())?;
        self.entries.get_mut(place).map(|(_, value)| value)
    }

    /// Sets the value of `key`, and returns the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.get_mut(&key) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.places.note(key.number(), self.entries.len());
                self.entries.push((key, value));
                None
            }
        }
    }

    /// Changes the value of `key`, which is the default value if there was none.
    pub fn change(&mut self, key: K, work: impl FnOnce(&mut V))
    where
        V: Default,
    {
        match self.get_mut(&key) {
            Some(value) => work(value),
            None => {
                let mut value = V::default();
                work(&mut value);
                self.insert(key, value);
            }
        }
    }

    /// Returns the value of `key`, which is set to `value` if there was none.
    pub fn get_or_insert(&mut self, key: K, value: V) -> V
    where
        V: Copy,
    {
        let old = self.get(&key).copied();
        old.unwrap_or_else(|| {
            self.insert(key, value);
            value
        })
    }

    /// Removes the entry of `key`, and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.forget(key.number())?;
        let (_, value) = self.entries.swap_remove(place);
        if let Some((moved, _)) = self.entries.get(place) {
            self.places.note(moved.number(), place);
        }
        Some(value)
    }

    /// Keeps the entries for which `keep` returns `true`.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
        self.places = Places::default();
        for (place, (key, _)) in self.entries.iter().enumerate() {
            self.places.note(key.number(), place);
        }
    }

    /// Returns the entries in the order of their keys.
    pub fn iter(&self) -> InOrder<'_, K, V> {
        InOrder {
            places: self.places.in_order(),
            entries: &self.entries,
        }
    }

    /// Returns the keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the values, in no particular order, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Returns the values in the order of their keys.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    /// Returns the entries, in no particular order, with values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns the entry with the largest key.
    #[must_use]
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        let (key, value) = self.entries.get(self.places.last()?)?;
        Some((key, value))
    }
}

impl<K: IdKey, T> IdMap<K, Vec<T>> {
    /// Appends an item to the list of `key`.
    pub fn push_to(&mut self, key: K, item: T) {
        self.change(key, |list| list.push(item));
    }
}

/// The entries of an [`IdMap`] in the order of their keys.
pub struct InOrder<'a, K, V> {
    places: Values<'a, u128, usize>,
    entries: &'a [(K, V)],
}

impl<'a, K, V> Iterator for InOrder<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.entries.get(*self.places.next()?)?;
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl<'a, K: IdKey, V> IntoIterator for &'a IdMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = InOrder<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> IntoIterator for IdMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        let mut entries: Vec<Option<(K, V)>> = self.entries.into_iter().map(Some).collect();
        let take = |place: &usize| entries.get_mut(*place).and_then(Option::take);
        let in_order: Vec<(K, V)> = self.places.in_order().filter_map(take).collect();
        in_order.into_iter()
    }
}

impl<K: IdKey, V> FromIterator<(K, V)> for IdMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: IdKey, V> Extend<(K, V)> for IdMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: IdKey + PartialEq, V: PartialEq> PartialEq for IdMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: IdKey + Eq, V: Eq> Eq for IdMap<K, V> {}

impl<K: fmt::Debug + IdKey, V: fmt::Debug> fmt::Debug for IdMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// A set of identifiers, in their order.
#[derive(Clone)]
pub struct IdSet<K>(IdMap<K, ()>);

impl<K> Default for IdSet<K> {
    fn default() -> Self {
        Self(IdMap::default())
    }
}

impl<K: IdKey> IdSet<K> {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of identifiers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no identifiers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains `key`.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Adds an identifier; returns `false` if the set contained it already.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    /// Removes an identifier; returns whether the set contained it.
    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    /// Removes all identifiers.
    pub fn clear(&mut self) {
        self.0 = IdMap::new();
    }

    /// Returns the smallest identifier.
    #[must_use]
    pub fn first(&self) -> Option<&K> {
        self.iter().next()
    }

    /// Returns the largest identifier.
    #[must_use]
    pub fn last(&self) -> Option<&K> {
        self.0.last_key_value().map(|(key, ())| key)
    }

    /// Returns the identifiers in their order.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}

impl<'a, K: IdKey> IntoIterator for &'a IdSet<K> {
    type Item = &'a K;
    type IntoIter = std::iter::Map<InOrder<'a, K, ()>, fn((&'a K, &'a ())) -> &'a K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, ())| key)
    }
}

impl<K> IntoIterator for IdSet<K> {
    type Item = K;
    type IntoIter = std::vec::IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        let keys: Vec<K> = self.0.into_iter().map(|(key, ())| key).collect();
        keys.into_iter()
    }
}

impl<K: IdKey> FromIterator<K> for IdSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

impl<K: IdKey> Extend<K> for IdSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: fmt::Debug + IdKey> fmt::Debug for IdSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_map_does_what_a_tree_does() {
        let (mut map, mut tree) = (IdMap::new(), BTreeMap::new());
        let mut seed = 0x9e37_79b9_u32;
        for step in 0..20_000_u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (ActorId(seed >> 24), LaneId(seed >> 22 & 3));
            match seed >> 20 & 3 {
                0 => assert_eq!(map.remove(&key), tree.remove(&key)),
                1 => map.change(key, |value| *value += step),
                _ => assert_eq!(map.insert(key, step), tree.insert(key, step)),
            }
            if seed >> 20 & 3 == 1 {
                *tree.entry(key).or_default() += step;
            }
            assert_eq!(map.get(&key), tree.get(&key));
            if step % 97 == 0 {
                map.retain(|(actor, _), value| (actor.0 + *value) % 3 > 0);
                tree.retain(|(actor, _), value| (actor.0 + *value) % 3 > 0);
            }
            assert_eq!(
                (map.len(), map.last_key_value()),
                (tree.len(), tree.last_key_value())
            );
        }
        assert!(map.iter().eq(tree.iter()));
        assert!(map.into_iter().eq(tree));
    }

    #[test]
    fn keys_are_ordered_as_their_numbers() {
        let mut keys = BTreeSet::new();
        for process in [0, 1, u32::MAX] {
            for lane in [0, 7, u32::MAX] {
                let address = Address::of(ProcessId(process), LaneId(lane));
                keys.insert((Some(address), 3_u16));
                keys.insert((Some(address), u16::MAX));
            }
        }
        keys.insert((None, u16::MAX));
        let set: IdSet<_> = keys.iter().rev().copied().collect();
        assert!(set.iter().eq(keys.iter()));
        assert!(set.into_iter().eq(keys));
    }
}
