//! Best fit over free stretches that are joined with their neighbours (Knuth, "The Art of Computer Programming", volume 1, 2.5):
//! an extent is a range of leaves, and is taken and given back in O(log n).
//!
//! Objects are often a power of two and a head, for which a buddy allocator would take twice the memory. Of the stretches of a length the
//! one that was given back last is taken first, because its memory is warm.

use selvedge_cluster::id_map::{IdKey, IdMap};
use serde::{Deserialize, Serialize};

/// The unit of extents in bytes, a multiple of every page size that a supported machine has.
pub const LEAF_BYTES: u64 = 16 << 10;

/// A range of a store's memory or of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// The first byte, a multiple of [`LEAF_BYTES`].
    pub offset: u64,
    /// The length in bytes, a multiple of [`LEAF_BYTES`].
    pub len_bytes: u64,
}

impl Extent {
    /// The extent of so many leaves.
    pub(super) fn of_leaves(first: u64, leaves: u64) -> Self {
        Extent {
            offset: first * LEAF_BYTES,
            len_bytes: leaves * LEAF_BYTES,
        }
    }

    pub(super) fn first_leaf(self) -> u64 {
        self.offset / LEAF_BYTES
    }

    pub(super) fn leaves(self) -> u64 {
        self.len_bytes / LEAF_BYTES
    }
}

/// The number of leaves that hold so many bytes, at least one.
pub(super) fn leaves_of(bytes: u64) -> u64 {
    bytes.div_ceil(LEAF_BYTES).max(1)
}

/// A free stretch: its length and the time at which it was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stretch {
    leaves: u64,
    since: u64,
}

impl IdKey for Stretch {
    type Number = u128;

    const BITS: u32 = 2 * u64::BITS;

    fn number(self) -> u128 {
        (self.leaves, self.since).number()
    }
}

/// The extents of some memory that are free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extents {
    /// The first leaf of each free stretch, by length and time.
    by_length: IdMap<Stretch, u64>,
    /// The free stretches by their first leaves. No two touch.
    by_place: IdMap<u64, Stretch>,
    free_leaves: u64,
    clock: u64,
}

impl Extents {
    /// Memory of so many leaves, all of them free.
    pub(super) fn new(leaves: u64) -> Self {
        let mut extents = Extents {
            by_length: IdMap::new(),
            by_place: IdMap::new(),
            free_leaves: 0,
            clock: 0,
        };
        extents.give(Extent::of_leaves(0, leaves));
        extents
    }

    /// The number of leaves that are free.
    pub(super) fn free_leaves(&self) -> u64 {
        self.free_leaves
    }

    /// Takes an extent from the shortest stretch that is long enough; `None` if none is.
    pub(super) fn take(&mut self, leaves: u64) -> Option<Extent> {
        let of_length = |leaves| Stretch { leaves, since: 0 };
        let shortest = self.by_length.first_from(of_length(leaves))?.0.leaves;
        let (stretch, first) = self.by_length.last_before(of_length(shortest + 1))?;
        let (stretch, first) = (*stretch, *first);
        self.remove(first);
        self.free_leaves -= leaves;
        if stretch.leaves > leaves {
            self.insert(first + leaves, stretch.leaves - leaves);
        }
        Some(Extent::of_leaves(first, leaves))
    }

    /// Gives an extent back.
    pub(super) fn give(&mut self, extent: Extent) {
        let (mut first, mut leaves) = (extent.first_leaf(), extent.leaves());
        if leaves == 0 {
            return;
        }
        self.free_leaves += leaves;
        let before = self.by_place.last_before(first);
        if let Some((begin, _)) = before.filter(|(begin, stretch)| **begin + stretch.leaves == first) {
            let begin = *begin;
            leaves += self.remove(begin);
            first = begin;
        }
        leaves += self.remove(first + leaves);
        self.insert(first, leaves);
    }

    fn insert(&mut self, first: u64, leaves: u64) {
        self.clock += 1;
        let since = self.clock;
        let stretch = Stretch { leaves, since };
        self.by_length.insert(stretch, first);
        self.by_place.insert(first, stretch);
    }

    /// Removes the stretch that begins here. Returns its length, 0 if there is none.
    fn remove(&mut self, first: u64) -> u64 {
        let removed = self.by_place.remove(&first);
        removed.map_or(0, |stretch| {
            self.by_length.remove(&stretch);
            stretch.leaves
        })
    }
}

/// The leaves that have memory behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Backed {
    /// The first leaf of each stretch, and the leaf behind its last one. No two stretches touch.
    stretches: IdMap<u64, u64>,
    leaves: u64,
}

impl Backed {
    /// The number of leaves that have memory.
    pub(super) fn leaves(&self) -> u64 {
        self.leaves
    }

    /// The stretches that begin between two leaves, the second one excluded, behind the last one that begins before.
    fn up_to(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let before = self.stretches.last_before(first).into_iter();
        let stretches = before.chain(self.stretches.between(first, end));
        let stretches = stretches.map(|(begin, behind)| (*begin, *behind));
        stretches.filter(move |(begin, _)| *begin < end)
    }

    /// The parts of an extent that have no memory yet.
    pub(super) fn bare(&self, extent: Extent) -> Vec<Extent> {
        let (first, end) = (extent.first_leaf(), extent.first_leaf() + extent.leaves());
        let mut bare = Vec::new();
        let mut at = first;
        for (begin, behind) in self.up_to(first, end) {
            if begin > at {
                bare.push(Extent::of_leaves(at, begin - at));
            }
            at = at.max(behind);
        }
        if at < end {
            bare.push(Extent::of_leaves(at, end - at));
        }
        bare
    }

    /// The extent has memory from now on.
    pub(super) fn insert(&mut self, extent: Extent) {
        self.remove(extent);
        let (mut first, mut end) = (extent.first_leaf(), extent.first_leaf() + extent.leaves());
        self.leaves += end - first;
        if let Some((begin, behind)) = self.stretches.last_before(first)
            && *behind == first
        {
            first = *begin;
        }
        if let Some(behind) = self.stretches.remove(&end) {
            end = behind;
        }
        self.stretches.insert(first, end);
    }

    /// The extent has no memory any more.
    pub(super) fn remove(&mut self, extent: Extent) {
        let (first, end) = (extent.first_leaf(), extent.first_leaf() + extent.leaves());
        let touched: Vec<(u64, u64)> = self.up_to(first, end).collect();
        for (begin, behind) in touched.into_iter().filter(|(_, behind)| *behind > first) {
            self.stretches.remove(&begin);
            self.leaves -= behind.min(end) - begin.max(first);
            if begin < first {
                self.stretches.insert(begin, first);
            }
            if behind > end {
                self.stretches.insert(end, behind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn leaves_in(extent: Extent) -> std::ops::Range<u64> {
        extent.first_leaf()..extent.first_leaf() + extent.leaves()
    }

    #[test]
    fn memory_that_was_given_back_last_is_lent_first() {
        let mut extents = Extents::new(16);
        let taken: Vec<Extent> = (0..16).filter_map(|_| extents.take(1)).collect();
        assert_eq!(taken.len(), 16);
        // No two of them touch, so none is joined.
        for at in [2, 8, 4] {
            extents.give(taken[at]);
        }
        assert_eq!(extents.take(1), Some(taken[4]));
        assert_eq!(extents.take(1), Some(taken[8]));
        assert_eq!(extents.take(1), Some(taken[2]));
        assert_eq!(extents.take(1), None);
    }

    proptest! {
        #[test]
        fn extents_are_disjoint_and_all_that_is_given_back_joins(
            size in 1_u64..200,
            steps in prop::collection::vec((1_u64..40, any::<prop::sample::Index>(), any::<bool>()), 0..80),
        ) {
            let mut extents = Extents::new(size);
            let (mut taken, mut used) = (Vec::<Extent>::new(), BTreeSet::new());
            for (leaves, which, gives) in steps {
                if gives && !taken.is_empty() {
                    let extent = taken.swap_remove(which.index(taken.len()));
                    leaves_in(extent).for_each(|leaf| assert!(used.remove(&leaf)));
                    extents.give(extent);
                } else if let Some(extent) = extents.take(leaves) {
                    prop_assert_eq!(extent.leaves(), leaves);
                    for leaf in leaves_in(extent) {
                        prop_assert!(leaf < size && used.insert(leaf));
                    }
                    taken.push(extent);
                } else {
                    // A stretch may be too short, but never all of the memory.
                    prop_assert!(!taken.is_empty() || leaves > size);
                }
                prop_assert_eq!(extents.free_leaves(), size - used.len() as u64);
            }
            taken.into_iter().for_each(|extent| extents.give(extent));
            prop_assert!(extents.take(size).is_some());
        }

        #[test]
        fn what_has_memory_is_known_leaf_by_leaf(
            steps in prop::collection::vec((0_u64..40, 1_u64..12, any::<bool>()), 0..60),
        ) {
            let (mut backed, mut model) = (Backed::default(), BTreeSet::new());
            for (first, leaves, is_added) in steps {
                let extent = Extent::of_leaves(first, leaves);
                let bare: BTreeSet<u64> = backed.bare(extent).into_iter().flat_map(leaves_in).collect();
                let wanted: BTreeSet<u64> = leaves_in(extent).filter(|leaf| !model.contains(leaf)).collect();
                prop_assert_eq!(bare, wanted);
                if is_added {
                    backed.insert(extent);
                    model.extend(leaves_in(extent));
                } else {
                    backed.remove(extent);
                    leaves_in(extent).for_each(|leaf| { model.remove(&leaf); });
                }
                prop_assert_eq!(backed.leaves(), model.len() as u64);
            }
        }
    }
}
