//! What addresses mean in this process.
//!
//! A device address is a number that no host address can be, and is never used twice: a host that follows one faults as it
//! would with a real device's, and use after free is always found.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::code::{Cu, INVALID_VALUE, OUT_OF_MEMORY};
use crate::memory::{Allocation, Kind, Span};

/// Device addresses begin here: beyond what a host process can map.
const FIRST_ADDRESS: u64 = 0x5e00_0000_0000_0000;
/// Alignment of an allocation, and of physical memory.
const PAGE_BYTES: u64 = 4096;
/// What virtual memory is mapped in units of.
pub(crate) const GRANULARITY_BYTES: u64 = 2 << 20;

/// A range of addresses that is backed by memory.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) allocation: Arc<Allocation>,
    /// Where in the allocation it begins.
    pub(crate) offset: u64,
    /// Which devices may use it, a bit for each; mapped memory must be allowed first.
    pub(crate) devices: u64,
}

/// Every device, a bit for each: there are 64 at most.
const ALL: u64 = u64::MAX;

/// The bit of a device.
pub(crate) fn bit(device: u32) -> u64 {
    1_u64.checked_shl(device).unwrap_or(0)
}

/// What addresses mean in this process.
#[derive(Debug, Default)]
pub(crate) struct Space {
    regions: BTreeMap<u64, Region>,
    next: u64,
}

static SPACE: LazyLock<Mutex<Space>> = LazyLock::new(Mutex::default);

/// What addresses mean, to be changed.
pub(crate) fn space() -> parking_lot::MutexGuard<'static, Space> {
    SPACE.lock()
}

impl Space {
    /// Addresses that nobody has had, with a gap behind them.
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

    /// Gives an allocation an address of its own: the host's, where hosts reach it.
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

    /// The region that this address is in.
    pub(crate) fn find(&self, address: u64) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (address - region.start < region.len).then_some(region)
    }

    /// The regions that overlap these addresses.
    pub(crate) fn overlapping(&mut self, start: u64, len: u64) -> impl Iterator<Item = &mut Region> {
        let end = start.saturating_add(len);
        self.regions
            .range_mut(..end)
            .map(|(_, region)| region)
            .filter(move |region| region.start + region.len > start)
    }

    /// The region that begins at this address, forgotten.
    pub(crate) fn remove(&mut self, start: u64) -> Option<Region> {
        self.regions.remove(&start)
    }

    /// The region that begins at this address, if its memory is of such a kind.
    pub(crate) fn starting(&self, start: u64, is: impl Fn(Kind) -> bool) -> Option<&Region> {
        self.regions
            .get(&start)
            .filter(|region| is(region.allocation.kind))
    }

    /// Forgets all regions of which this is so.
    pub(crate) fn forget(&mut self, is: impl Fn(&Region) -> bool) {
        self.regions.retain(|_, region| !is(region));
    }

    /// The memory behind these addresses, which one of these devices may use.
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

/// The memory behind these addresses, which some device may use.
pub(crate) fn resolve(address: u64, len: u64) -> Cu<Vec<Span>> {
    space().resolve(address, len, ALL)
}

/// The memory behind these addresses, as a device may use it.
pub(crate) fn resolve_for(device: u32, address: u64, len: u64) -> Cu<Vec<Span>> {
    space().resolve(address, len, bit(device))
}

/// Allocations that other processes may have.
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
