//! Blocks: the memory of a rank, and the blocks of other ranks as mapped by this rank.
#![allow(unsafe_code)] // lends bytes of a block to be written

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use selvedge_channels::{
    DType, Element, Provider, Region, SEGMENT_HEADER_BYTES, Segment, SegmentId, TensorError,
};

use super::group::Shared;
use super::layout::MOST_BLOCKS;
use crate::error::CommError;
use crate::kernel::{self, Stores};
use crate::parts::{Head, Span, Template};

/// The size of the smallest block.
const LEAST_BYTES: usize = 16 << 10;

/// A block of this rank.
struct Own {
    region: Region,
    /// The number of the last operation in which the block was used.
    used_in: u64,
    /// The receiver and the number of the message that the block contains, if it contains one.
    sent: Option<(usize, u64)>,
    /// The mark of a loan: a clone exists as long as the block is lent for writing, or is part of the operation in
    /// flight.
    lent: Arc<()>,
}

/// The blocks of one rank. A block that is too small is replaced by a larger one.
pub(crate) struct Blocks {
    rank: usize,
    own: Vec<Own>,
}

/// A block that only this rank may write.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) index: usize,
    pub(crate) region: Region,
    _lent: Arc<()>,
}

impl Blocks {
    pub(crate) fn new(rank: usize) -> Self {
        Blocks {
            rank,
            own: Vec::new(),
        }
    }

    /// Takes a block of at least `need` bytes that no rank uses (`COLL-2`).
    pub(crate) fn take(&mut self, shared: &Shared, need: usize) -> Result<Taken, CommError> {
        let rank = self.rank;
        let mut in_use = 0u64;
        for holder in 0..shared.ranks() {
            in_use |= shared.words.holds(holder, rank)?;
        }
        let mut free: Option<usize> = None;
        for (index, block) in self.own.iter().enumerate() {
            if Arc::strong_count(&block.lent) > 1 || in_use >> index & 1 == 1 {
                continue;
            }
            let untaken =
                |(to, number): (usize, u64)| shared.words.taken(rank, to).map(|taken| taken < number);
            if block.sent.map_or(Ok(false), untaken)? {
                continue;
            }
            // SYNC loan: pairs with the release in the drop of the last clone; all writes through that clone come
            // before.
            fence(Ordering::Acquire);
            let mut others = (0..shared.ranks()).filter(|other| *other != rank);
            let finished = |other| shared.words.has_finished(other, block.used_in);
            if !others.try_fold(true, |all, other| finished(other).map(|it| all && it))? {
                continue;
            }
            if block.region.len_bytes() >= need {
                return self.lend(index);
            }
            free = Some(index);
        }
        let (index, least) = match free {
            // Half as much again as before, so that slow growth does not make a new block every time.
            Some(index) => (
                index,
                self.own
                    .get(index)
                    .map_or(0, |block| block.region.len_bytes() / 2 * 3),
            ),
            None => (self.own.len(), 0),
        };
        if index >= MOST_BLOCKS {
            return Err(CommError::Held { blocks: MOST_BLOCKS });
        }
        let len = need.max(least).max(LEAST_BYTES);
        let len = if len > 1 << 20 {
            len.next_multiple_of(64 << 10)
        } else {
            len.next_power_of_two()
        };
        let segment = Segment::create(shared.provider, len.saturating_add(SEGMENT_HEADER_BYTES))?;
        let id = segment.id().unwrap_or_else(|| on_heap(len));
        shared.words.set_place(rank, index, &id)?;
        shared
            .local
            .lock()
            .insert((rank, index), (id.nonce, segment.clone()));
        let block = Own {
            // SAFETY: the segment is new, and its ranks access it in turn, by the invariants of the parent module.
            region: unsafe { segment.region(SEGMENT_HEADER_BYTES, len) }?,
            used_in: 0,
            sent: None,
            lent: Arc::new(()),
        };
        match self.own.get_mut(index) {
            Some(old) => *old = block,
            None => self.own.push(block),
        }
        self.lend(index)
    }

    fn lend(&mut self, index: usize) -> Result<Taken, CommError> {
        let block = self.own.get(index).ok_or(CommError::Corrupt {
            what: "a block that is not there",
        })?;
        Ok(Taken {
            index,
            region: block.region.clone(),
            _lent: Arc::clone(&block.lent),
        })
    }

    /// Records that the block is part of an operation.
    pub(crate) fn used_in(&mut self, taken: &Taken, operation: u64) {
        if let Some(block) = self.own.get_mut(taken.index) {
            block.used_in = operation;
        }
    }

    /// Records that the block is a message.
    pub(crate) fn sent(&mut self, taken: &Taken, to: usize, number: u64) {
        if let Some(block) = self.own.get_mut(taken.index) {
            block.sent = Some((to, number));
        }
    }

    /// Returns the messages that may not have been taken: the receiver and the number of each.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (usize, u64)> {
        self.own.iter().filter_map(|block| block.sent)
    }

    /// Returns the number of bytes of all blocks.
    pub(crate) fn len_bytes(&self) -> usize {
        self.own.iter().map(|block| block.region.len_bytes()).sum()
    }
}

/// Returns an id for a block on the heap, which no other process can open.
fn on_heap(len: usize) -> SegmentId {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let nonce = COUNT.fetch_add(1, Ordering::Relaxed);
    SegmentId {
        pid: std::process::id(),
        fd: -1,
        nonce,
        len_bytes: (len + SEGMENT_HEADER_BYTES) as u64,
    }
}

/// The blocks that this rank has mapped, by rank and index.
#[derive(Default)]
pub(crate) struct Mapped {
    blocks: Vec<Vec<Option<(u64, Region)>>>,
}

impl Mapped {
    /// Returns block `index` of `rank`, which has arrived with it. Maps the block if it is not mapped yet.
    pub(crate) fn block(&mut self, shared: &Shared, rank: usize, index: u64) -> Result<&Region, CommError> {
        let nowhere = CommError::Corrupt {
            what: "a rank arrived with a block that it has not",
        };
        let Some(index) = usize::try_from(index).ok().filter(|index| *index < MOST_BLOCKS) else {
            return Err(nowhere);
        };
        let id = shared.words.place_of(rank, index)?;
        if self.blocks.len() <= rank {
            self.blocks.resize_with(rank + 1, Vec::new);
        }
        let blocks = self.blocks.get_mut(rank).ok_or(CommError::Corrupt {
            what: "a rank too many",
        })?;
        if blocks.len() <= index {
            blocks.resize_with(index + 1, || None);
        }
        let known = blocks.get_mut(index).ok_or(nowhere)?;
        if known.as_ref().is_none_or(|(nonce, _)| *nonce != id.nonce) {
            // The old mapping is dropped first: it is the smaller block that this one replaces.
            *known = None;
            let local = shared
                .local
                .lock()
                .get(&(rank, index))
                .filter(|(nonce, _)| *nonce == id.nonce)
                .cloned();
            let segment = match local {
                Some((_, segment)) => segment,
                None if shared.provider == Provider::Heap => {
                    return Err(CommError::Corrupt {
                        what: "a block of no rank of this process",
                    });
                }
                None => Segment::open(&id)?,
            };
            let len = segment.len_bytes().saturating_sub(SEGMENT_HEADER_BYTES);
            // SAFETY: the block belongs to that rank, and other ranks read only data that it has published.
            let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, len) }?;
            *known = Some((id.nonce, region));
        }
        known
            .as_ref()
            .map(|(_, region)| region)
            .ok_or(CommError::Corrupt {
                what: "a block that is not there",
            })
    }
}

/// Memory of a group in which a rank builds a contribution, so that the contribution need not be copied. Pass the loan
/// to [`Rank::launch_loan`](crate::shm::Rank::launch_loan).
///
/// A new loan contains the data of the block's last use.
#[derive(Debug)]
pub struct Loan {
    pub(crate) taken: Taken,
    pub(crate) template: Arc<Template>,
    /// The group and the rank that own the block.
    pub(crate) shared: Arc<Shared>,
    pub(crate) rank: usize,
}

impl Loan {
    pub(crate) fn new(
        shared: Arc<Shared>,
        blocks: &mut Blocks,
        template: Arc<Template>,
    ) -> Result<Self, CommError> {
        let taken = blocks.take(&shared, template.end)?;
        Ok(Loan {
            taken,
            template,
            shared,
            rank: blocks.rank,
        })
    }

    fn span(&self, index: usize) -> Result<Span, CommError> {
        let span = self.template.spans.get(index).copied();
        span.ok_or(CommError::Corrupt {
            what: "a part that the loan has not",
        })
    }

    /// Returns part `index` for writing.
    ///
    /// # Errors
    /// [`TensorError::DType`] if the elements have another type, [`CommError::Corrupt`] if there is no such part.
    pub fn as_mut_slice<E: Element>(&mut self, index: usize) -> Result<&mut [E], CommError> {
        let span = self.span(index)?;
        if span.dtype != E::DTYPE {
            return Err(TensorError::DType {
                expected: E::DTYPE,
                found: span.dtype,
            }
            .into());
        }
        let bytes = self.taken.region.address(span.offset, span.len_bytes())?;
        // SAFETY: the block belongs to this rank, and no one else accesses it (`COLL-2`); `&mut self` keeps it so. The
        // span lies on a 64-byte boundary and contains `count` numbers, for which every bit pattern is valid.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast::<E>(), span.count) })
    }

    /// Copies `bytes` into part `index`, from byte `at` on.
    pub(crate) fn fill(&mut self, index: usize, at: usize, bytes: &[u8]) -> Result<(), CommError> {
        let span = self.span(index)?;
        let to = self.taken.region.address(span.offset + at, bytes.len())?;
        // SAFETY: the region has room for these bytes, and they belong to this rank alone, as in `as_mut_slice`.
        unsafe { kernel::copy(bytes.as_ptr(), to, bytes.len(), Stores::for_shared(bytes.len())) };
        Ok(())
    }

    /// Returns the type and shape of each part.
    pub fn parts(&self) -> impl Iterator<Item = (DType, &[usize])> {
        let heads = self.template.heads.0.iter();
        heads.map(|Head { dtype, shape }| (*dtype, &**shape))
    }
}
