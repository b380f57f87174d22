//! Prefetch: requests the cache lines of a payload before they are read.
//!
//! A payload that was just written lies in the caches of the writer's core, and each of its lines needs a transfer
//! between the cores. A processor has only as many transfers in flight as its look-ahead covers, fewer than it could
//! have, because the instructions of the reading loop take up look-ahead too. If all lines are requested together, 4
//! KiB arrive a third earlier. Prefetch by the writer, of the lines that it will write next while it is idle, made
//! everything slower: a copy takes over whole lines without reading them.
#![allow(unsafe_code)] // one processor instruction, through an intrinsic

/// The largest payload that is prefetched. In longer payloads the processor itself detects a sequential read, and a
/// reader that needs only a few bytes should not wait for the rest.
pub(crate) const MAX_BYTES: usize = 4096 + 64;

#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE: usize = 64;

/// Prefetches the cache lines of `len` bytes at `first`. A hint: it only moves cache lines, and no thread waits for
/// them.
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
