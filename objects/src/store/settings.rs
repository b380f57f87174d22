//! Sizes of a store.

/// Sizes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreSettings {
    /// The bytes of the whole store; what is beyond a multiple of [`LEAF_BYTES`](super::LEAF_BYTES) is not used.
    pub capacity_bytes: u64,
    /// The bytes of free memory that keep their pages, so that the next object finds warm memory. More goes back to the system.
    pub warm_bytes: u64,
}

impl StoreSettings {
    /// A store of so many bytes, of which at most an eighth, and at least 64 MiB, is kept warm.
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        StoreSettings {
            capacity_bytes,
            warm_bytes: (capacity_bytes / 8).max(64 << 20),
        }
    }
}
