//! Staging of private vectors: two ranks reduce them chunk by chunk, through rings that stay in the caches.
//!
//! A vector is cut into pairs of chunks. Rank 0 reduces the first chunk of each pair, and rank 1 the second:
//!
//! 1. *Stage*: copy the chunk that the other rank reduces into the next slot of the own ring.
//! 2. *Reduce*: reduce the chunk in the other rank's slot with the own chunk, in place, and copy the result to the own
//!    vector.
//! 3. *Take*: copy the result out of the own slot, once the other rank has reduced it.
//!
//! So each cache line goes to the other core and back once, and only the vectors are read from and written to memory.
#![allow(unsafe_code)] // reads and writes memory that ranks access in turn

use selvedge_channels::{DType, Doorbell, fault_point};

use super::share::{BlockOf, Private};
use crate::error::CommError;
use crate::kernel::{self, Stores};
use crate::operation::ReduceOp;
use crate::parts::ALIGN;
use crate::rendezvous::{GroupState, MappedBlocks, Participant};

/// The number of bytes of a slot: few enough that chunk and slot stay in the nearest cache.
pub(super) const CHUNK_BYTES: usize = if cfg!(test) { 1 << 10 } else { 16 << 10 };
/// The number of slots of a ring. A ring that is smaller than the nearest cache is slower: the other core's lines are
/// still being written there.
const SLOTS: u64 = 16;
/// The number of bytes of a ring.
pub(super) const RING_BYTES: usize = CHUNK_BYTES * SLOTS as usize;
/// The number of chunks that are staged before the first is reduced: the chunks at a vector's start are staged when its
/// rank arrives.
const AHEAD: u64 = 2;

/// A private vector and its progress.
#[derive(Debug)]
pub(super) struct Vector {
    memory: Memory,
    len: usize,
    dtype: DType,
    op: ReduceOp,
    /// The number of bytes of each chunk, except the last ones.
    chunk: usize,
    pairs: u64,
    staged: u64,
    reduced: u64,
    taken: u64,
    /// True in models: the vector takes one step at each poll.
    #[cfg(test)]
    pub(super) slow: bool,
}

#[derive(Debug)]
enum Memory {
    /// Memory of the caller that waits for the operation.
    Lent(Private),
    Kept(Vec<u8>),
}

/// The rings of two ranks that reduce vectors, and the position in them.
pub(super) struct Rings<'a> {
    group: &'a GroupState,
    /// The number of this rank, and the ring of each rank.
    pub(super) rank: usize,
    pub(super) rings: &'a [Option<BlockOf>],
    mapped: &'a MappedBlocks,
    /// The number of chunks that went through each ring before this vector.
    pub(super) before: u64,
}

impl<'a> Rings<'a> {
    pub(super) fn new(participant: &'a Participant, rings: &'a [Option<BlockOf>], before: u64) -> Self {
        Rings {
            group: &participant.group,
            rank: participant.rank,
            rings,
            mapped: &participant.mapped,
            before,
        }
    }

    pub(super) fn other(&self) -> usize {
        1 - self.rank.min(1)
    }

    /// Returns the slot of a chunk, in the ring of a rank.
    fn slot(&self, rank: usize, chunk: u64, len: usize) -> Result<*mut u8, CommError> {
        let ring = self.rings.get(rank).copied().flatten();
        let ring = ring.ok_or(CommError::Corrupt {
            what: "a rank brought no ring",
        })?;
        ring.address(self.mapped, slot_offset(self.before + chunk), len)
    }
}

/// Returns the offset of a chunk's slot in a ring.
fn slot_offset(chunk: u64) -> usize {
    (chunk % SLOTS) as usize * CHUNK_BYTES
}

impl Vector {
    /// Creates a vector in memory that its owner keeps until [`keep`](Self::keep), or until the operation has ended.
    pub(super) fn lent(memory: Private, len: usize, dtype: DType, op: ReduceOp) -> Self {
        Vector::new(Memory::Lent(memory), len, dtype, op)
    }

    #[cfg(test)]
    pub(super) fn kept(memory: Vec<u8>, dtype: DType, op: ReduceOp) -> Self {
        let len = memory.len();
        let memory = Memory::Kept(memory);
        Vector {
            slow: true,
            ..Vector::new(memory, len, dtype, op)
        }
    }

    fn new(memory: Memory, len: usize, dtype: DType, op: ReduceOp) -> Self {
        let pairs = len.div_ceil(2 * CHUNK_BYTES);
        // Both ranks reduce equally long chunks, in whole cache lines.
        let chunk = len.div_ceil((2 * pairs).max(1)).next_multiple_of(ALIGN);
        Vector {
            memory,
            len,
            dtype,
            op,
            chunk,
            pairs: pairs as u64,
            staged: 0,
            reduced: 0,
            taken: 0,
            #[cfg(test)]
            slow: false,
        }
    }

    /// Copies the vector, because its owner takes the memory back. Returns `false` if there is no memory for the copy.
    pub(super) fn keep(&mut self) -> bool {
        let Memory::Lent(Private(memory)) = self.memory else {
            return true;
        };
        let mut kept = Vec::new();
        let there = kept.try_reserve_exact(self.len).is_ok();
        if there {
            // SAFETY: the vector is lent, so `len` bytes lie there, and no one writes them.
            kept.extend_from_slice(unsafe { std::slice::from_raw_parts(memory, self.len) });
        }
        self.memory = Memory::Kept(kept);
        there
    }

    /// Returns the contents of a vector that was kept; `None` for a lent one.
    pub(super) fn result(&self) -> Option<&[u8]> {
        match &self.memory {
            Memory::Lent(_) => None,
            Memory::Kept(kept) => Some(kept),
        }
    }

    /// Returns the number of chunks that each rank stages.
    pub(super) fn pairs(&self) -> u64 {
        self.pairs
    }

    #[cfg(test)]
    pub(super) fn progress(&self) -> u64 {
        self.staged << 16 | self.reduced << 8 | self.taken
    }

    /// Returns the chunk of a pair that the rank `reducer` reduces: its first byte and its length in bytes.
    fn chunk(&mut self, pair: u64, reducer: usize) -> (*mut u8, usize) {
        let from = (2 * pair as usize + reducer)
            .saturating_mul(self.chunk)
            .min(self.len);
        let begin = match &mut self.memory {
            Memory::Lent(Private(memory)) => *memory,
            Memory::Kept(kept) => kept.as_mut_ptr(),
        };
        (begin.wrapping_add(from), self.chunk.min(self.len - from))
    }

    /// Stages the chunks that may be staged before the other rank has come, in the own ring. `slot` returns the address
    /// of an offset and a length in that ring.
    pub(super) fn begin(
        &mut self,
        rank: usize,
        before: u64,
        slot: impl Fn(usize, usize) -> Result<*mut u8, CommError>,
    ) -> Result<(), CommError> {
        while self.staged < AHEAD.min(self.pairs) {
            let (from, len) = self.chunk(self.staged, 1 - rank.min(1));
            let to = slot(slot_offset(before + self.staged), len)?;
            // SAFETY: `len` bytes each: of the vector, and of a slot that belongs to this rank again since this rank
            // took the last result out of it (`COLL-4`).
            unsafe { kernel::copy(from, to, len, Stores::Cached) };
            self.staged += 1;
        }
        Ok(())
    }

    fn may_stage(&self) -> bool {
        self.staged < self.pairs.min(self.reduced + AHEAD) && self.staged < self.taken + SLOTS
    }

    fn may_reduce(&self, at: &Rings<'_>) -> Result<bool, CommError> {
        if self.reduced >= self.pairs {
            return Ok(false);
        }
        // The arrival publishes the first chunks.
        Ok(self.reduced < AHEAD || at.group.words.staged(at.other())? > at.before + self.reduced)
    }

    fn may_take(&self, at: &Rings<'_>) -> Result<bool, CommError> {
        Ok(self.taken < self.staged && at.group.words.reduced(at.other())? > at.before + self.taken)
    }

    /// True if a step is possible.
    pub(super) fn may_pass(&self, at: &Rings<'_>) -> Result<bool, CommError> {
        Ok(self.may_stage() || self.may_reduce(at)? || self.may_take(at)?)
    }

    /// Does all steps that are possible. Returns whether the vector is complete.
    pub(super) fn pass(&mut self, at: &Rings<'_>) -> Result<bool, CommError> {
        loop {
            let mut moved = false;
            if self.may_stage() {
                self.stage(at)?;
                moved = true;
            }
            if self.may_reduce(at)? {
                self.reduce(at)?;
                moved = true;
            }
            if self.may_take(at)? {
                self.take(at)?;
                moved = true;
            }
            if self.taken == self.pairs && self.reduced == self.pairs {
                return Ok(true);
            }
            #[cfg(test)]
            if self.slow {
                return Ok(false);
            }
            if !moved {
                return Ok(false);
            }
        }
    }

    fn stage(&mut self, at: &Rings<'_>) -> Result<(), CommError> {
        let (from, len) = self.chunk(self.staged, at.other());
        let to = at.slot(at.rank, self.staged, len)?;
        // SAFETY: `len` bytes each: of the vector, and of a slot out of which this rank has taken the last result
        // (`COLL-4`).
        unsafe { kernel::copy(from, to, len, Stores::Cached) };
        self.staged += 1;
        fault_point::at("rank: before it says what it staged");
        at.group.words.set_staged(at.rank, at.before + self.staged)?;
        Doorbell::ring_all_but(&at.group.bells, at.rank);
        Ok(())
    }

    fn reduce(&mut self, at: &Rings<'_>) -> Result<(), CommError> {
        let (own, len) = self.chunk(self.reduced, at.rank);
        let slot = at.slot(at.other(), self.reduced, len)?;
        let mut from = [own.cast_const(), slot.cast_const()];
        if at.rank > 0 {
            from.swap(0, 1);
        }
        // SAFETY: the vector and the slot contain as many elements. The slot belongs to this rank from the time when
        // the other rank has staged it to the time when that rank learns that it is reduced (`COLL-4`).
        unsafe { kernel::reduce(self.op, self.dtype, slot, &from, len / self.dtype.size_bytes()) };
        // SAFETY: as above; `len` bytes of the vector, which no one else uses.
        unsafe { kernel::copy(slot, own, len, Stores::Cached) };
        self.reduced += 1;
        fault_point::at("rank: before it says what it reduced");
        at.group.words.set_reduced(at.rank, at.before + self.reduced)?;
        Doorbell::ring_all_but(&at.group.bells, at.rank);
        Ok(())
    }

    fn take(&mut self, at: &Rings<'_>) -> Result<(), CommError> {
        let (to, len) = self.chunk(self.taken, at.other());
        let from = at.slot(at.rank, self.taken, len)?;
        // SAFETY: `len` bytes each: of a slot that the other rank has reduced and does not read again (`COLL-4`),
        // and of the vector.
        unsafe { kernel::copy(from, to, len, Stores::Cached) };
        self.taken += 1;
        fault_point::at("rank: after it took a result");
        Ok(())
    }
}
