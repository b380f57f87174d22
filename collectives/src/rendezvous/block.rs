//! Blocks: the memory of one rank, in segments that other ranks can map.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use selvedge_channels::{Region, SEGMENT_HEADER_BYTES, Segment, SegmentId};

use super::layout::MOST_BLOCKS;
use super::mapped::region_of;
use super::state::GroupState;
use crate::error::CommError;

/// The size of the smallest block.
const LEAST_BYTES: usize = 16 << 10;

/// The blocks of one rank. A block that is too small is replaced by a larger one.
pub(crate) struct Blocks {
    rank: usize,
    own: Vec<Block>,
}

/// A block of this rank.
struct Block {
    region: Region,
    /// The number of the last operation in which the block was used.
    used_in: u64,
    /// The receiver and the number of the message that the block contains, if it contains one.
    sent: Option<(usize, u64)>,
    /// The mark of a lease: a clone exists as long as the block is lent for writing, or is part of the operation in
    /// flight.
    lease: Arc<()>,
}

/// A block that only this rank may write.
#[derive(Clone, Debug)]
pub(crate) struct LeasedBlock {
    pub(crate) index: usize,
    pub(crate) region: Region,
    _lease: Arc<()>,
}

impl Block {
    fn lend(&self, index: usize) -> LeasedBlock {
        LeasedBlock {
            index,
            region: self.region.clone(),
            _lease: Arc::clone(&self.lease),
        }
    }

    /// Whether the operation or the message in which `owner` used the block is over for every rank. A rank may hold the
    /// block nevertheless.
    fn is_over(&self, group: &GroupState, owner: usize) -> Result<bool, CommError> {
        if Arc::strong_count(&self.lease) > 1 {
            return Ok(false);
        }
        if let Some((to, number)) = self.sent
            && group.words.received(owner, to)? < number
        {
            return Ok(false);
        }
        // SYNC lease: the Acquire pairs with the release in the drop of the last clone; all writes through that clone
        // come before.
        fence(Ordering::Acquire);
        for other in (0..group.ranks()).filter(|other| *other != owner) {
            #[cfg(test)]
            looks::before_one();
            if !group.words.has_finished(other, self.used_in)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a rank, which may be `owner` itself, holds block `index` of `owner`.
fn is_held(group: &GroupState, owner: usize, index: usize) -> Result<bool, CommError> {
    for holder in 0..group.ranks() {
        #[cfg(test)]
        looks::before_one();
        if group.words.holds(holder, owner)? >> index & 1 == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Blocks {
    pub(super) fn new(rank: usize) -> Self {
        Blocks {
            rank,
            own: Vec::new(),
        }
    }

    /// Takes a block of at least `need` bytes that no rank uses (`COLL-2`).
    pub(crate) fn take(&mut self, group: &GroupState, need: usize) -> Result<LeasedBlock, CommError> {
        let mut too_small = None;
        for (index, block) in self.own.iter().enumerate() {
            // SYNC group-free: in this order. A rank holds a block before it finishes the operation, or receives the
            // message, that has the block. The Acquire of that number in `is_over` makes the hold visible to the load in
            // `is_held`. A load before it may miss the hold of a rank that finishes between the two. No rank begins to
            // hold the block later, because it is part of nothing any more.
            if !block.is_over(group, self.rank)? || is_held(group, self.rank, index)? {
                continue;
            }
            let len = block.region.len_bytes();
            if len >= need {
                return Ok(block.lend(index));
            }
            too_small = Some((index, len));
        }
        // Half as much again as before, so that slow growth does not make a new block every time.
        let (index, least) = too_small.map_or((self.own.len(), 0), |(index, len)| (index, len / 2 * 3));
        self.create(group, index, need.max(least))
    }

    /// Creates block `index`, in place of a smaller one if there is one.
    fn create(&mut self, group: &GroupState, index: usize, need: usize) -> Result<LeasedBlock, CommError> {
        if index >= MOST_BLOCKS {
            return Err(CommError::Held { blocks: MOST_BLOCKS });
        }
        let len = need.max(LEAST_BYTES);
        let len = if len > 1 << 20 {
            len.next_multiple_of(64 << 10)
        } else {
            len.next_power_of_two()
        };
        let segment = Segment::create(group.provider, len.saturating_add(SEGMENT_HEADER_BYTES))?;
        let id = segment.id().unwrap_or_else(|| on_heap(len));
        group.words.set_segment(self.rank, index, &id)?;
        let block = Block {
            region: region_of(&segment)?,
            used_in: 0,
            sent: None,
            lease: Arc::new(()),
        };
        group.keep_block(self.rank, index, id.nonce, segment);
        let lent = block.lend(index);
        match self.own.get_mut(index) {
            Some(old) => *old = block,
            None => self.own.push(block),
        }
        Ok(lent)
    }

    /// Records that the block is part of an operation.
    pub(super) fn used_in(&mut self, block: &LeasedBlock, operation: u64) {
        if let Some(block) = self.own.get_mut(block.index) {
            block.used_in = operation;
        }
    }

    /// Records that the block is a message.
    pub(super) fn sent(&mut self, block: &LeasedBlock, to: usize, number: u64) {
        if let Some(block) = self.own.get_mut(block.index) {
            block.sent = Some((to, number));
        }
    }

    /// Returns the messages that may not have been received: the receiver and the number of each.
    pub(super) fn messages(&self) -> impl Iterator<Item = (usize, u64)> {
        self.own.iter().filter_map(|block| block.sent)
    }

    /// Returns the number of bytes of all blocks.
    pub(crate) fn len_bytes(&self) -> usize {
        self.own.iter().map(|block| block.region.len_bytes()).sum()
    }
}

impl LeasedBlock {
    /// Writes bytes that no other rank reads before the rank arrives with the block or sends it, or the slice that the
    /// rank reduces itself.
    #[allow(unsafe_code)] // writes into the block
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), CommError> {
        let to = self.region.address(offset, bytes.len())?;
        // SAFETY: the region has room for these bytes, and no one else accesses them (`COLL-1`, `COLL-2`).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }
}

/// Returns an id for a block on the heap, which no other process can open.
fn on_heap(len: usize) -> SegmentId {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: the number only has to be unique.
    let nonce = COUNT.fetch_add(1, Ordering::Relaxed);
    SegmentId {
        pid: std::process::id(),
        fd: -1,
        nonce,
        len_bytes: (len + SEGMENT_HEADER_BYTES) as u64,
    }
}

/// The looks of a rank at the words of others when it takes a block, between which a test has other ranks act.
#[cfg(test)]
pub(crate) mod looks {
    use std::cell::RefCell;

    type Act = Box<dyn FnMut()>;

    thread_local! {
        static ACT: RefCell<Option<Act>> = const { RefCell::new(None) };
    }

    /// Has `act` called before each look of this thread, until `work` has returned.
    pub(crate) fn with<R>(act: impl FnMut() + 'static, work: impl FnOnce() -> R) -> R {
        ACT.set(Some(Box::new(act)));
        let made = work();
        ACT.set(None);
        made
    }

    pub(super) fn before_one() {
        // What `act` does looks too, and that counts for nothing.
        if let Some(mut act) = ACT.take() {
            act();
            ACT.set(Some(act));
        }
    }
}
