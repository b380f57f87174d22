//! The memory that both sides of a limit share: two cache lines for signals, followed by the slots for payloads.
//!
//! The memory is always a memfd, for threads too, so that both placements pay for the same kind of page. The other
//! process receives the memfd as its standard input: it has no name, so it cannot be left behind.
//!
//! - `ARENA-1`: the mapping is as long as the file, never shrinks, and holds [`HEAD_BYTES`] and all slots.
//! - `ARENA-2`: the two lines are accessed only through atomics.
//! - `ARENA-3`: a slot belongs to the asking side until that side has sent the number that hands it over, and then to
//!   the answering side until it has answered.

#![allow(unsafe_code)] // a mapping is raw memory; the invariants above make its use sound

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

use anyhow::Context;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::checksum::checksum;

/// The offset of the slots: one page, so that slots are aligned for every kind of copy.
const HEAD_BYTES: usize = 4096;

/// The signals of one direction, on a cache line of their own; the alignment keeps prefetchers from fetching both
/// lines.
#[repr(C, align(256))]
pub(crate) struct Line {
    /// The number of the last message; the sides agree on its meaning.
    pub(crate) number: AtomicU64,
    /// Eight bytes that travel with the number.
    pub(crate) value: AtomicU64,
    /// The number of the last message as a futex word, for sides that sleep.
    pub(crate) futex: AtomicU32,
}

/// The direction of a line.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// From the asking to the answering side.
    There,
    /// From the answering to the asking side.
    Back,
}

/// The division of the payload memory into slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) count: usize,
    pub(crate) payload_bytes: usize,
}

impl Slots {
    /// One slot of length 0, for limits without a payload.
    pub(crate) const NONE: Slots = Slots {
        count: 1,
        payload_bytes: 0,
    };

    fn stride(self) -> usize {
        self.payload_bytes.next_multiple_of(64)
    }

    fn size_bytes(self) -> anyhow::Result<usize> {
        self.stride()
            .checked_mul(self.count)
            .and_then(|slots| slots.checked_add(HEAD_BYTES))
            .context("the payload is too large")
    }
}

/// A mapping of the memory that both sides share.
pub(crate) struct Arena {
    map: MmapRaw,
    file: File,
    slots: Slots,
}

impl Arena {
    /// Creates zeroed memory.
    pub(crate) fn create(slots: Slots) -> anyhow::Result<Self> {
        let file = File::from(memfd_create("selvedge-limit", MemfdFlags::CLOEXEC).context("memfd_create")?);
        file.set_len(slots.size_bytes()? as u64)
            .context("not enough memory for the payload")?;
        Self::map(file, slots)
    }

    /// Maps memory that the other side has created with the same `slots`.
    pub(crate) fn map(file: File, slots: Slots) -> anyhow::Result<Self> {
        let found = file.metadata()?.len();
        anyhow::ensure!(
            found == slots.size_bytes()? as u64,
            "shared memory of {found} bytes is not ours"
        );
        let map = MmapOptions::new().map_raw(&file).context("mmap")?;
        Ok(Arena { map, file, slots })
    }

    /// Returns the memory's descriptor, for the other process.
    pub(crate) fn descriptor(&self) -> anyhow::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Returns the signals of one direction.
    pub(crate) fn line(&self, direction: Direction) -> &Line {
        let lines = self.map.as_ptr().cast::<[Line; 2]>();
        // SAFETY: ARENA-1: the mapping is page-aligned, so it is aligned to more than 256 bytes, and its first page is
        // longer than two lines; ARENA-2: all fields are atomics, valid for any bits, so they may be shared with every
        // process that maps the file.
        let [there, back] = unsafe { &*lines };
        match direction {
            Direction::There => there,
            Direction::Back => back,
        }
    }

    /// Returns the division of the payload memory into slots.
    pub(crate) fn slots(&self) -> Slots {
        self.slots
    }

    fn slot(&self, number: u64) -> *mut u8 {
        let index = (number % self.slots.count.max(1) as u64) as usize;
        // `wrapping_add` is safe to call; ARENA-1 guarantees that the result lies inside the mapping.
        self.map
            .as_mut_ptr()
            .wrapping_add(HEAD_BYTES + index * self.slots.stride())
    }

    /// Copies `source`, cut to a slot's length, into the slot of message `number`.
    ///
    /// # Safety
    /// The slot must belong to the caller (ARENA-3).
    pub(crate) unsafe fn copy_in(&self, number: u64, source: &[u8]) {
        let len = source.len().min(self.slots.payload_bytes);
        // SAFETY: ARENA-1 keeps the `len` bytes at the slot inside the mapping; by ARENA-3 (the caller's promise) this
        // side is the slot's only user; private memory does not overlap the mapping.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.slot(number), len) }
    }

    /// Reads every byte of the slot of message `number`.
    ///
    /// # Safety
    /// The slot must belong to the caller (ARENA-3).
    pub(crate) unsafe fn sum(&self, number: u64) -> u64 {
        // SAFETY: ARENA-1 keeps the slice inside the mapping; no other side writes to it while the slot belongs to this
        // side (ARENA-3, the caller's promise).
        checksum(unsafe { std::slice::from_raw_parts(self.slot(number), self.slots.payload_bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_1_slots_lie_inside_and_apart() {
        let arena = Arena::create(Slots {
            count: 3,
            payload_bytes: 100,
        })
        .unwrap();
        for number in 0..3_u64 {
            // SAFETY: this test is the only user of the memory.
            unsafe { arena.copy_in(number, &[number as u8 + 1; 100]) };
        }
        for number in 0..6_u64 {
            // SAFETY: this test is the only user of the memory.
            let found = unsafe { arena.sum(number) };
            assert_eq!(found, checksum(&[(number % 3) as u8 + 1; 100]));
        }
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let arena = Arena::create(Slots::NONE).unwrap();
        let file = File::from(arena.descriptor().unwrap());
        assert!(
            Arena::map(
                file,
                Slots {
                    count: 2,
                    payload_bytes: 8
                }
            )
            .is_err()
        );
    }
}
