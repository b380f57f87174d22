//! Fetching cache lines before they are read.
//!
//! A payload that has just been written lies in the caches of another core, and each of its lines takes a transfer. A
//! processor starts as many at a time as it can look ahead, which is less than it could: the loop that reads takes its place
//! too. Asked for all together, 4 KiB are there a third earlier. Fetching the lines that are written next, by the writer while
//! it has nothing to do, made everything slower: a copy takes them over without reading them.
#![allow(unsafe_code)] // an instruction by name

/// What is fetched ahead at most: of longer payloads the processor itself sees that they are read from one end to the other,
/// and whoever looks at a few of their bytes should not wait for the rest.
pub(crate) const MAX_BYTES: usize = 4096 + 64;

#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE: usize = 64;

/// Fetches the lines of so many bytes. A hint: nothing changes but where the lines lie, and nobody waits for them.
#[inline]
pub(crate) fn to_read(first: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for offset in (0..len).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (first, len);
}
