//! The mappings of this process, by the name of the array.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_channels::array::ArrayMemory;
use selvedge_cluster::id_map::IdMap;
use serde::{Deserialize, Serialize};

/// The name of an array on its host: its maker's number, and a number that no other array of the maker's has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ArrayName {
    pid: u32,
    nonce: u64,
}

selvedge_cluster::id_key!(ArrayName as (u32, u64): |name| (name.pid, name.nonce));

impl ArrayName {
    pub(super) fn fresh() -> Self {
        use std::hash::{BuildHasher, RandomState};
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        // Relaxed: only the uniqueness of each number counts. The hash distinguishes a maker from a later process of its number.
        let nonce = RandomState::new().hash_one((pid, COUNT.fetch_add(1, Ordering::Relaxed)));
        ArrayName { pid, nonce }
    }
}

static MAPPINGS: Mutex<IdMap<ArrayName, Weak<Mapping>>> = Mutex::new(IdMap::new());

/// The mapping of an array in this process.
pub(super) struct Mapping {
    name: ArrayName,
    /// `None` once it was given up.
    memory: Mutex<Option<Arc<ArrayMemory>>>,
}

impl Mapping {
    /// Lists a mapping under its name.
    pub(super) fn new(name: ArrayName, memory: ArrayMemory) -> Arc<Self> {
        let memory = Mutex::new(Some(Arc::new(memory)));
        let mapping = Arc::new(Mapping { name, memory });
        MAPPINGS.lock().insert(name, Arc::downgrade(&mapping));
        mapping
    }

    /// The memory, unless it was given up.
    pub(super) fn memory(&self) -> Option<Arc<ArrayMemory>> {
        self.memory.lock().clone()
    }

    /// Gives the memory up, as soon as no view and no part of this process uses it.
    pub(super) fn give_up(&self) {
        let memory = self.memory.lock().take();
        drop(memory);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        MAPPINGS.lock().remove(&self.name);
    }
}

/// The mapping of an array in this process, if there is one.
pub(super) fn find(name: ArrayName) -> Option<Arc<Mapping>> {
    MAPPINGS.lock().get(&name)?.upgrade()
}
