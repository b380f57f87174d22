//! Maps and sets whose keys are identifiers, in the order of the identifiers.
//!
//! `BTreeMap` compiles to some sixty functions for each pair of types, and the packages above have a hundred such pairs.
//! Here one tree, which knows the keys only as numbers, finds the places of the entries in a list. A look-up costs the
//! same, and a program is smaller by a fifth.

mod key;
mod places;
mod set;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Values;
use std::fmt;
use std::hash::{Hash, Hasher};

pub use key::IdKey;
use places::Places;
pub use set::IdSet;

/// A map from identifiers to values, in the order of the identifiers.
#[derive(Clone)]
pub struct IdMap<K: IdKey, V> {
    places: Places<K::Number>,
    entries: Vec<(K, V)>,
}

impl<K: IdKey, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: IdKey, V> IdMap<K, V> {
    /// Creates an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            places: Places::new(),
            entries: Vec::new(),
        }
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
        let Some(place) = self.places.claim(key.number(), self.entries.len()) else {
            self.entries.push((key, value));
            return None;
        };
        let known = self.entries.get_mut(place)?;
        Some(std::mem::replace(&mut known.1, value))
    }

    /// Returns the value of `key`, to be changed; sets it to the value that `make` makes if there was none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let next = self.entries.len();
        let place = self.places.find(key.number()).unwrap_or(next);
        if place == next {
            let value = make();
            self.places.note(key.number(), next);
            self.entries.push((key, value));
        }
        #[expect(
            clippy::indexing_slicing,
            reason = "a place that the tree notes is within the list"
        )]
        &mut self.entries[place].1
    }

    /// Returns the value of `key`, to be changed; sets it to the default value if there was none.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// Returns the value of `key`, which is set to `value` if there was none.
    pub fn get_or_insert(&mut self, key: K, value: V) -> V
    where
        V: Copy,
    {
        *self.get_or_insert_with(key, || value)
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
        self.places = Places::new();
        for (place, (key, _)) in self.entries.iter().enumerate() {
            self.places.note(key.number(), place);
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Removes the entries for which `is_over` returns `true`, and returns them in the order of their keys.
    pub fn extract(&mut self, mut is_over: impl FnMut(&K, &V) -> bool) -> Vec<(K, V)> {
        let over = self.iter().filter(|(key, value)| is_over(key, value));
        let keys: Vec<K> = over.map(|(key, _)| *key).collect();
        keys.into_iter()
            .filter_map(|key| Some((key, self.remove(&key)?)))
            .collect()
    }

    /// Removes the entry with the smallest key, and returns it.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let (key, _) = self.entries.get(self.places.first()?)?;
        let key = *key;
        Some((key, self.remove(&key)?))
    }

    /// Removes the entry with the largest key, and returns it.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let (key, _) = self.last_key_value()?;
        let key = *key;
        Some((key, self.remove(&key)?))
    }

    /// Returns the entries in the order of their keys.
    pub fn iter(&self) -> InOrder<'_, K, V> {
        InOrder {
            places: self.places.in_order(),
            entries: &self.entries,
        }
    }

    /// Returns the entries from `first` to `last`, both included, in the order of their keys.
    pub fn between(&self, first: K, last: K) -> impl Iterator<Item = (&K, &V)> {
        let places = self.places.between(first.number(), last.number());
        let entries = places.filter_map(|place| self.entries.get(place));
        entries.map(|(key, value)| (key, value))
    }

    /// Returns the first entry whose key is `key` or a larger one.
    #[must_use]
    pub fn first_from(&self, key: K) -> Option<(&K, &V)> {
        let (key, value) = self.entries.get(self.places.first_from(key.number())?)?;
        Some((key, value))
    }

    /// Returns the last entry whose key is smaller than `key`.
    #[must_use]
    pub fn last_before(&self, key: K) -> Option<(&K, &V)> {
        let (key, value) = self.entries.get(self.places.last_before(key.number())?)?;
        Some((key, value))
    }

    /// Returns the keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
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

    /// Returns the entry with the smallest key.
    #[must_use]
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        let (key, value) = self.entries.get(self.places.first()?)?;
        Some((key, value))
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
        self.or_default(key).push(item);
    }
}

/// The entries of an [`IdMap`] in the order of their keys.
pub struct InOrder<'a, K: IdKey, V> {
    places: Values<'a, K::Number, usize>,
    entries: &'a [(K, V)],
}

impl<K: IdKey, V> Clone for InOrder<'_, K, V> {
    fn clone(&self) -> Self {
        InOrder {
            places: self.places.clone(),
            entries: self.entries,
        }
    }
}

impl<'a, K: IdKey, V> Iterator for InOrder<'a, K, V> {
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

impl<K: IdKey, V> IntoIterator for IdMap<K, V> {
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
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: IdKey + Eq, V: Eq> Eq for IdMap<K, V> {}

impl<K: IdKey + Hash, V: Hash> Hash for IdMap<K, V> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.len().hash(hasher);
        self.iter().for_each(|entry| entry.hash(hasher));
    }
}

impl<K: fmt::Debug + IdKey, V: fmt::Debug> fmt::Debug for IdMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
