//! Views: tensors over blocks, which are held as long as a view of them exists.
#![allow(unsafe_code)] // makes tensors of the bytes of blocks

use std::sync::Arc;

use selvedge_channels::memory::made_in::MadeIn;
use selvedge_channels::{Region, Tensor, TensorError, byte_count};

use super::layout::MOST_BLOCKS;
use super::mapped::MappedBlocks;
use super::state::GroupState;
use crate::error::CommError;
use crate::parts::{ALIGN, Head};

/// The maximum number of views of one rank's blocks that all ranks together may keep: half of the possible blocks.
const MOST_VIEWS: usize = MOST_BLOCKS / 2;

/// Tensors in block `index` of a rank: their types and shapes, and their offsets.
#[derive(Debug)]
pub(crate) struct BlockView {
    pub(crate) owner: usize,
    pub(crate) index: usize,
    pub(crate) parts: Vec<(Head, usize)>,
}

impl BlockView {
    /// Returns the tensors to rank `holder`. Call this function before the rank has finished the operation.
    pub(super) fn tensors(
        &self,
        group: &Arc<GroupState>,
        holder: usize,
        mapped: &mut MappedBlocks,
    ) -> Result<Vec<Tensor>, CommError> {
        let (owner, block) = (self.owner, self.index);
        let region = mapped.block(group, owner, block as u64)?.clone();
        // A rank that keeps many results gets copies, so that the owner does not run out of blocks.
        let views = group.words.holds(holder, owner)?.count_ones() as usize;
        let keeps = views < (MOST_VIEWS / group.ranks()).max(1);
        group.words.hold(holder, owner, block)?;
        let held = Arc::new(HeldBlock {
            group: Arc::clone(group),
            holder,
            owner,
            block,
            region,
            made_in: MadeIn::here(),
        });
        let tensor = |(head, offset): &(Head, usize)| {
            let too_large = TensorError::Memory { len_bytes: None };
            let len = byte_count(head.dtype, &head.shape).ok_or(too_large)?;
            held.tensor(head, *offset, len, keeps)
        };
        self.parts.iter().map(tensor).collect()
    }
}

/// A block of the rank `owner` that the rank `holder` reads; both may be the same rank. The block is registered as held
/// before the holder has finished the operation (`COLL-2`).
#[derive(Debug)]
struct HeldBlock {
    group: Arc<GroupState>,
    holder: usize,
    owner: usize,
    block: usize,
    region: Region,
    made_in: MadeIn,
}

impl HeldBlock {
    /// Returns a tensor over the bytes at `offset`, or over a copy of them if `keeps` is `false` or if they are not
    /// aligned.
    fn tensor(
        self: &Arc<Self>,
        head: &Head,
        offset: usize,
        len: usize,
        keeps: bool,
    ) -> Result<Tensor, CommError> {
        let start = self.region.address(offset, len)?;
        let bytes = std::ptr::slice_from_raw_parts(start.cast_const(), len);
        if keeps && start.addr().is_multiple_of(ALIGN) {
            // SAFETY: the region keeps the bytes in place, and no rank writes them while the block is held (`COLL-2`);
            // the tensor's keeper owns both the region and the hold.
            let tensor = unsafe {
                Tensor::from_kept(
                    head.dtype,
                    Arc::clone(&head.shape),
                    bytes,
                    Box::new(Arc::clone(self)),
                )
            };
            if let Some(tensor) = tensor? {
                return Ok(tensor);
            }
        }
        // SAFETY: as above, for as long as `self` is borrowed.
        Ok(Tensor::from_raw(head.dtype, &head.shape, unsafe { &*bytes })?)
    }
}

impl Drop for HeldBlock {
    fn drop(&mut self) {
        // The copy that a forked child has holds nothing.
        if self.made_in.is_here() {
            self.group.words.let_go(self.holder, self.owner, self.block);
        }
    }
}
