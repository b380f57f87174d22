//! Results: tensors over blocks, which are held as long as a view of them exists.
#![allow(unsafe_code)] // makes tensors of the bytes of blocks

use std::sync::Arc;

use selvedge_channels::{Region, Tensor, TensorError};

use super::share::Product;
use crate::error::CommError;
use crate::parts::{ALIGN, Head};
use crate::rendezvous::MOST_BLOCKS;
use crate::rendezvous::Mapped;
use crate::rendezvous::Shared;

/// The maximum number of views of one rank's blocks that all ranks together may keep: half of the possible blocks.
const MOST_VIEWS: usize = MOST_BLOCKS / 2;

/// Returns the result of rank `holder`. Call this function before the rank has finished the operation.
pub(super) fn tensors(
    product: Product,
    shared: &Arc<Shared>,
    holder: usize,
    mapped: &mut Mapped,
) -> Result<Vec<Tensor>, CommError> {
    let (owner, index, parts) = match product {
        Product::Nothing => return Ok(Vec::new()),
        Product::Made(made) => return made,
        Product::View { owner, index, parts } => (owner, index, parts),
    };
    let region = mapped.block(shared, owner, index as u64)?.clone();
    // A rank that keeps many results gets copies, so that the owner does not run out of blocks.
    let views = shared.words.holds(holder, owner)?.count_ones() as usize;
    let keeps = views < (MOST_VIEWS / shared.ranks()).max(1);
    let held = Arc::new(Held::new(shared, holder, owner, index, region)?);
    let tensor = |(head, offset): &(Head, usize)| {
        let too_large = TensorError::Memory { len_bytes: None };
        let len = head
            .count()
            .and_then(|count| count.checked_mul(head.dtype.size_bytes()));
        held.tensor(head, *offset, len.ok_or(too_large)?, keeps)
    };
    parts.iter().map(tensor).collect()
}

/// A block of the rank `owner` that the rank `holder` reads; both may be the same rank.
#[derive(Debug)]
pub(super) struct Held {
    shared: Arc<Shared>,
    holder: usize,
    owner: usize,
    block: usize,
    region: Region,
}

impl Held {
    /// Registers that the block is held. Call this function before the holder has finished the operation (`COLL-2`).
    pub(super) fn new(
        shared: &Arc<Shared>,
        holder: usize,
        owner: usize,
        block: usize,
        region: Region,
    ) -> Result<Self, CommError> {
        shared.words.hold(holder, owner, block)?;
        let shared = Arc::clone(shared);
        Ok(Held {
            shared,
            holder,
            owner,
            block,
            region,
        })
    }

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

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.words.let_go(self.holder, self.owner, self.block);
    }
}
