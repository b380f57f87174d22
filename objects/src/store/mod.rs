//! The memory of a host in which large objects lie, as a state machine without input or output.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/objects/src/store) of this folder has the states of an object
//! and the invariants `STORE-1` to `STORE-8`.
//!
//! [`Store`] belongs to the host agent. Events go in, actions come out; it reads no clock, maps no memory and sends nothing.
//!
//! ```
//! use selvedge_cluster::peer::ProcessId;
//! use selvedge_objects::store::{Store, StoreAction, StoreEvent, StoreSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let peer = |number| ProcessId::new(number).map(ProcessId::first_life);
//! let (writer, reader) = (peer(1).ok_or("zero")?, peer(2).ok_or("zero")?);
//! let mut store = Store::new(StoreSettings::with_capacity(1 << 20));
//!
//! let lent = store.step(StoreEvent::Reserve { request: 1, by: writer, bytes: 100_000 });
//! let Some(StoreAction::Lend { object, .. }) = lent.first().cloned() else { return Err("no room".into()) };
//! store.step(StoreEvent::Seal { by: writer, object });
//!
//! let granted = store.step(StoreEvent::Open { request: 2, by: reader, object });
//! assert!(matches!(granted.first(), Some(StoreAction::Grant { bytes: 100_000, .. })));
//! store.step(StoreEvent::Free { object });            // the reader's view keeps the memory
//! assert!(store.report().used_bytes > 0);
//! store.step(StoreEvent::Dead(reader));
//! store.step(StoreEvent::Ended(reader));
//! assert_eq!(store.report().used_bytes, 0);
//! # Ok(())
//! # }
//! ```

mod error;
mod event;
mod extents;
mod object;
mod report;
mod settings;

mod death;
mod lending;
mod part;

#[cfg(test)]
mod late_notices;
#[cfg(test)]
mod model;

use std::collections::VecDeque;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::Peer;

pub use error::{StoreError, StoreFull, StoreHolder};
pub use event::{StoreAction, StoreEvent, StoreId};
pub use extents::{Extent, LEAF_BYTES};
pub use report::{ListedObject, ObjectPlace, StoreReport, StoredObject};
pub use settings::StoreSettings;

use extents::{Backed, Extents, leaves_of};
use lending::Want;
use object::{Object, Place};

/// The leaves of the file for spilled objects, which grows as it is written: 2^40 leaves, 16 PiB.
const FILE_LEAVES: u64 = 1 << 40;

/// The store of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    settings: StoreSettings,
    memory: Extents,
    backed: Backed,
    file: Extents,
    objects: IdMap<StoreId, Object>,
    /// The sealed objects in memory without pins, the least recently used one first.
    idle: IdMap<u64, StoreId>,
    /// The questions that wait for memory, in their order.
    wants: VecDeque<Want>,
    /// By process, the last incarnation that counts as dead, and the last one that has ended.
    buried: LastLives,
    ended: LastLives,
    /// The objects that are being filled by processes that do not count as dead.
    filling: IdSet<StoreId>,
    /// The leaves of memory that will be free when their spills or the return of their pages have ended.
    parting_leaves: u64,
    /// The leaves that are not free and have no pages: parts of what is being filled, and what the system takes back.
    bare_leaves: u64,
    /// The number of names that were given to objects, pins, attempts and moments.
    names: u64,
    actions: Vec<StoreAction>,
}

impl Store {
    /// An empty store.
    pub fn new(settings: StoreSettings) -> Self {
        Store {
            settings,
            memory: Extents::new(settings.capacity_bytes / LEAF_BYTES),
            backed: Backed::default(),
            file: Extents::new(FILE_LEAVES),
            objects: IdMap::new(),
            idle: IdMap::new(),
            wants: VecDeque::new(),
            buried: LastLives::default(),
            ended: LastLives::default(),
            filling: IdSet::new(),
            parting_leaves: 0,
            bare_leaves: 0,
            names: 0,
            actions: Vec::new(),
        }
    }

    /// Takes a step.
    pub fn step(&mut self, event: StoreEvent) -> Vec<StoreAction> {
        match event {
            StoreEvent::Reserve { request, by, bytes } => self.reserve(request, by, bytes),
            StoreEvent::Seal { by, object } => self.seal(by, object),
            StoreEvent::Abort { by, object } => self.abort(by, object),
            StoreEvent::Open { request, by, object } => self.open(request, by, object),
            StoreEvent::Read {
                request,
                by,
                object,
                offset,
                bytes,
            } => self.read(request, by, object, (offset, bytes)),
            StoreEvent::Close { by, object, grant } => self.close(object, (by, grant)),
            StoreEvent::Free { object } => self.free(object),
            StoreEvent::Remakeable {
                object,
                is_remakeable,
            } => {
                if let Some(entry) = self.objects.get_mut(&object) {
                    entry.is_remakeable = is_remakeable;
                }
            }
            StoreEvent::Spilled {
                object,
                attempt,
                result,
            } => self.spilled(object, attempt, result),
            StoreEvent::Restored {
                object,
                attempt,
                result,
            } => self.restored(object, attempt, result),
            StoreEvent::Punched(extent) => {
                self.parting_leaves -= extent.leaves();
                self.bare_leaves -= extent.leaves();
                self.memory.give(extent);
            }
            StoreEvent::Dead(peer) => self.bury(peer),
            StoreEvent::Ended(peer) => {
                self.ended.note(peer);
                self.reclaim(peer);
            }
        }
        self.serve();
        std::mem::take(&mut self.actions)
    }

    /// A name that was not given before.
    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn refuse(&mut self, request: u64, error: StoreError) {
        self.actions.push(StoreAction::Refuse { request, error });
    }

    /// The memory of an object that this process fills, if it does.
    fn borrowed(&self, by: Peer, object: StoreId) -> Option<Extent> {
        match self.objects.get(&object)?.place {
            Place::Unsealed { by: borrower, extent } if borrower == by => Some(extent),
            _ => None,
        }
    }

    /// The length of an object; `None` if there is none of this name.
    pub fn bytes_of(&self, object: StoreId) -> Option<u64> {
        self.objects.get(&object).map(|entry| entry.bytes)
    }

    /// Whether this process fills the object.
    pub fn is_borrowed(&self, by: Peer, object: StoreId) -> bool {
        self.borrowed(by, object).is_some()
    }

    fn seal(&mut self, by: Peer, object: StoreId) {
        let Some(extent) = self.borrowed(by, object) else {
            return;
        };
        self.filling.remove(&object);
        self.note_pages(extent);
        self.put_at(object, Place::Here(extent));
        self.rest(object);
    }

    fn abort(&mut self, by: Peer, object: StoreId) {
        let Some(extent) = self.borrowed(by, object) else {
            return;
        };
        self.filling.remove(&object);
        self.objects.remove(&object);
        self.give_unsealed(extent);
    }

    fn open(&mut self, request: u64, by: Peer, object: StoreId) {
        let is_buried = self.buried.has(by);
        let Some(entry) = self
            .objects
            .get_mut(&object)
            .filter(|entry| !entry.is_freed && !is_buried)
        else {
            return self.refuse(request, StoreError::Gone);
        };
        match entry.place {
            Place::Unsealed { .. } => self.refuse(request, StoreError::Gone),
            Place::Dropped => self.refuse(request, StoreError::Dropped),
            Place::Here(_) | Place::Leaving { .. } => self.grant(request, by, object),
            Place::Coming { .. } => entry.openers.push_back((request, by)),
            Place::Away => {
                entry.openers.push_back((request, by));
                if entry.openers.len() == 1 {
                    self.wants.push_back(Want::Restore { object });
                }
            }
        }
    }

    /// Pins an object in memory, and answers who asked for it.
    fn grant(&mut self, request: u64, by: Peer, object: StoreId) {
        let grant = self.name();
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        let (Place::Here(extent) | Place::Leaving { extent, .. }) = entry.place else {
            return;
        };
        entry.pins.insert((by, grant));
        let bytes = entry.bytes;
        if let Some(since) = entry.idle_since.take() {
            self.idle.remove(&since);
        }
        self.actions.push(StoreAction::Grant {
            request,
            object,
            grant,
            extent,
            bytes,
        });
    }

    fn close(&mut self, object: StoreId, pin: (Peer, u64)) {
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        if entry.pins.remove(&pin) {
            self.rest(object);
        }
    }

    fn free(&mut self, object: StoreId) {
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        if matches!(entry.place, Place::Unsealed { .. }) {
            return;
        }
        entry.is_freed = true;
        let openers = std::mem::take(&mut entry.openers);
        openers
            .into_iter()
            .for_each(|(request, _)| self.refuse(request, StoreError::Gone));
        self.rest(object);
    }

    /// An object may have lost its last pin or its last reference: it is removed, or may be evicted from now on.
    fn rest(&mut self, object: StoreId) {
        let now = self.name();
        let Some(entry) = self.objects.get_mut(&object) else {
            return;
        };
        if !entry.pins.is_empty() {
            return;
        }
        match (entry.place, entry.is_freed) {
            (Place::Here(extent), true) => {
                self.remove(object);
                self.give(extent);
            }
            (Place::Away | Place::Dropped, true) => self.remove(object),
            (Place::Here(_), false) if entry.idle_since.is_none() => {
                entry.idle_since = Some(now);
                self.idle.insert(now, object);
            }
            // What is read or written goes when that has ended.
            _ => {}
        }
    }

    /// Removes an object that has no memory, and its copy in the file.
    fn remove(&mut self, object: StoreId) {
        let Some(entry) = self.objects.remove(&object) else {
            return;
        };
        if let Some(since) = entry.idle_since {
            self.idle.remove(&since);
        }
        if let Some(copy) = entry.copy {
            self.discard(copy);
        }
    }

    fn discard(&mut self, copy: Extent) {
        self.file.give(copy);
        self.actions.push(StoreAction::Discard(copy));
    }

    /// All of an extent that was filled has pages.
    fn note_pages(&mut self, extent: Extent) {
        self.bare_leaves -= self.bare_in(extent);
        self.backed.insert(extent);
    }

    fn bare_in(&self, extent: Extent) -> u64 {
        self.backed.bare(extent).iter().map(|part| part.leaves()).sum()
    }

    fn put_at(&mut self, object: StoreId, place: Place) {
        if let Some(entry) = self.objects.get_mut(&object) {
            entry.place = place;
        }
    }
}
