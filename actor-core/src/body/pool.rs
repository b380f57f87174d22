//! Memory of long bodies that is kept for the next ones.
//!
//! Fresh memory costs several times what it takes to fill it: the kernel clears each page first. So the memory of a long body
//! is not given back at once. The kernel may take it whenever it runs short, and it is full of zeros then.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::platform::pages::{may_be_taken, prefer_large_pages};

/// The minimum length of memory that is kept, in bytes. For less, the allocator does the same.
pub(super) const POOLED_MIN: usize = 4 << 20;

/// The bytes that are kept at most.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// The memory that this process keeps.
static KEPT: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

/// Empty memory of at least so many bytes, and at most twice as many; `None` if there is none.
pub(super) fn memory_of(bytes: usize) -> Option<Vec<u8>> {
    let fits = |memory: &Vec<u8>| (bytes..=bytes.saturating_mul(2)).contains(&memory.capacity());
    let mut kept = KEPT.lock();
    // The last one is the most likely to be in the processor's cache.
    let found = kept.iter().rposition(fits).and_then(|at| kept.remove(at));
    drop(kept);
    if found.is_some() {
        return found;
    }
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).ok()?;
    prefer_large_pages(memory.spare_capacity_mut());
    Some(memory)
}

/// Keeps memory that nobody uses any more, or frees it.
pub(super) fn keep(mut memory: Vec<u8>) {
    if !(POOLED_MIN..=KEPT_BYTES_MAX).contains(&memory.capacity()) {
        return;
    }
    memory.clear();
    may_be_taken(memory.spare_capacity_mut());
    let mut too_much = Vec::new();
    let mut kept = KEPT.lock();
    kept.push_back(memory);
    let mut bytes: usize = kept.iter().map(Vec::capacity).sum();
    while bytes > KEPT_BYTES_MAX
        && let Some(oldest) = kept.pop_front()
    {
        bytes -= oldest.capacity();
        too_much.push(oldest);
    }
    drop(kept);
    drop(too_much);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_within_the_limit() {
        // Other tests use the pool too, but no memory of these lengths.
        let (length, other) = (37 << 20, 90 << 20);
        let memory = memory_of(length).unwrap();
        let place = memory.as_ptr();
        keep(memory);
        assert!(memory_of(length / 4).unwrap().capacity() < length / 2 + 1);
        let again = memory_of(length - 1).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        keep(again);
        for _ in 0..3 {
            keep(Vec::with_capacity(other));
            let bytes: usize = KEPT.lock().iter().map(Vec::capacity).sum();
            assert!(bytes <= KEPT_BYTES_MAX, "{bytes}");
        }
        keep(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert!(KEPT.lock().iter().all(|kept| kept.capacity() <= KEPT_BYTES_MAX));
    }
}
