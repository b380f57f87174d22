//! The copies of this process, by name.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::Wire;
use selvedge_core::Ref;
use serde::{Deserialize, Serialize};

/// A copy of a global in a process, as [`Parallel::globals`](crate::Parallel::globals) lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalInfo {
    /// The name of the global.
    pub name: String,
    /// The number of the value: 1 for the first one that was set.
    pub version: u64,
    /// The length of the encoded value in bytes; 0 if it holds references.
    pub size_bytes: u64,
}

/// A copy: the reference by way of which the value was fetched keeps it.
struct GlobalCopy {
    reference: Arc<dyn Any + Send + Sync>,
    info: GlobalInfo,
}

static COPIES: Mutex<BTreeMap<String, GlobalCopy>> = Mutex::new(BTreeMap::new());

/// The reference of this process to the value that `reference` names, which may have the value already. Another value of that name is
/// dropped.
pub(super) fn kept<T: Wire>(info: &GlobalInfo, reference: &Ref<T>) -> Ref<T> {
    let mut copies = COPIES.lock();
    let copy = copies.get(&info.name);
    if let Some(kept) = copy.and_then(|copy| copy.reference.downcast_ref::<Ref<T>>())
        && kept.id() == reference.id()
    {
        return kept.clone();
    }
    let copy = GlobalCopy {
        reference: Arc::new(reference.clone()),
        info: info.clone(),
    };
    let old = copies.insert(info.name.clone(), copy);
    drop(copies);
    // User code may run: the drop of the old value.
    drop(old);
    reference.clone()
}

/// Drops the copy of a name. One that another global of that name has left is dropped as well.
pub(super) fn forget(name: &str) {
    let copy = COPIES.lock().remove(name);
    drop(copy);
}

/// The copies of this process, in the order of their names.
pub(super) fn list() -> Vec<GlobalInfo> {
    COPIES.lock().values().map(|copy| copy.info.clone()).collect()
}
