//! Virtual memory: reserves addresses, creates memory, and maps the one to the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::code::{ALREADY_MAPPED, Cu, INVALID_HANDLE, INVALID_VALUE};
use crate::host;
use crate::memory::{Allocation, Kind};
use crate::race;
use crate::space::{self, GRANULARITY_BYTES, Region};

/// The handles of physical memory, and the reserved addresses with their lengths.
#[derive(Debug, Default)]
struct Objects {
    handles: HashMap<u64, Arc<Allocation>>,
    reservations: BTreeMap<u64, u64>,
}

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);

fn is_whole(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(GRANULARITY_BYTES)
}

/// Creates memory.
pub(crate) fn create(device: u32, len: u64, exportable: bool) -> Cu<u64> {
    if !is_whole(len) {
        return Err(INVALID_VALUE);
    }
    let allocation = Allocation::create(Kind::Physical { exportable }, device, len)?;
    Ok(keep(allocation))
}

/// Returns a handle of existing memory.
pub(crate) fn keep(allocation: Arc<Allocation>) -> u64 {
    let handle = host::fresh_handle();
    OBJECTS.lock().handles.insert(handle, allocation);
    handle
}

/// Returns the memory of a handle.
pub(crate) fn allocation(handle: u64) -> Cu<Arc<Allocation>> {
    OBJECTS.lock().handles.get(&handle).cloned().ok_or(INVALID_VALUE)
}

/// Returns the memory with this nonce if this process already has it.
pub(crate) fn known(nonce: u64) -> Option<Arc<Allocation>> {
    let is = |allocation: &Arc<Allocation>| allocation.shared().address().nonce == nonce;
    OBJECTS
        .lock()
        .handles
        .values()
        .find(|allocation| is(allocation))
        .cloned()
}

/// Releases a handle. The memory stays while it is mapped.
pub(crate) fn release(handle: u64) -> Cu {
    OBJECTS
        .lock()
        .handles
        .remove(&handle)
        .map(drop)
        .ok_or(INVALID_HANDLE)
}

/// Reserves addresses.
pub(crate) fn reserve(len: u64, alignment: u64) -> Cu<u64> {
    let alignment = alignment.max(GRANULARITY_BYTES);
    if !is_whole(len) || !alignment.is_power_of_two() {
        return Err(INVALID_VALUE);
    }
    let start = space::space().fresh(len, alignment)?;
    OBJECTS.lock().reservations.insert(start, len);
    Ok(start)
}

/// Releases reserved addresses to which no memory is mapped.
pub(crate) fn unreserve(start: u64, len: u64) -> Cu {
    let mut objects = OBJECTS.lock();
    if objects.reservations.get(&start) != Some(&len) {
        return Err(INVALID_VALUE);
    }
    if space::space().overlapping(start, len).next().is_some() {
        return Err(INVALID_VALUE);
    }
    objects.reservations.remove(&start);
    Ok(())
}

/// Maps memory to reserved addresses; no device may use it yet.
pub(crate) fn map(start: u64, len: u64, offset: u64, handle: u64) -> Cu {
    let allocation = allocation(handle)?;
    let objects = OBJECTS.lock();
    let reserved = objects
        .reservations
        .range(..=start)
        .next_back()
        .is_some_and(|(from, reserved)| start.checked_add(len).is_some_and(|end| end <= from + reserved));
    // The driver currently maps only whole handles.
    if !reserved
        || !is_whole(len)
        || offset != 0
        || len > allocation.len
        || !start.is_multiple_of(GRANULARITY_BYTES)
    {
        return Err(INVALID_VALUE);
    }
    let mut space = space::space();
    if space.overlapping(start, len).next().is_some() {
        return Err(ALREADY_MAPPED);
    }
    space.map(Region {
        start,
        len,
        allocation,
        offset,
        devices: 0,
    });
    Ok(())
}

/// Returns the starts of the regions that fill these addresses exactly.
fn exactly(space: &mut space::Space, start: u64, len: u64) -> Cu<Vec<u64>> {
    let mut at = start;
    let mut starts = Vec::new();
    for region in space.overlapping(start, len) {
        if region.start != at || !matches!(region.allocation.kind, Kind::Physical { .. }) {
            return Err(INVALID_VALUE);
        }
        starts.push(region.start);
        at += region.len;
    }
    if at != start.saturating_add(len) || starts.is_empty() {
        return Err(INVALID_VALUE);
    }
    Ok(starts)
}

/// Sets whether a device may use mapped addresses.
pub(crate) fn allow(start: u64, len: u64, device: u32, allowed: bool) -> Cu {
    let mut space = space::space();
    exactly(&mut space, start, len)?;
    space.overlapping(start, len).for_each(|region| match allowed {
        true => region.devices |= space::bit(device),
        false => region.devices &= !space::bit(device),
    });
    Ok(())
}

/// Unmaps memory from its addresses.
pub(crate) fn unmap(start: u64, len: u64) -> Cu {
    let mut space = space::space();
    let starts = exactly(&mut space, start, len)?;
    let gone: Vec<Region> = starts
        .into_iter()
        .filter_map(|start| space.remove(start))
        .collect();
    drop(space);
    for region in gone {
        race::check_unmap(&region.allocation, "cuMemUnmap");
    }
    Ok(())
}
