//! The remote functions of arrays.

use std::sync::Arc;

use selvedge_channels::array::{ArrayError, ArrayMemory, ArrayMemoryId, copy_own_part, fill_own_part};
use selvedge_core::Runtime;
use selvedge_macros::remote_below_graphs as remote;
use serde::{Deserialize, Serialize};

use super::error::SharedArrayError;
use super::mapping::{ArrayName, Mapping, find};

/// A mapping that its process keeps for the maker of the array.
pub(super) struct KeptMapping {
    _mapping: Arc<Mapping>,
}

/// The order to map an array.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MapOrder {
    pub(super) name: ArrayName,
    pub(super) memory: ArrayMemoryId,
    pub(super) slot: usize,
}

/// Maps an array in this process.
#[remote]
pub(super) fn map_array(order: MapOrder) -> Result<KeptMapping, ArrayError> {
    let memory = ArrayMemory::open(&order.memory, order.slot)?;
    Ok(KeptMapping {
        _mapping: Mapping::new(order.name, memory),
    })
}

/// Gives the mapping of an array up.
#[remote]
pub(super) fn give_up_array(name: ArrayName) {
    if let Some(mapping) = find(name) {
        mapping.give_up();
    }
}

/// The memory of an array in this process.
fn memory(name: ArrayName) -> Result<Arc<ArrayMemory>, SharedArrayError> {
    let found = find(name).and_then(|mapping| mapping.memory());
    found.ok_or_else(|| SharedArrayError::NotMapped {
        process: Runtime::current().ok().map(|runtime| runtime.process().number()),
        // The maker calls those that have a part.
        is_member: Some(true),
        processes: Vec::new(),
    })
}

/// Writes one element's bytes to the part of this process.
#[remote]
pub(super) fn fill_part(name: ArrayName, value: Vec<u8>) -> Result<(), SharedArrayError> {
    Ok(fill_own_part(&memory(name)?, &value)?)
}

/// Copies the part of this process from another array.
#[remote]
pub(super) fn copy_part(from: ArrayName, to: ArrayName) -> Result<(), SharedArrayError> {
    Ok(copy_own_part(&memory(from)?, &memory(to)?)?)
}
