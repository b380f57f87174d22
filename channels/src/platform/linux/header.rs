//! The header of a segment that other processes can open: a magic number, and a nonce that distinguishes the segment
//! from another with the same name.
#![allow(unsafe_code)] // reads the first words of a mapping

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Magic and version in one: the first word of a segment.
const MAGIC: u64 = u64::from_le_bytes(*b"selvedg1");

/// A nonce that, with overwhelming likelihood, differs for every segment of every process.
pub(super) fn fresh_nonce() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the uniqueness of each number counts.
    RandomState::new().hash_one((std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// The header of a mapping.
pub(super) struct Header<'a> {
    magic: &'a AtomicU64,
    nonce: &'a AtomicU64,
}

impl<'a> Header<'a> {
    /// The header as it lies in memory.
    pub(super) fn bytes(nonce: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (place, word) in bytes
            .iter_mut()
            .zip([MAGIC, nonce].into_iter().flat_map(u64::to_ne_bytes))
        {
            *place = word;
        }
        bytes
    }

    /// # Safety
    /// `base` is aligned to 8 and points to at least [`SEGMENT_HEADER_BYTES`](super::SEGMENT_HEADER_BYTES) bytes that
    /// stay mapped for `'a`. Their first two words are accessed only atomically.
    pub(super) unsafe fn at(base: NonNull<u8>) -> Self {
        let first = base.as_ptr().cast::<u64>();
        // SAFETY: inside the mapping, by the caller's promise.
        let second = unsafe { first.add(1) };
        // SAFETY: aligned, mapped for `'a` and only accessed atomically, by the caller's promise.
        let magic = unsafe { AtomicU64::from_ptr(first) };
        // SAFETY: as above.
        let nonce = unsafe { AtomicU64::from_ptr(second) };
        Header { magic, nonce }
    }

    /// Writes the header, which makes the mapping a segment.
    pub(super) fn write(&self, nonce: u64) {
        // Relaxed: the store of the magic word publishes it.
        self.nonce.store(nonce, Ordering::Relaxed);
        // SYNC segment-made: pairs with the load in `is_made`; publishes the nonce.
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether the mapping is the segment with this nonce.
    pub(super) fn is(&self, nonce: u64) -> bool {
        // Relaxed: `is_made` has seen the store that publishes it.
        self.is_made() && self.nonce.load(Ordering::Relaxed) == nonce
    }

    /// Whether the mapping is a segment.
    pub(super) fn is_made(&self) -> bool {
        // SYNC segment-made.
        self.magic.load(Ordering::Acquire) == MAGIC
    }
}
