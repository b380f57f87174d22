//! Parts of objects, which are read where the object lies: in memory, or in the file. Who reads one waits for no memory, so hosts that send
//! objects to each other while their stores are full do not wait for each other.

use selvedge_cluster::peer::Peer;

use super::error::StoreError;
use super::object::Place;
use super::{Store, StoreAction, StoreId};

impl Store {
    pub(super) fn read(&mut self, request: u64, by: Peer, object: StoreId, (offset, bytes): (u64, u64)) {
        let is_buried = self.buried.has(by);
        let entry = self.objects.get(&object);
        let Some(entry) = entry.filter(|entry| !entry.is_freed && !is_buried) else {
            return self.refuse(request, StoreError::Gone);
        };
        match (entry.place, entry.copy) {
            (Place::Here(_) | Place::Leaving { .. }, _) => self.grant(request, by, object),
            (Place::Away | Place::Coming { .. }, Some(from)) => self.actions.push(StoreAction::ReadBack {
                request,
                object,
                from,
                offset,
                bytes,
            }),
            (Place::Dropped, _) => self.refuse(request, StoreError::Dropped),
            (Place::Unsealed { .. } | Place::Away | Place::Coming { .. }, _) => {
                self.refuse(request, StoreError::Gone);
            }
        }
    }
}
