//! Sets of identifiers.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::{IdKey, IdMap, InOrder};

/// A set of identifiers, in their order.
#[derive(Clone)]
pub struct IdSet<K: IdKey>(IdMap<K, ()>);

impl<K: IdKey> Default for IdSet<K> {
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

    /// Removes the smallest identifier, and returns it.
    pub fn pop_first(&mut self) -> Option<K> {
        self.0.pop_first().map(|(key, ())| key)
    }

    /// Removes all identifiers.
    pub fn clear(&mut self) {
        self.0 = IdMap::new();
    }

    /// Returns the smallest identifier.
    #[must_use]
    pub fn first(&self) -> Option<&K> {
        self.0.first_key_value().map(|(key, ())| key)
    }

    /// Returns the largest identifier.
    #[must_use]
    pub fn last(&self) -> Option<&K> {
        self.0.last_key_value().map(|(key, ())| key)
    }

    /// Keeps the identifiers for which `keep` returns `true`.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.0.retain(|key, ()| keep(key));
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

impl<K: IdKey> IntoIterator for IdSet<K> {
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

impl<K: IdKey + PartialEq> PartialEq for IdSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: IdKey + Eq> Eq for IdSet<K> {}

impl<K: IdKey + Hash> Hash for IdSet<K> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl<K: fmt::Debug + IdKey> fmt::Debug for IdSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
