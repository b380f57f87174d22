//! A pure call that runs, as the outer call of those that it submits.
//!
//! If the call runs again, it submits them again, in the same order and with the same arguments: so each has the same name as before, by which
//! the process that schedules finds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;
use selvedge_objects::refs::RefId;
use serde::{Deserialize, Serialize};

use crate::lineage::{CallDigest, NestedPlace, NestedSpec, ReferenceName};
use crate::reference::transit::CARRIED_BYTES_MAX;

/// The name of a pure call, which travels to where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallName {
    /// The number of the call at the process that schedules.
    pub(crate) number: u64,
    pub(crate) digest: CallDigest,
    /// The references in its arguments that have names, by their places there.
    pub(crate) named: NamedReferences,
}

/// The references of a list that nested calls have made or put, each with its place and name.
pub(crate) type NamedReferences = Vec<(u32, CallDigest)>;

/// The name of a call that a pure call submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NestedName {
    /// The number of the outer call at the process that schedules.
    pub(crate) outer: u64,
    /// The number of the letter that has brought the outer call.
    pub(crate) letter: u64,
    pub(crate) digest: CallDigest,
}

impl NestedName {
    /// The name, as the lineage knows it.
    pub(crate) fn spec(self) -> NestedSpec {
        let NestedName {
            outer, digest: name, ..
        } = self;
        NestedSpec { outer, name }
    }
}

/// An attempt of a pure call, as the code that runs sees it.
pub(crate) struct OuterCall {
    number: u64,
    /// The number of the letter that has brought it; 0 in the process that schedules.
    letter: u64,
    digest: CallDigest,
    /// The number of calls that it has submitted, and of values that it has put.
    count: AtomicU64,
    /// The references that it has made, and those in its arguments that have names.
    names: Mutex<IdMap<RefId, CallDigest>>,
}

impl OuterCall {
    /// The call that a letter has brought, with the references in its arguments.
    pub(crate) fn new(name: CallName, letter: u64, arguments: impl Iterator<Item = RefId>) -> Arc<Self> {
        let mut names = IdMap::new();
        if !name.named.is_empty() {
            let arguments: Vec<RefId> = arguments.collect();
            for (place, name) in name.named {
                let argument = usize::try_from(place).ok().and_then(|place| arguments.get(place));
                argument.map(|argument| names.insert(*argument, name));
            }
        }
        Arc::new(OuterCall {
            number: name.number,
            letter,
            digest: name.digest,
            count: AtomicU64::new(0),
            names: Mutex::new(names),
        })
    }

    /// The bytes of fetched values that may travel along with what is submitted or put on behalf of `outer`: they differ from run to run, so
    /// they are no part of what a name is made of.
    pub(crate) fn carried_bytes_max(outer: Option<&Arc<Self>>) -> usize {
        outer.map_or(CARRIED_BYTES_MAX, |_| 0)
    }

    /// The place of the next call or put.
    pub(crate) fn next_place(&self) -> NestedPlace {
        // Relaxed: the places only have to differ.
        (self.digest, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// The call has made this reference.
    pub(crate) fn note(&self, made: RefId, name: CallDigest) {
        self.names.lock().insert(made, name);
    }

    /// The references, as names of calls count them.
    pub(crate) fn reference_names(&self, references: impl Iterator<Item = RefId>) -> Vec<ReferenceName> {
        let names = self.names.lock();
        let name = |id: RefId| match names.get(&id) {
            Some(name) => ReferenceName::Made(*name),
            None => ReferenceName::Object(id),
        };
        references.map(name).collect()
    }

    /// The name of a call that this one submits.
    pub(crate) fn nested(&self, digest: CallDigest) -> NestedName {
        NestedName {
            outer: self.number,
            letter: self.letter,
            digest,
        }
    }
}

/// The names among those of references, with their places.
pub(crate) fn named(names: &[ReferenceName]) -> NamedReferences {
    let named = (0..).zip(names).filter_map(|(place, name)| match name {
        ReferenceName::Made(name) => Some((place, *name)),
        ReferenceName::Object(_) => None,
    });
    named.collect()
}
