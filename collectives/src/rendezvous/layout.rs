//! Layout of a group's memory: the offsets of the words of each rank.
//!
//! Each rank has these words. Each kind is on cache lines of its own, and all but `doorbell` and `claim` are written by
//! their rank alone:
//! - `doorbell`: the bell on which the rank sleeps;
//! - `claim`: the process that has the rank, and whether the rank has left;
//! - two `arrivals`, used in turn: the rank's contribution to operation n, published by the number n;
//! - `done` and `finished`: the last operation whose share is done, and the last one whose memory of other ranks is
//!   released;
//! - `staged` and `reduced`: the number of chunks of private vectors that the rank has ever put into its ring, and the
//!   number that it has ever reduced in the other rank's ring;
//! - `held`: for each rank, the blocks of that rank that this rank still reads;
//! - `segments`: the segments of this rank's blocks;
//! - `received`: for each rank, the last message of that rank that this rank has received;
//! - `messages`: for each rank, the last message to that rank, on a line of its own.

use selvedge_channels::Doorbell;

use crate::error::CommError;

const LINE: usize = 64;
/// The maximum number of ranks of a group.
const MOST_RANKS: usize = 256;
/// The maximum number of blocks of a rank: the bits of a word.
pub(crate) const MOST_BLOCKS: usize = 64;

pub(super) const BELL: usize = 0;
pub(super) const CLAIM: usize = BELL + Doorbell::BYTES;
const ARRIVALS: usize = CLAIM + LINE;
pub(super) const DONE: usize = ARRIVALS + 2 * LINE;
pub(super) const STAGED: usize = DONE + LINE;
pub(super) const REDUCED: usize = STAGED + LINE;
const HELD: usize = REDUCED + LINE;
const SEGMENT_BYTES: usize = 32;

/// The distances between the words of a group of some size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLayout {
    pub(crate) ranks: usize,
    segments: usize,
    received: usize,
    messages: usize,
    stride: usize,
}

impl GroupLayout {
    pub(crate) fn new(ranks: usize) -> Result<Self, CommError> {
        if ranks == 0 || ranks > MOST_RANKS {
            return Err(CommError::GroupSize {
                ranks,
                most: MOST_RANKS,
            });
        }
        let words = (ranks * 8).next_multiple_of(LINE);
        let segments = HELD + words;
        let received = segments + MOST_BLOCKS * SEGMENT_BYTES;
        let messages = received + words;
        let stride = messages + ranks * LINE;
        Ok(GroupLayout {
            ranks,
            segments,
            received,
            messages,
            stride,
        })
    }

    /// Returns the number of bytes of a group's memory, without its blocks.
    pub(crate) fn len_bytes(self) -> usize {
        LINE + self.ranks * self.stride
    }

    /// Returns the offset of a word of a rank.
    pub(super) fn of(self, rank: usize, word: usize) -> usize {
        LINE + rank * self.stride + word
    }

    /// Returns the offset of a rank's arrival at operation `number`.
    pub(super) fn arrival(self, rank: usize, number: u64) -> usize {
        self.of(rank, ARRIVALS + (number & 1) as usize * LINE)
    }

    /// Returns the offset of the set of `owner`'s blocks that `rank` reads.
    pub(super) fn held(self, rank: usize, owner: usize) -> usize {
        self.of(rank, HELD + owner * 8)
    }

    /// Returns the offset of the segment of a rank's block.
    pub(super) fn segment(self, rank: usize, block: usize) -> usize {
        self.of(rank, self.segments + (block % MOST_BLOCKS) * SEGMENT_BYTES)
    }

    /// Returns the offset of the last message from one rank to another.
    pub(super) fn message(self, from: usize, to: usize) -> usize {
        self.of(from, self.messages + to * LINE)
    }

    /// Returns the offset of the number of the last message that `to` has received from `from`.
    pub(super) fn received(self, from: usize, to: usize) -> usize {
        self.of(to, self.received + from * 8)
    }
}
