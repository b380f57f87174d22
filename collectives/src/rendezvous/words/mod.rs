//! The words of a group, in memory that all ranks see. All of them are accessed as atomic words only.
//!
//! - this file: the group itself, its end, the doorbells, and the claims: the processes that have the ranks;
//! - `arrivals`: the operations of the ranks;
//! - `blocks`: the segments of blocks, the blocks that ranks hold, the progress of private vectors, and messages from one
//!   rank to another.

mod arrivals;
mod blocks;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use arrivals::Arrival;
use selvedge_channels::memory::claim::{Claim, Holder};
use selvedge_channels::memory::process::Process;
use selvedge_channels::{Doorbell, Region, SegmentError};

use super::layout::{BELL, CLAIM, GroupLayout};
use crate::error::CommError;

const MAGIC: u64 = u64::from_le_bytes(*b"selvcol1");
/// The offset of the word with the cause that has ended the group.
const END: usize = 16;

/// The words of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupWords {
    region: Region,
    pub(crate) layout: GroupLayout,
}

/// The cause that has ended a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupEnd {
    Died { rank: usize, pid: u32 },
    Aborted { rank: usize },
}

impl GroupWords {
    /// Returns the words of a group in `region`; `fresh` if no one has used the region before.
    pub(crate) fn at(region: Region, layout: GroupLayout, fresh: bool) -> Result<Self, CommError> {
        let region = region.sub(0, layout.len_bytes())?;
        let words = GroupWords { region, layout };
        let [magic, ranks] = words.region.atomics::<2>(0)?;
        // Relaxed: a descriptor of the group is passed on after these words are written, by means that synchronise.
        if fresh {
            ranks.store(layout.ranks as u64, Ordering::Relaxed);
            magic.store(MAGIC, Ordering::Relaxed);
        } else if (magic.load(Ordering::Relaxed), ranks.load(Ordering::Relaxed))
            != (MAGIC, layout.ranks as u64)
        {
            return Err(CommError::Corrupt {
                what: "it is no group, or one of another size",
            });
        }
        Ok(words)
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64, SegmentError> {
        self.region.atomic_u64(offset)
    }

    /// Returns the doorbell of a rank.
    pub(crate) fn bell(&self, rank: usize) -> Result<Doorbell, SegmentError> {
        Doorbell::at(self.region.sub(self.layout.of(rank, BELL), Doorbell::BYTES)?)
    }

    pub(crate) fn end(&self) -> Result<Option<GroupEnd>, SegmentError> {
        // SYNC group-end: the Acquire pairs with `set_end`; the word publishes nothing but itself.
        let word = self.word(END)?.load(Ordering::Acquire);
        let rank = (word & 0xffff) as usize;
        Ok(match word >> 16 & 0xffff {
            0 => None,
            1 => Some(GroupEnd::Died {
                rank,
                pid: (word >> 32) as u32,
            }),
            _ => Some(GroupEnd::Aborted { rank }),
        })
    }

    /// Ends the group, unless it has ended already.
    pub(crate) fn set_end(&self, end: GroupEnd) {
        let word = match end {
            GroupEnd::Died { rank, pid } => rank as u64 | 1 << 16 | u64::from(pid) << 32,
            GroupEnd::Aborted { rank } => rank as u64 | 2 << 16,
        };
        if let Ok(cell) = self.word(END) {
            // SYNC group-end: pairs with `end`. Only an exchange with 0 succeeds, so the first cause stays.
            let _ = cell.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

/// Stores words that a later release publishes.
fn store_all<const N: usize>(words: &[AtomicU64; N], values: [u64; N]) {
    for (word, value) in words.iter().zip(values) {
        // Relaxed: the release that follows, of the word that publishes these, orders them.
        word.store(value, Ordering::Relaxed);
    }
}

/// Loads words that an acquire has made visible.
fn load_all<const N: usize>(words: &[AtomicU64; N]) -> [u64; N] {
    // Relaxed: the acquire that came before, of the word that publishes these, orders them.
    words.each_ref().map(|word| word.load(Ordering::Relaxed))
}

impl GroupWords {
    fn claim_of(&self, rank: usize) -> Result<Claim<'_>, SegmentError> {
        Claim::at(&self.region, self.layout.of(rank, CLAIM))
    }

    /// Reserves a rank for a process that will take it, unless that process has taken it already.
    pub(crate) fn expect(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let reserved = self.claim_of(rank)?.reserve(process);
        reserved.map_err(|holder| taken(rank, holder))
    }

    /// Takes a rank for a process.
    pub(crate) fn claim(&self, rank: usize, process: Process) -> Result<(), CommError> {
        let claimed = self.claim_of(rank)?.take(process);
        claimed.map_err(|holder| taken(rank, holder))
    }

    /// Returns the process that has a rank, or will have it; `None` before any process has it.
    pub(crate) fn holder(&self, rank: usize) -> Result<Option<Holder>, SegmentError> {
        Ok(self.claim_of(rank)?.holder())
    }

    /// Whether a rank has left.
    pub(crate) fn has_left(&self, rank: usize) -> Result<bool, SegmentError> {
        Ok(self.holder(rank)?.is_some_and(|holder| holder.has_left))
    }

    pub(crate) fn leave(&self, rank: usize) {
        if let Ok(claim) = self.claim_of(rank) {
            claim.leave();
        }
    }
}

fn taken(rank: usize, holder: Holder) -> CommError {
    let pid = holder.process.pid;
    CommError::Taken { rank, pid }
}
