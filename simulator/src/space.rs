//! The address space of the devices in this process.
//!
//! A device address is a number that cannot be a host address, and it is never reused: a host that dereferences one
//! faults, as with a real device's address, and every use after free is found.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::code::{Cu, INVALID_VALUE, OUT_OF_MEMORY};
use crate::memory::{Allocation, Kind, Span};

/// The first device address, beyond the addresses that a host process can map.
const FIRST_ADDRESS: u64 = 0x5e00_0000_0000_0000;
/// The alignment of an allocation, and of physical memory.
const PAGE_BYTES: u64 = 4096;
/// The unit in which virtual memory is mapped.
pub(crate) const GRANULARITY_BYTES: u64 = 2 << 20;

/// A range of addresses that is backed by memory.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) allocation: Arc<Allocation>,
    /// The offset of the region in the allocation.
    pub(crate) offset: u64,
    /// The devices that may use the region, one bit each; mapped memory must be allowed first.
    pub(crate) devices: u64,
}

/// All devices, one bit each: there are at most 64.
const ALL: u64 = u64::MAX;

/// Returns the bit of a device.
pub(crate) fn bit(device: u32) -> u64 {
    1_u64.checked_shl(device).unwrap_or(0)
}

/// The regions of addresses in this process.
#[derive(Debug, Default)]
pub(crate) struct Space {
    regions: BTreeMap<u64, Region>,
    next: u64,
}

static SPACE: LazyLock<Mutex<Space>> = LazyLock::new(Mutex::default);

/// Locks the address space.
pub(crate) fn space() -> parking_lot::MutexGuard<'static, Space> {
    SPACE.lock()
}

impl Space {
    /// Returns addresses that were never used, followed by a gap.
    pub(crate) fn fresh(&mut self, len: u64, alignment: u64) -> Cu<u64> {
        let start = self
            .next
            .max(FIRST_ADDRESS)
            .checked_next_multiple_of(alignment)
            .ok_or(OUT_OF_MEMORY)?;
        let end = start
            .checked_add(len)
            .and_then(|end| end.checked_add(PAGE_BYTES))
            .ok_or(OUT_OF_MEMORY)?;
        self.next = end;
        Ok(start)
    }

    /// Gives an allocation an address of its own; memory that hosts can reach keeps its host address.
    pub(crate) fn place(&mut self, allocation: Arc<Allocation>) -> Cu<u64> {
        let start = match allocation.kind {
            Kind::Pinned | Kind::Registered => {
                let at = allocation.pointer(0, 0).ok_or(INVALID_VALUE)?;
                at.as_ptr() as u64
            }
            _ => self.fresh(allocation.len, PAGE_BYTES)?,
        };
        let len = allocation.len;
        self.map(Region {
            start,
            len,
            allocation,
            offset: 0,
            devices: ALL,
        });
        Ok(start)
    }

    /// Backs addresses with memory.
    pub(crate) fn map(&mut self, region: Region) {
        self.regions.insert(region.start, region);
    }

    /// Returns the region that contains this address.
    pub(crate) fn find(&self, address: u64) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (address - region.start < region.len).then_some(region)
    }

    /// Returns the regions that overlap these addresses.
    pub(crate) fn overlapping(&mut self, start: u64, len: u64) -> impl Iterator<Item = &mut Region> {
        let end = start.saturating_add(len);
        self.regions
            .range_mut(..end)
            .map(|(_, region)| region)
            .filter(move |region| region.start + region.len > start)
    }

    /// Removes the region that begins at this address and returns it.
    pub(crate) fn remove(&mut self, start: u64) -> Option<Region> {
        self.regions.remove(&start)
    }

    /// Returns the region that begins at this address, if `is` accepts the kind of its memory.
    pub(crate) fn starting(&self, start: u64, is: impl Fn(Kind) -> bool) -> Option<&Region> {
        self.regions
            .get(&start)
            .filter(|region| is(region.allocation.kind))
    }

    /// Removes all regions for which `is` returns `true`.
    pub(crate) fn forget(&mut self, is: impl Fn(&Region) -> bool) {
        self.regions.retain(|_, region| !is(region));
    }

    /// Returns the memory behind these addresses, all of which one of these devices may use.
    pub(crate) fn resolve(&self, address: u64, len: u64, devices: u64) -> Cu<Vec<Span>> {
        let mut spans = Vec::new();
        let (mut at, mut left) = (address, len);
        while left > 0 {
            let region = self
                .find(at)
                .filter(|region| region.devices & devices != 0)
                .ok_or(INVALID_VALUE)?;
            let inside = at - region.start;
            let len = left.min(region.len - inside);
            spans.push(Span {
                allocation: Arc::clone(&region.allocation),
                offset: region.offset + inside,
                len,
            });
            (at, left) = (at + len, left - len);
        }
        Ok(spans)
    }
}

/// Returns the memory behind these addresses, which any device may use.
pub(crate) fn resolve(address: u64, len: u64) -> Cu<Vec<Span>> {
    space().resolve(address, len, ALL)
}

/// Returns the memory behind these addresses, which this device may use.
pub(crate) fn resolve_for(device: u32, address: u64, len: u64) -> Cu<Vec<Span>> {
    space().resolve(address, len, bit(device))
}

/// Returns the allocations that other processes may have.
pub(crate) fn between_processes() -> Vec<Arc<Allocation>> {
    let mut all: Vec<Arc<Allocation>> = Vec::new();
    for region in space().regions.values() {
        let known = all.iter().any(|one| Arc::ptr_eq(one, &region.allocation));
        if region.allocation.is_between_processes() && !known {
            all.push(Arc::clone(&region.allocation));
        }
    }
    all
}
