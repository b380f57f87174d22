//! The references of a process one by one, for people.

use selvedge_cluster::peer::Peer;

use super::owned::Cell;
use super::{RefId, RefStatus, Refs};

/// A reference of which a process has an entry, as owner or as user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRef {
    /// The reference.
    pub id: RefId,
    /// The knowledge of this process about it.
    pub status: RefStatus,
    /// Whether the value, or an error in its place, is there; `None` for an object of another process.
    pub is_made: Option<bool>,
    /// The handles in this process.
    pub handles: u64,
    /// The other processes that are known to hold it: all of them for an object of this process, else those to which this process has
    /// passed it and that have not accepted it yet.
    pub holders: Vec<Peer>,
}

impl Refs {
    /// The references of which this process has an entry: those to its own objects first, each part in the order of their names.
    pub fn listed(&self) -> impl Iterator<Item = ListedRef> {
        let owned = self.owned.iter().map(|(id, owned)| ListedRef {
            id: *id,
            status: RefStatus::Confirmed,
            is_made: Some(matches!(owned.cell, Cell::Full | Cell::Failed)),
            handles: owned.handles,
            holders: owned.forks.keys().copied().collect(),
        });
        let held = self.held.iter().map(|(id, held)| {
            let mut holders: Vec<Peer> = held.children.values().copied().collect();
            holders.sort_unstable();
            holders.dedup();
            ListedRef {
                id: *id,
                status: held.status(),
                is_made: None,
                handles: held.handles,
                holders,
            }
        });
        owned.chain(held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use selvedge_cluster::peer::ProcessId;

    use super::*;
    use crate::refs::{Event, RefSettings};

    #[test]
    fn an_object_is_listed_with_its_holders_by_its_owner_and_with_its_status_by_a_user() {
        let peer = |number| ProcessId::new(number).unwrap().first_life();
        let (owner, user, now) = (peer(1), peer(2), Duration::ZERO);
        let mut here = Refs::new(owner, RefSettings::default());
        let mut there = Refs::new(user, RefSettings::default());
        let (id, other) = (here.create(), here.create());
        here.fill(id).unwrap();
        let parcel = here.pass(id, user).unwrap();
        let parcels = vec![parcel];
        there.step(
            now,
            Event::Arrived {
                from: owner,
                call: 1,
                parcels,
            },
        );

        let listed: Vec<_> = here.listed().collect();
        assert_eq!(listed.len(), 2);
        assert_eq!(
            (listed[0].id, listed[0].is_made, listed[0].handles),
            (id, Some(true), 1)
        );
        assert_eq!(listed[0].holders, [user]);
        assert_eq!((listed[1].id, listed[1].is_made), (other, Some(false)));
        assert!(listed[1].holders.is_empty());

        let listed: Vec<_> = there.listed().collect();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].id, listed[0].is_made), (id, None));
        assert_eq!(listed[0].status, RefStatus::Confirmed);
    }
}
