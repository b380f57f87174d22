//! The order in which memory is lent: free extents first, then those of objects that nobody uses.

use selvedge_cluster::peer::Peer;

use super::error::{StoreError, StoreFull};
use super::extents::Extent;
use super::object::{Object, Place};
use super::{LEAF_BYTES, Store, StoreAction, StoreId, leaves_of};

/// Something that waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Want {
    /// A process wants to make an object.
    Reserve { request: u64, by: Peer, bytes: u64 },
    /// A spilled object is wanted in memory.
    Restore { object: StoreId },
}

impl Want {
    pub(super) fn is_of(&self, peer: Peer) -> bool {
        matches!(self, Want::Reserve { by, .. } if *by == peer)
    }
}

impl Store {
    pub(super) fn reserve(&mut self, request: u64, by: Peer, bytes: u64) {
        if self.buried.has(by) {
            return self.refuse(request, StoreError::Gone);
        }
        let capacity_bytes = self.settings.capacity_bytes;
        if leaves_of(bytes) > capacity_bytes / LEAF_BYTES {
            return self.refuse(
                request,
                StoreError::TooLarge {
                    bytes,
                    capacity_bytes,
                },
            );
        }
        self.wants.push_back(Want::Reserve { request, by, bytes });
    }

    /// Gives memory to those who wait for it, in their order, and makes room.
    pub(super) fn serve(&mut self) {
        while let Some(want) = self.wants.front().copied() {
            let bytes = match want {
                Want::Reserve { bytes, .. } => bytes,
                Want::Restore { object } => match self.objects.get(&object) {
                    Some(entry) if entry.is_awaited_in_file() => entry.bytes,
                    // Nobody wants it any more, or it comes already.
                    _ => {
                        self.wants.pop_front();
                        continue;
                    }
                },
            };
            let leaves = leaves_of(bytes);
            if let Some(extent) = self.memory.take(leaves) {
                self.wants.pop_front();
                self.lend(want, extent);
                continue;
            }
            let is_enough_soon = self.memory.free_leaves() + self.parting_leaves >= leaves;
            if self.parting_leaves > 0 && is_enough_soon {
                return;
            }
            if self.evict() {
                continue;
            }
            // What is being filled may leave as soon as it is sealed. A process that counts as dead seals nothing.
            if self.parting_leaves > 0 || !self.filling.is_empty() {
                return;
            }
            let full = StoreError::Full(self.full(bytes));
            self.fail_want(full);
        }
    }

    fn lend(&mut self, want: Want, extent: super::Extent) {
        let bare = self.backed.bare(extent);
        self.bare_leaves += self.bare_in(extent);
        match want {
            Want::Reserve { request, by, bytes } => {
                let object = StoreId(self.name());
                self.filling.insert(object);
                self.objects.insert(object, Object::unsealed(bytes, by, extent));
                self.actions.push(StoreAction::Lend {
                    request,
                    object,
                    extent,
                    bare,
                });
            }
            Want::Restore { object } => {
                let attempt = self.name();
                let Some(entry) = self.objects.get_mut(&object) else {
                    return;
                };
                entry.place = Place::Coming { extent, attempt };
                let (bytes, copy) = (entry.bytes, entry.copy);
                if let Some(from) = copy {
                    self.actions.push(StoreAction::Restore {
                        object,
                        attempt,
                        from,
                        to: extent,
                        bare,
                        bytes,
                    });
                }
            }
        }
    }

    /// Has the object leave that was not used for the longest time; false if all are in use.
    fn evict(&mut self) -> bool {
        let Some((_, object)) = self.idle.pop_first() else {
            return false;
        };
        let attempt = self.name();
        let Some(entry) = self.objects.get_mut(&object) else {
            return true;
        };
        entry.idle_since = None;
        let Place::Here(extent) = entry.place else {
            return true;
        };
        if entry.copy.is_some() {
            entry.place = Place::Away;
            self.memory.give(extent);
            return true;
        }
        let Some(to) = self.file.take(extent.leaves()) else {
            return true;
        };
        entry.place = Place::Leaving { extent, to, attempt };
        let bytes = entry.bytes;
        self.parting_leaves += extent.leaves();
        self.actions.push(StoreAction::Spill {
            object,
            attempt,
            from: extent,
            to,
            bytes,
        });
        true
    }

    /// The first one that waits waits no more.
    fn fail_want(&mut self, error: StoreError) {
        match self.wants.pop_front() {
            Some(Want::Reserve { request, .. }) => self.refuse(request, error),
            Some(Want::Restore { object }) => self.refuse_openers(object, error),
            None => {}
        }
    }

    fn refuse_openers(&mut self, object: StoreId, error: StoreError) {
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        let openers = std::mem::take(&mut entry.openers);
        for (request, _) in openers {
            self.refuse(request, error.clone());
        }
    }

    /// A spill has ended. A notice of another attempt than the one that is made is stale.
    pub(super) fn spilled(&mut self, object: StoreId, attempt: u64, result: Result<(), StoreError>) {
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        let Place::Leaving {
            extent,
            to,
            attempt: current,
        } = entry.place
        else {
            return;
        };
        if current != attempt {
            return;
        }
        self.parting_leaves -= extent.leaves();
        entry.place = Place::Here(extent);
        match result {
            Ok(()) => {
                entry.copy = Some(to);
                if entry.pins.is_empty() && !entry.is_freed {
                    entry.place = Place::Away;
                    return self.memory.give(extent);
                }
            }
            Err(error) => {
                match (entry.pins.is_empty(), entry.is_freed, entry.is_remakeable) {
                    // `rest` removes it, and gives its memory to whoever waits.
                    (true, true, _) => {}
                    (true, false, true) => {
                        entry.place = Place::Dropped;
                        self.memory.give(extent);
                    }
                    _ => self.fail_want(error),
                }
                self.discard(to);
            }
        }
        self.rest(object);
    }

    /// A restore has ended. A notice of another attempt than the one that is made is stale.
    pub(super) fn restored(&mut self, object: StoreId, attempt: u64, result: Result<(), StoreError>) {
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        let Place::Coming {
            extent,
            attempt: current,
        } = entry.place
        else {
            return;
        };
        if current != attempt {
            return;
        }
        match result {
            Ok(()) => {
                entry.place = Place::Here(extent);
                let openers = std::mem::take(&mut entry.openers);
                self.note_pages(extent);
                for (request, by) in openers {
                    self.grant(request, by, object);
                }
            }
            Err(error) => {
                entry.place = Place::Away;
                self.give_unsealed(extent);
                self.refuse_openers(object, error);
            }
        }
        self.rest(object);
    }

    /// The state of the store for whoever finds no room for so many bytes.
    fn full(&self, need_bytes: u64) -> StoreFull {
        StoreFull {
            need_bytes,
            capacity_bytes: self.settings.capacity_bytes,
            free_bytes: self.memory.free_leaves() * LEAF_BYTES,
            holders: self.holders(),
        }
    }

    /// Gives memory back that has pages: to the system, if there is plenty of warm memory.
    pub(super) fn give(&mut self, extent: Extent) {
        let taken = self.settings.capacity_bytes / LEAF_BYTES - self.memory.free_leaves();
        let warm = (self.backed.leaves() + self.bare_leaves + extent.leaves()).saturating_sub(taken);
        match warm <= self.settings.warm_bytes / LEAF_BYTES {
            true => self.memory.give(extent),
            false => self.punch(extent),
        }
    }

    /// Gives memory back whose borrower may have reserved pages or not.
    pub(super) fn give_unsealed(&mut self, extent: Extent) {
        match self.bare_in(extent) {
            0 => self.give(extent),
            bare => {
                self.bare_leaves -= bare;
                self.punch(extent);
            }
        }
    }

    pub(super) fn punch(&mut self, extent: Extent) {
        self.backed.remove(extent);
        self.parting_leaves += extent.leaves();
        self.bare_leaves += extent.leaves();
        self.actions.push(StoreAction::Punch(extent));
    }
}
