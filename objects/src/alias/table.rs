//! The references of one owner, and what each of them stands for.

use selvedge_cluster::id_map::{IdMap, IdSet};

use super::error::AliasError;
use super::mutant::AliasMutant;
use crate::refs::RefId;

/// The meaning of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Neither a value nor a target was announced.
    Unknown,
    /// The reference stands for this one.
    Alias(RefId),
    /// A value was made under the reference.
    Canonical,
}

/// The end of a chain of aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The reference under which the value was made.
    Canonical(RefId),
    /// The value is not made: this reference has neither a value nor a target.
    Undecided(RefId),
}

impl Resolution {
    /// The last reference of the chain.
    #[must_use]
    pub fn end(self) -> RefId {
        match self {
            Resolution::Canonical(end) | Resolution::Undecided(end) => end,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    target: Target,
    /// A later reference of the chain, once the chain was followed: the path is compressed. The references in between
    /// live as long as this one, since each holds the next.
    shortcut: Option<RefId>,
    /// The references whose target this one is.
    aliases: IdSet<RefId>,
}

/// The references of one owner, and what each of them stands for. It holds no handles, and reads no clock.
///
/// Following a chain compresses it, so many resolutions of a chain of n aliases take O(n log n) steps together, and a
/// repeated one takes two. No step recurses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AliasTable {
    entries: IdMap<RefId, Entry>,
    pub(super) mutant: AliasMutant,
}

impl AliasTable {
    /// The number of references in the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a reference of which nothing was announced; false if the table has it already.
    pub fn register(&mut self, id: RefId) -> bool {
        let is_new = !self.entries.contains_key(&id);
        if is_new {
            let entry = Entry {
                target: Target::Unknown,
                shortcut: None,
                aliases: IdSet::new(),
            };
            self.entries.insert(id, entry);
        }
        is_new
    }

    /// The meaning of a reference; `None` if the table does not have it.
    #[must_use]
    pub fn target(&self, id: RefId) -> Option<Target> {
        self.entries.get(&id).map(|entry| entry.target)
    }

    /// Has `alias` stand for `target`. Returns the references that have a value now: none, unless the target has one.
    ///
    /// # Errors
    /// [`AliasError`]: `SelfAlias`, `Unknown`, `AlreadyAliased`, `Cycle`.
    pub fn alias(&mut self, alias: RefId, target: RefId) -> Result<Vec<RefId>, AliasError> {
        if alias == target {
            return Err(AliasError::SelfAlias(alias));
        }
        match self.target(alias).ok_or(AliasError::Unknown(alias))? {
            Target::Alias(_) if self.mutant == AliasMutant::DecidesTwice => {}
            Target::Unknown => {}
            Target::Alias(_) | Target::Canonical => return Err(AliasError::AlreadyAliased(alias)),
        }
        let end = self.resolve(target)?;
        if end.end() == alias && self.mutant != AliasMutant::WalksNothing {
            return Err(AliasError::Cycle { alias, target });
        }
        if let Some(entry) = self.entries.get_mut(&alias) {
            entry.target = Target::Alias(target);
        }
        let is_noted = self.mutant != AliasMutant::ForgetsAliases;
        if let Some(entry) = self.entries.get_mut(&target).filter(|_| is_noted) {
            entry.aliases.insert(alias);
        }
        match end {
            Resolution::Canonical(_) => Ok(self.descent(alias)),
            Resolution::Undecided(_) => Ok(Vec::new()),
        }
    }

    /// A value was made under the reference. Returns the references that have a value now: its class, itself first.
    ///
    /// # Errors
    /// [`AliasError`]: `Unknown`, `NotCanonical`; `AlreadyAliased` if it has a value already.
    pub fn ready(&mut self, id: RefId) -> Result<Vec<RefId>, AliasError> {
        let entry = self.entries.get_mut(&id).ok_or(AliasError::Unknown(id))?;
        match entry.target {
            Target::Unknown => entry.target = Target::Canonical,
            Target::Alias(_) => return Err(AliasError::NotCanonical(id)),
            Target::Canonical => return Err(AliasError::AlreadyAliased(id)),
        }
        Ok(self.descent(id))
    }

    /// Follows a chain to its end, and compresses it.
    ///
    /// # Errors
    /// [`AliasError::Unknown`] for a reference that the table does not have.
    pub fn resolve(&mut self, id: RefId) -> Result<Resolution, AliasError> {
        let mut path = Vec::new();
        let mut at = id;
        let end = loop {
            let entry = self.entries.get(&at).ok_or(AliasError::Unknown(at))?;
            match (entry.target, entry.shortcut) {
                (Target::Unknown, _) => break Resolution::Undecided(at),
                (Target::Canonical, _) => break Resolution::Canonical(at),
                (Target::Alias(next), shortcut) => {
                    path.push(at);
                    at = shortcut.unwrap_or(next);
                }
            }
            // A fault of the table must not become a loop without an end.
            if path.len() > self.entries.len() {
                break Resolution::Undecided(at);
            }
        };
        for passed in path {
            if let Some(entry) = self.entries.get_mut(&passed) {
                entry.shortcut = Some(end.end());
            }
        }
        Ok(end)
    }

    /// A reference and everything that stands for it, the reference first: of the end of a chain, all references that stand for its
    /// object. A work list.
    #[must_use]
    pub fn descent(&self, root: RefId) -> Vec<RefId> {
        let mut found = vec![root];
        let mut at = 0;
        while let Some(id) = found.get(at) {
            let aliases = self.entries.get(id).map(|entry| &entry.aliases);
            found.extend(aliases.into_iter().flatten().copied().collect::<Vec<_>>());
            at += 1;
        }
        found
    }

    /// Forgets a reference whose object was freed. Returns its target, on which the object held a handle: the caller drops that
    /// handle, which may free the target, and so on along the chain.
    ///
    /// # Errors
    /// [`AliasError`]: `Unknown`; `HasAliases` if others stand for it, and so hold it.
    pub fn remove(&mut self, id: RefId) -> Result<Option<RefId>, AliasError> {
        let entry = self.entries.get(&id).ok_or(AliasError::Unknown(id))?;
        if !entry.aliases.is_empty() {
            return Err(AliasError::HasAliases(id));
        }
        let target = entry.target;
        self.entries.remove(&id);
        let Target::Alias(target) = target else {
            return Ok(None);
        };
        if let Some(entry) = self.entries.get_mut(&target) {
            entry.aliases.remove(&id);
        }
        Ok(Some(target))
    }

    /// Whether the aliases are exactly the inverse of the targets, and no chain is a circle (`ALIAS-T2`, `ALIAS-T3`).
    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        let inverse = self.entries.iter().all(|(id, entry)| {
            let of = |other: &RefId| self.target(*other) == Some(Target::Alias(*id));
            let expected = self.entries.keys().filter(|other| of(other)).count();
            entry.aliases.iter().all(of) && entry.aliases.len() == expected
        });
        inverse && self.entries.keys().all(|id| self.ends(*id))
    }

    #[cfg(test)]
    fn ends(&self, id: RefId) -> bool {
        let next = |at: &RefId| match self.target(*at) {
            Some(Target::Alias(next)) => Some(next),
            _ => None,
        };
        let longest = self.entries.len() + 1;
        std::iter::successors(Some(id), next).take(longest + 1).count() <= longest
    }
}
