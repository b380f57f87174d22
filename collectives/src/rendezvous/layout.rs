//! Layout of a group's memory, and the words of each rank.
//!
//! Each rank has these words. Each kind is on cache lines of its own, and all but `doorbell` and `claim` are written by
//! their rank alone:
//! - `doorbell`: the bell on which the rank sleeps;
//! - `claim`: the process that has the rank, and whether the rank has left;
//! - two `arrivals`, used in turn: the rank's contribution to operation n, published by the number n;
//! - `done` and `finished`: the last operation whose share is done, and the last one whose memory of other ranks is
//!   released;
//! - `staged` and `joined`: the number of chunks of private vectors that the rank has ever put into its ring, and the
//!   number that it has ever joined in the other rank's ring;
//! - `held`: for each rank, the blocks of that rank that this rank still reads;
//! - `blocks`: the segments of this rank's blocks of memory;
//! - `taken`: for each rank, the last message of that rank that this rank has taken;
//! - `messages`: for each rank, the last message to that rank, on a line of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::memory::process::Process;
use selvedge_channels::{Doorbell, Region, SegmentError, SegmentId};

use crate::error::CommError;

const LINE: usize = 64;
/// The maximum number of ranks of a group.
pub(crate) const MOST_RANKS: usize = 256;
/// The maximum number of blocks of a rank: the bits of a word.
pub(crate) const MOST_BLOCKS: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"selvcol1");
/// Bits of a claim: the rank has left; the rank is reserved for a process that will come. Process words use lower bits
/// only.
const LEFT: u64 = 1 << 63;
const EXPECTED: u64 = 1 << 62;
const MARKS: u64 = LEFT | EXPECTED;

/// The distances between the words of a group of some size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) ranks: usize,
    blocks: usize,
    taken: usize,
    messages: usize,
    stride: usize,
}

impl Layout {
    pub(crate) fn new(ranks: usize) -> Result<Self, CommError> {
        if ranks == 0 || ranks > MOST_RANKS {
            return Err(CommError::GroupSize {
                ranks,
                most: MOST_RANKS,
            });
        }
        let words = (ranks * 8).next_multiple_of(LINE);
        let blocks = HELD + words;
        let taken = blocks + MOST_BLOCKS * BLOCK_BYTES;
        let messages = taken + words;
        let stride = messages + ranks * LINE;
        Ok(Layout {
            ranks,
            blocks,
            taken,
            messages,
            stride,
        })
    }

    /// Returns the number of bytes of a group's memory, without its blocks.
    pub(crate) fn len_bytes(self) -> usize {
        LINE + self.ranks * self.stride
    }
}

const BELL: usize = 0;
const CLAIM: usize = BELL + Doorbell::BYTES;
const ARRIVALS: usize = CLAIM + LINE;
const DONE: usize = ARRIVALS + 2 * LINE;
const STAGED: usize = DONE + LINE;
const JOINED: usize = STAGED + LINE;
const HELD: usize = JOINED + LINE;
const BLOCK_BYTES: usize = 32;

/// The words of a group, in memory.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    region: Region,
    pub(crate) layout: Layout,
}

/// The contribution of a rank to an operation, as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The operation, as a word.
    pub(crate) what: u64,
    /// The hash of the types and shapes of the contribution.
    pub(crate) signature: u64,
    /// The block of the contribution, and the block for results; `u64::MAX` for none.
    pub(crate) block: u64,
    pub(crate) results: u64,
    /// The number of bytes of the heads, or of the report of a failure, at the start of the block.
    pub(crate) head_len: u64,
    /// True if the rank contributes a failure.
    pub(crate) failed: bool,
}

/// The cause that has ended a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Died { rank: usize, pid: u32 },
    Aborted { rank: usize },
}

impl Words {
    /// Returns the words of a group in `region`; `fresh` if no one has used the region before.
    pub(crate) fn at(region: Region, layout: Layout, fresh: bool) -> Result<Self, CommError> {
        let region = region.sub(0, layout.len_bytes())?;
        let words = Words { region, layout };
        let [magic, ranks] = words.region.atomics::<2>(0)?;
        if fresh {
            ranks.store(layout.ranks as u64, Ordering::Relaxed);
            magic.store(MAGIC, Ordering::Relaxed);
        } else if magic.load(Ordering::Relaxed) != MAGIC
            || ranks.load(Ordering::Relaxed) != layout.ranks as u64
        {
            return Err(CommError::Corrupt {
                what: "it is no group, or one of another size",
            });
        }
        Ok(words)
    }

    fn offset(&self, rank: usize, inner: usize) -> usize {
        LINE + rank * self.layout.stride + inner
    }

    fn word(&self, rank: usize, inner: usize) -> Result<&AtomicU64, SegmentError> {
        self.region.atomic_u64(self.offset(rank, inner))
    }

    /// Returns the doorbell of a rank.
    pub(crate) fn bell(&self, rank: usize) -> Result<Doorbell, SegmentError> {
        Doorbell::at(self.region.sub(self.offset(rank, BELL), Doorbell::BYTES)?)
    }

    // The end of the group.

    pub(crate) fn end(&self) -> Result<Option<End>, SegmentError> {
        // SYNC group-end: publishes nothing but itself.
        let word = self.region.atomic_u64(16)?.load(Ordering::Acquire);
        let rank = (word & 0xffff) as usize;
        Ok(match word >> 16 & 0xffff {
            0 => None,
            1 => Some(End::Died {
                rank,
                pid: (word >> 32) as u32,
            }),
            _ => Some(End::Aborted { rank }),
        })
    }

    /// Ends the group, unless it has ended already.
    pub(crate) fn set_end(&self, end: End) {
        let word = match end {
            End::Died { rank, pid } => rank as u64 | 1 << 16 | u64::from(pid) << 32,
            End::Aborted { rank } => rank as u64 | 2 << 16,
        };
        if let Ok(cell) = self.region.atomic_u64(16) {
            // SYNC group-end: the first cause stays.
            let _ = cell.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    // The owners of ranks.

    fn set_claim(&self, rank: usize, from: u64, to: u64) -> Result<(), CommError> {
        let claim = self.word(rank, CLAIM)?;
        // SYNC group-left: a claim publishes nothing else.
        let set = claim.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        set.map(|_| ()).map_err(|holder| CommError::Taken {
            rank,
            pid: Process::from_word(holder & !MARKS).pid,
        })
    }

    /// Reserves a rank for a process that will take it, unless that process has taken it already.
    pub(crate) fn expect(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let kept = self.set_claim(rank, 0, process.to_word() | EXPECTED);
        match self.holder(rank)? {
            Some((holder, _)) if holder.pid == process.pid => Ok(()),
            _ => kept,
        }
    }

    /// Takes a rank for a process.
    pub(crate) fn claim(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let word = process.to_word();
        let kept = self.set_claim(rank, word | EXPECTED, word);
        kept.or_else(|_| self.set_claim(rank, 0, word))
    }

    /// Returns the process that has a rank, or will have it, and whether the rank has left; `None` before any process
    /// has it.
    pub(crate) fn holder(&self, rank: usize) -> Result<Option<(Process, bool)>, SegmentError> {
        // SYNC group-left: a thread that sees that a rank has left also sees everything that the rank published before.
        let word = self.word(rank, CLAIM)?.load(Ordering::Acquire);
        Ok((word != 0).then(|| (Process::from_word(word & !MARKS), word & LEFT != 0)))
    }

    pub(crate) fn leave(&self, rank: usize) {
        if let Ok(claim) = self.word(rank, CLAIM) {
            // SYNC group-left.
            claim.fetch_or(LEFT, Ordering::AcqRel);
        }
    }

    // Operations. Two lines are used in turn: a rank that writes the line of operation n + 2 knows that all ranks have
    // arrived at n + 1, and so have read its contribution to n.

    fn arrivals(&self, rank: usize, number: u64) -> Result<&[AtomicU64; 6], SegmentError> {
        let line = ARRIVALS + (number & 1) as usize * LINE;
        self.region.atomics(self.offset(rank, line))
    }

    pub(crate) fn arrive(&self, rank: usize, number: u64, arrival: Arrival) -> Result<(), SegmentError> {
        let [published, what, signature, block, results, head] = self.arrivals(rank, number)?;
        what.store(arrival.what, Ordering::Relaxed);
        signature.store(arrival.signature, Ordering::Relaxed);
        block.store(arrival.block, Ordering::Relaxed);
        results.store(arrival.results, Ordering::Relaxed);
        head.store(
            arrival.head_len << 1 | u64::from(arrival.failed),
            Ordering::Relaxed,
        );
        // SYNC group-arrival: publishes the words above, the block's segment and the contents of the block.
        published.store(number, Ordering::Release);
        Ok(())
    }

    pub(crate) fn has_arrived(&self, rank: usize, number: u64) -> Result<bool, SegmentError> {
        let [published, ..] = self.arrivals(rank, number)?;
        // SYNC group-arrival.
        Ok(published.load(Ordering::Acquire) == number)
    }

    /// Returns the contribution of a rank, once the rank has arrived.
    pub(crate) fn arrival(&self, rank: usize, number: u64) -> Result<Arrival, SegmentError> {
        let [_, what, signature, block, results, head] = self.arrivals(rank, number)?;
        let head = head.load(Ordering::Relaxed);
        Ok(Arrival {
            what: what.load(Ordering::Relaxed),
            signature: signature.load(Ordering::Relaxed),
            block: block.load(Ordering::Relaxed),
            results: results.load(Ordering::Relaxed),
            head_len: head >> 1,
            failed: head & 1 == 1,
        })
    }

    fn ends(&self, rank: usize) -> Result<&[AtomicU64; 2], SegmentError> {
        self.region.atomics(self.offset(rank, DONE))
    }

    pub(crate) fn set_done(&self, rank: usize, number: u64) -> Result<(), SegmentError> {
        let [done, _] = self.ends(rank)?;
        // SYNC group-done: publishes this rank's share of the result.
        done.store(number, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_done(&self, rank: usize, number: u64) -> Result<bool, SegmentError> {
        let [done, _] = self.ends(rank)?;
        // SYNC group-done.
        Ok(done.load(Ordering::Acquire) >= number)
    }

    pub(crate) fn set_finished(&self, rank: usize, number: u64) -> Result<(), SegmentError> {
        let [_, finished] = self.ends(rank)?;
        // SYNC group-free: this rank's last reads of the blocks of others come before, except of the blocks that it
        // holds.
        finished.store(number, Ordering::Release);
        Ok(())
    }

    pub(crate) fn has_finished(&self, rank: usize, number: u64) -> Result<bool, SegmentError> {
        let [_, finished] = self.ends(rank)?;
        // SYNC group-free.
        Ok(finished.load(Ordering::Acquire) >= number)
    }

    // Chunks of private vectors.

    pub(crate) fn set_staged(&self, rank: usize, chunks: u64) -> Result<(), SegmentError> {
        // SYNC group-staged: publishes the chunks in this rank's ring.
        self.word(rank, STAGED)?.store(chunks, Ordering::Release);
        Ok(())
    }

    pub(crate) fn staged(&self, rank: usize) -> Result<u64, SegmentError> {
        // SYNC group-staged.
        Ok(self.word(rank, STAGED)?.load(Ordering::Acquire))
    }

    pub(crate) fn set_joined(&self, rank: usize, chunks: u64) -> Result<(), SegmentError> {
        // SYNC group-joined: publishes the results that this rank has written into the other's ring; this rank does
        // not read these chunks again.
        self.word(rank, JOINED)?.store(chunks, Ordering::Release);
        Ok(())
    }

    pub(crate) fn joined(&self, rank: usize) -> Result<u64, SegmentError> {
        // SYNC group-joined.
        Ok(self.word(rank, JOINED)?.load(Ordering::Acquire))
    }

    // Blocks.

    fn held(&self, rank: usize, owner: usize) -> Result<&AtomicU64, SegmentError> {
        self.word(rank, HELD + owner * 8)
    }

    /// Records that `rank` reads a block of `owner` beyond the operation.
    pub(crate) fn hold(&self, rank: usize, owner: usize, block: usize) -> Result<(), SegmentError> {
        // Relaxed: published by `set_finished`.
        self.held(rank, owner)?
            .fetch_or(1 << (block % MOST_BLOCKS), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn let_go(&self, rank: usize, owner: usize, block: usize) {
        if let Ok(held) = self.held(rank, owner) {
            // SYNC group-free: the last reads of the block come before.
            held.fetch_and(!(1 << (block % MOST_BLOCKS)), Ordering::Release);
        }
    }

    /// Returns the set of `owner`'s blocks that `rank` reads, one bit for each.
    pub(crate) fn holds(&self, rank: usize, owner: usize) -> Result<u64, SegmentError> {
        // SYNC group-free.
        Ok(self.held(rank, owner)?.load(Ordering::Acquire))
    }

    fn place(&self, rank: usize, block: usize) -> Result<&[AtomicU64; 3], SegmentError> {
        let place = self.layout.blocks + (block % MOST_BLOCKS) * BLOCK_BYTES;
        self.region.atomics(self.offset(rank, place))
    }

    // Messages from one rank to another, one at a time.

    fn message(&self, from: usize, to: usize) -> Result<&[AtomicU64; 3], SegmentError> {
        self.region
            .atomics(self.offset(from, self.layout.messages + to * LINE))
    }

    /// Publishes message `number`.
    pub(crate) fn send(
        &self,
        from: usize,
        to: usize,
        number: u64,
        block: usize,
        head_len: usize,
    ) -> Result<(), SegmentError> {
        let [sent, place, head] = self.message(from, to)?;
        place.store(block as u64, Ordering::Relaxed);
        head.store(head_len as u64, Ordering::Relaxed);
        // SYNC group-message: publishes the words above, the block's segment and the contents of the block.
        sent.store(number, Ordering::Release);
        Ok(())
    }

    /// Returns the block and the length of the heads of message `number`, once it has been sent.
    pub(crate) fn sent(
        &self,
        from: usize,
        to: usize,
        number: u64,
    ) -> Result<Option<(u64, u64)>, SegmentError> {
        let [sent, place, head] = self.message(from, to)?;
        // SYNC group-message.
        let there = sent.load(Ordering::Acquire) == number;
        Ok(there.then(|| (place.load(Ordering::Relaxed), head.load(Ordering::Relaxed))))
    }

    pub(crate) fn take(&self, from: usize, to: usize, number: u64) -> Result<(), SegmentError> {
        // SYNC group-free: tells the sender that the block is held, or has been read.
        self.word(to, self.layout.taken + from * 8)?
            .store(number, Ordering::Release);
        Ok(())
    }

    /// Returns the number of the last message that `to` has taken.
    pub(crate) fn taken(&self, from: usize, to: usize) -> Result<u64, SegmentError> {
        // SYNC group-free.
        Ok(self
            .word(to, self.layout.taken + from * 8)?
            .load(Ordering::Acquire))
    }

    /// Stores the segment of a block of `rank`; the next arrival or message of that rank publishes it.
    pub(crate) fn set_place(&self, rank: usize, block: usize, id: &SegmentId) -> Result<(), SegmentError> {
        let [nonce, file, len] = self.place(rank, block)?;
        nonce.store(id.nonce, Ordering::Relaxed);
        file.store(
            u64::from(id.pid) << 32 | u64::from(id.fd.cast_unsigned()),
            Ordering::Relaxed,
        );
        len.store(id.len_bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn place_of(&self, rank: usize, block: usize) -> Result<SegmentId, SegmentError> {
        let [nonce, file, len] = self.place(rank, block)?;
        let file = file.load(Ordering::Relaxed);
        Ok(SegmentId {
            pid: (file >> 32) as u32,
            fd: (file as u32).cast_signed(),
            nonce: nonce.load(Ordering::Relaxed),
            len_bytes: len.load(Ordering::Relaxed),
        })
    }
}
