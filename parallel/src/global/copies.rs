//! The copies of this process, by name.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::Wire;
use selvedge_core::Ref;
use serde::{Deserialize, Serialize};

/// A copy of a global in a process, as [`Parallel::globals`](crate::Parallel::globals) lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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
    nonce: u64,
}

/// Values that were taken away: those of one global, up to a version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndedValues {
    pub(super) name: String,
    /// The number of the global, which distinguishes it from others of its name.
    pub(super) nonce: u64,
    /// The last version that was taken away.
    pub(super) version: u64,
}

/// The globals whose end a process remembers, so that a call that was on its way leaves no copy.
const ENDED_MAX: usize = 1024;

struct Copies {
    by_name: BTreeMap<String, GlobalCopy>,
    /// The number of a global, and the last version that was taken away; the newest last.
    ended: VecDeque<(u64, u64)>,
}

static COPIES: Mutex<Copies> = Mutex::new(Copies {
    by_name: BTreeMap::new(),
    ended: VecDeque::new(),
});

/// The reference of this process to the value that `reference` names, which may have the value already. Another value of that name is
/// dropped. A value that was taken away is not kept.
pub(super) fn kept<T: Wire>(info: &GlobalInfo, nonce: u64, reference: &Ref<T>) -> Ref<T> {
    let mut copies = COPIES.lock();
    let copy = copies.by_name.get(&info.name);
    if let Some(kept) = copy.and_then(|copy| copy.reference.downcast_ref::<Ref<T>>())
        && kept.id() == reference.id()
    {
        return kept.clone();
    }
    let has_ended = |(of, version): &(u64, u64)| *of == nonce && info.version <= *version;
    if copies.ended.iter().any(has_ended) {
        return reference.clone();
    }
    let copy = GlobalCopy {
        reference: Arc::new(reference.clone()),
        info: info.clone(),
        nonce,
    };
    let old = copies.by_name.insert(info.name.clone(), copy);
    drop(copies);
    // User code may run: the drop of the old value.
    drop(old);
    reference.clone()
}

/// Drops the copy of a global whose values were taken away, and keeps none of them later. One that another global of that name has left
/// stays.
pub(super) fn forget(values: &EndedValues) {
    let EndedValues { name, nonce, version } = values;
    let mut copies = COPIES.lock();
    copies.ended.retain(|(of, _)| of != nonce);
    copies.ended.push_back((*nonce, *version));
    if copies.ended.len() > ENDED_MAX {
        copies.ended.pop_front();
    }
    let is_ended = |copy: &GlobalCopy| copy.nonce == *nonce && copy.info.version <= *version;
    let copy = match copies.by_name.get(name).is_some_and(is_ended) {
        true => copies.by_name.remove(name),
        false => None,
    };
    drop(copies);
    // User code may run: the drop of the value.
    drop(copy);
}

/// The copies of this process, in the order of their names.
pub(super) fn list() -> Vec<GlobalInfo> {
    COPIES
        .lock()
        .by_name
        .values()
        .map(|copy| copy.info.clone())
        .collect()
}
