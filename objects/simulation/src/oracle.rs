//! The observer that sees all processes at once, and knows what none of them knows.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_objects::refs::{RefId, RefStatus};

use crate::process::{Process, index};

/// The objects that were freed.
#[derive(Debug, Default)]
pub struct Oracle {
    freed: BTreeSet<RefId>,
    /// The processes that have had each object or a reference to it.
    touched: BTreeMap<RefId, BTreeSet<usize>>,
    /// The processes that die: only what they have touched may be lost.
    pub(crate) mortals: BTreeSet<usize>,
}

impl Oracle {
    /// A process has got an object or a reference to it.
    pub fn touches(&mut self, at: usize, id: RefId) {
        let touched = self.touched.entry(id).or_default();
        touched.extend([at, index(id.owner), index(id.creator)]);
    }

    /// Whether an object may be lost, since a process that dies has touched it.
    pub fn may_be_lost(&self, id: RefId) -> bool {
        self.touched
            .get(&id)
            .is_some_and(|touched| !touched.is_disjoint(&self.mortals))
    }

    /// An owner frees an object. Returns the number of processes that it counts and that still use the object.
    pub fn frees(&mut self, processes: &[Process], id: RefId) -> u64 {
        let is_again = !self.freed.insert(id) && !self.may_be_lost(id);
        let owner = index(id.owner);
        let uses = |(at, process): (usize, &Process)| {
            let is_counted =
                process.is_alive && processes.get(owner).is_some_and(|it| !it.dead.contains(&at));
            at != owner && is_counted && process.refs.status(id) == Some(RefStatus::Confirmed)
        };
        let users = processes.iter().enumerate().filter(|it| uses(*it));
        users.count() as u64 + u64::from(is_again)
    }

    /// An owner confirms a user. Returns whether the object was freed before.
    pub fn is_confirmed_late(&self, processes: &[Process], at: usize, id: RefId) -> bool {
        let owner = processes.get(index(id.owner));
        let is_counted = owner.is_some_and(|it| it.is_alive && !it.dead.contains(&at));
        // After a death, the place of a freed object may hold an error; it exists like a value.
        let exists = owner.is_some_and(|it| it.refs.status(id).is_some());
        is_counted && self.freed.contains(&id) && !exists
    }
}
