//! The hash FNV-1a (Fowler, Noll, Vo): neither secret nor collision-proof, but the same everywhere.

/// The hash of nothing.
pub(crate) const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds a byte to a hash.
pub(crate) fn fnv1a(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}
