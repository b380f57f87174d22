//! The contents of a store, for people.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use super::error::StoreHolder;
use super::object::Place;
use super::{LEAF_BYTES, Store, StoreId};

/// The place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ObjectPlace {
    /// A process fills its memory.
    Unsealed,
    /// In memory.
    Memory,
    /// On its way to the file of spilled objects.
    Leaving,
    /// In that file alone.
    File,
    /// On its way back to memory.
    Coming,
    /// Nowhere: it was dropped for want of room, and is made again when it is needed.
    Dropped,
}

/// An object in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredObject {
    /// The name of the object in the store.
    pub object: StoreId,
    /// The length.
    pub bytes: u64,
    /// The place.
    pub place: ObjectPlace,
    /// The processes that have views of it.
    pub pinned_by: Vec<Peer>,
    /// Whether views alone keep it: nobody holds a reference to it.
    pub is_freed: bool,
}

/// An object of this process that other hosts know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedObject {
    /// The name of the object in the store of this process, if it lies there.
    pub object: Option<StoreId>,
    /// The length.
    pub bytes: u64,
    /// The agents of the hosts that have a sealed copy, this process among them if its host has one. None: the object is lost.
    pub agents: Vec<Peer>,
}

/// The contents of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreReport {
    /// The bytes of the whole store; 0 if it was not needed yet.
    pub capacity_bytes: u64,
    /// The bytes that objects have, each a multiple of [`LEAF_BYTES`].
    pub used_bytes: u64,
    /// The bytes that have pages of the system: those of objects, and free ones that are warm.
    pub backed_bytes: u64,
    /// The bytes of the file of spilled objects.
    pub spilled_bytes: u64,
    /// The questions that wait for memory.
    pub waiting: usize,
    /// The objects, in the order in which they were made.
    pub objects: Vec<StoredObject>,
    /// The objects that this process owns and that other hosts know, with the hosts that have a copy.
    pub listed: Vec<ListedObject>,
}

impl Store {
    /// The contents of the store.
    pub fn report(&self) -> StoreReport {
        StoreReport {
            objects: self.objects_behind(None, usize::MAX),
            ..self.totals()
        }
    }

    /// The contents of the store, without the objects.
    pub fn totals(&self) -> StoreReport {
        let leaves = self.settings.capacity_bytes / LEAF_BYTES;
        StoreReport {
            capacity_bytes: leaves * LEAF_BYTES,
            used_bytes: (leaves - self.memory.free_leaves()) * LEAF_BYTES,
            backed_bytes: self.backed.leaves() * LEAF_BYTES,
            spilled_bytes: (super::FILE_LEAVES - self.file.free_leaves()) * LEAF_BYTES,
            waiting: self.wants.len(),
            objects: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// The number of objects.
    pub fn objects_count(&self) -> usize {
        self.objects.len()
    }

    /// The objects that were made behind this one, or all, the oldest first and no more than `objects_max`.
    pub fn objects_behind(&self, last: Option<StoreId>, objects_max: usize) -> Vec<StoredObject> {
        let from = self
            .objects
            .between(last.unwrap_or(StoreId(0)), StoreId(u64::MAX));
        let behind = from.filter(|(id, _)| Some(**id) > last);
        let objects = behind.take(objects_max);
        let stored = objects.map(|(id, object)| StoredObject {
            object: *id,
            bytes: object.bytes,
            place: match object.place {
                Place::Unsealed { .. } => ObjectPlace::Unsealed,
                Place::Here(_) => ObjectPlace::Memory,
                Place::Leaving { .. } => ObjectPlace::Leaving,
                Place::Away => ObjectPlace::File,
                Place::Coming { .. } => ObjectPlace::Coming,
                Place::Dropped => ObjectPlace::Dropped,
            },
            pinned_by: object.pinned_by(),
            is_freed: object.is_freed,
        });
        stored.collect()
    }

    /// The processes that hold memory, and how much.
    pub(super) fn holders(&self) -> Vec<StoreHolder> {
        let mut holders = IdMap::<Peer, (u64, u64)>::new();
        for object in self.objects.values() {
            if let Place::Unsealed { by, .. } = object.place {
                holders.or_default(by).1 += object.bytes;
            }
            for peer in object.pinned_by() {
                holders.or_default(peer).0 += object.bytes;
            }
        }
        let holder = |(process, (pinned_bytes, unsealed_bytes))| StoreHolder {
            process,
            pinned_bytes,
            unsealed_bytes,
        };
        holders.into_iter().map(holder).collect()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::peer::ProcessId;

    use super::super::{StoreEvent, StoreSettings};
    use super::*;

    #[test]
    fn the_objects_some_by_some_are_all_objects_in_their_order() {
        let by = ProcessId::HEAD.first_life();
        let mut store = Store::new(StoreSettings::with_capacity(10 * LEAF_BYTES));
        for request in 0..10 {
            let bytes = LEAF_BYTES;
            store.step(StoreEvent::Reserve { request, by, bytes });
        }
        let all = store.report().objects;
        assert_eq!((all.len(), store.objects_count()), (10, 10));
        let mut some = store.objects_behind(None, 4);
        while let next @ [_, ..] = &store.objects_behind(some.last().map(|object| object.object), 4)[..] {
            assert!(next.len() <= 4);
            some.extend_from_slice(next);
        }
        assert_eq!(some, all);
    }
}
