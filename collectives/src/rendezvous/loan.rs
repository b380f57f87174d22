//! Loans: blocks of a rank in which contributions and messages are built.
#![allow(unsafe_code)] // lends bytes of a block to be written

use std::sync::Arc;

use selvedge_channels::{DType, Element, TensorError};

use super::block::{Blocks, LeasedBlock};
use super::state::GroupState;
use crate::error::CommError;
use crate::kernel::{self, Stores};
use crate::parts::{Head, Span, Template};

/// Memory of a group in which a rank builds a contribution, so that the contribution need not be copied. Pass the loan
/// to [`Rank::launch_loan`](crate::shm::Rank::launch_loan).
///
/// A new loan contains the data of the block's last use.
#[derive(Debug)]
pub struct Loan {
    pub(crate) block: LeasedBlock,
    pub(crate) template: Arc<Template>,
    /// The group and the rank that own the block.
    group: Arc<GroupState>,
    rank: usize,
}

impl Loan {
    /// Takes a block of `rank` for tensors of these types and shapes.
    pub(super) fn new(
        group: &Arc<GroupState>,
        rank: usize,
        blocks: &mut Blocks,
        template: Arc<Template>,
    ) -> Result<Self, CommError> {
        Ok(Loan {
            block: blocks.take(group, template.end)?,
            template,
            group: Arc::clone(group),
            rank,
        })
    }

    /// Whether the block belongs to `rank` of `group`.
    pub(crate) fn is_of(&self, group: &Arc<GroupState>, rank: usize) -> bool {
        Arc::ptr_eq(&self.group, group) && self.rank == rank
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
        let bytes = self.block.region.address(span.offset, span.len_bytes())?;
        // SAFETY: the block belongs to this rank, and no one else accesses it (`COLL-2`); `&mut self` keeps it so. The
        // span lies on a 64-byte boundary and contains `count` numbers, for which every bit pattern is valid.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast::<E>(), span.count) })
    }

    /// Copies `bytes` into part `index`, from byte `at` on.
    pub(crate) fn fill(&mut self, index: usize, at: usize, bytes: &[u8]) -> Result<(), CommError> {
        let span = self.span(index)?;
        let to = self.block.region.address(span.offset + at, bytes.len())?;
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
