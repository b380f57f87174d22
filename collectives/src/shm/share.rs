//! What each rank computes of a result, once everybody has arrived.
#![allow(unsafe_code)] // reads and writes memory that ranks share by turns

use std::sync::Arc;

use selvedge_channels::{Region, Tensor, TensorError};

use crate::error::CommError;
use crate::kernel::{self, Stores};
use crate::operation::{Collective, ReduceOp};
use crate::parts::{Head, Heads, Span, Template};

/// Up to so many bytes everybody reduces everything for itself: reading a line of everybody costs less than a second meeting.
pub(super) const ONE_SHOT_BYTES: usize = 2 << 10;

/// A rank's block in an operation, mapped as long as the operation lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brought {
    pub(super) index: usize,
    base: *mut u8,
    len: usize,
}

// SAFETY: the memory behind it is shared between threads by the rules of the group (`COLL-1`).
unsafe impl Send for Brought {}

impl Brought {
    pub(super) fn new(index: usize, region: &Region) -> Result<Self, CommError> {
        let len = region.len_bytes();
        Ok(Brought {
            index,
            base: region.address(0, len)?,
            len,
        })
    }

    /// The address of so many bytes at `offset`.
    pub(super) fn address(&self, offset: usize, len: usize) -> Result<*mut u8, CommError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(CommError::Corrupt {
                what: "a block is shorter than what lies in it",
            });
        }
        // SAFETY: inside the block.
        Ok(unsafe { self.base.add(offset) })
    }
}

/// This rank's own contribution, where it lies in memory that nobody else sees: one part, of which the block has what others
/// reduce. What this rank reduces of the result goes there too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Private(pub(super) *mut u8);

// SAFETY: used by the thread that drives the rank alone, while whoever brought it keeps it.
unsafe impl Send for Private {}

/// Everything that all ranks know alike.
pub(super) struct Meeting<'a> {
    pub(super) operation: Collective,
    /// What every rank brings, or the root alone.
    pub(super) template: &'a Template,
    /// By rank; none of those that nobody reads.
    pub(super) brought: &'a [Option<Brought>],
    /// Where results are gathered.
    pub(super) results: Option<Brought>,
    /// This rank, and what it has not put into its block.
    pub(super) rank: usize,
    pub(super) private: Option<Private>,
}

/// What a rank will have when all shares are done.
#[derive(Debug)]
pub(super) enum Product {
    Nothing,
    /// Made by itself.
    Made(Result<Vec<Tensor>, CommError>),
    /// Parts of the block of a rank: what they are, and where.
    View {
        owner: usize,
        index: usize,
        parts: Vec<(Head, usize)>,
    },
}

fn absent() -> CommError {
    CommError::Corrupt {
        what: "a rank brought no memory",
    }
}

impl Meeting<'_> {
    fn ranks(&self) -> usize {
        self.brought.len()
    }

    fn brought(&self, rank: usize) -> Result<Brought, CommError> {
        self.brought.get(rank).copied().flatten().ok_or_else(absent)
    }

    fn parts(&self) -> impl Iterator<Item = (&Head, Span)> {
        self.template
            .heads
            .0
            .iter()
            .zip(self.template.spans.iter().copied())
    }

    /// Why there is no such operation on what has been brought; the same for everybody.
    pub(super) fn refused(&self) -> Option<CommError> {
        let (operation, ranks, heads) = (self.operation, self.ranks(), &self.template.heads.0);
        if let Some(op) = operation.reduce_op()
            && let Some(head) = heads.iter().find(|head| !op.is_defined_for(head.dtype))
        {
            return Some(CommError::NoSuchReduction {
                op,
                dtype: head.dtype,
            });
        }
        let shared_out = |head: &&Head| {
            let first = head.shape.first();
            first.is_none_or(|first| !first.is_multiple_of(ranks))
        };
        if operation.cuts()
            && let Some(head) = heads.iter().find(shared_out)
        {
            return Some(CommError::Indivisible {
                operation,
                shape: head.shape.to_vec(),
                ranks,
            });
        }
        let scalar = heads.iter().any(|head| head.shape.is_empty());
        (operation.gatherer().is_some() && scalar).then_some(CommError::Scalar { operation })
    }

    /// Does this rank's share; says what it will have, and whether everybody's share must be done for it.
    pub(super) fn share(&self, sources: &mut Sources) -> Result<(Product, bool), CommError> {
        let mine = self.operation.returns_to(self.rank);
        let (product, together) = match self.operation {
            Collective::AllReduce(op) if is_one_shot(self.template) => (self.one_shot(op, sources)?, false),
            Collective::AllReduce(op) => (self.two_shot(op, 0, sources)?, true),
            Collective::Reduce { op, root } => (self.two_shot(op, root, sources)?, mine),
            Collective::ReduceScatter(op) => (self.reduce_scatter(op, sources)?, false),
            Collective::AllGather => (self.gather(0)?, true),
            Collective::Gather { root } => (self.gather(root)?, mine),
            Collective::Broadcast { root } => (self.whole(root)?, false),
            Collective::Scatter { root } => (self.part_of(root)?, false),
            Collective::AllToAll => (Product::Made(self.all_to_all(sources)), false),
            Collective::Barrier => (Product::Nothing, false),
        };
        Ok((if mine { product } else { Product::Nothing }, together))
    }

    /// Addresses of `len` bytes at `offset` in every rank's block.
    fn sources(&self, offset: usize, len: usize, sources: &mut Sources) -> Result<(), CommError> {
        sources.0.clear();
        for brought in self.brought {
            sources.0.push(
                brought
                    .as_ref()
                    .ok_or_else(absent)?
                    .address(offset, len)?
                    .cast_const(),
            );
        }
        Ok(())
    }

    /// Elements `from..from + count` of a part, of every rank, joined into `to`.
    fn reduce(
        &self,
        op: ReduceOp,
        span: Span,
        (from, count): (usize, usize),
        to: *mut u8,
        sources: &mut Sources,
    ) -> Result<(), CommError> {
        let size = span.dtype.size_bytes();
        self.sources(span.offset + from * size, count * size, sources)?;
        if let Some(Private(own)) = self.private
            && let Some(source) = sources.0.get_mut(self.rank)
            && count > 0
        {
            // What is private is one part, and this is inside it.
            *source = own.wrapping_add(from * size).cast_const();
        }
        // SAFETY: so many bytes lie behind each pointer. Everybody has arrived, so nobody writes contributions but their shares;
        // the target is this rank's share (`COLL-1`), or memory of its own.
        unsafe { kernel::reduce(op, span.dtype, to, &sources.0, count) };
        Ok(())
    }

    /// Reduces everything for this rank alone.
    fn one_shot(&self, op: ReduceOp, sources: &mut Sources) -> Result<Product, CommError> {
        if let Some(Private(own)) = self.private
            && let Some(span) = self.template.spans.first()
        {
            self.reduce(op, *span, (0, span.count), own, sources)?;
            return Ok(Product::Nothing);
        }
        let part = |(head, span): (&Head, Span)| {
            let mut reduced = Ok(());
            let tensor = Tensor::filled(head.dtype, Arc::clone(&head.shape), |bytes| {
                if bytes.len() == span.len_bytes() {
                    reduced = self.reduce(op, span, (0, span.count), bytes.as_mut_ptr(), sources);
                }
            })?;
            reduced.map(|()| tensor)
        };
        Ok(Product::Made(self.parts().map(part).collect()))
    }

    /// Reduces this rank's slice of every part in place, in the block of `target`.
    fn two_shot(&self, op: ReduceOp, target: usize, sources: &mut Sources) -> Result<Product, CommError> {
        let brought = self.brought(target)?;
        for span in &self.template.spans {
            let (from, count) = slice(span, self.rank, self.ranks());
            let size = span.dtype.size_bytes();
            let to = brought.address(span.offset + from * size, count * size)?;
            match self.private {
                Some(Private(own)) if count > 0 => {
                    let own = own.wrapping_add(from * size);
                    self.reduce(op, *span, (from, count), own, sources)?;
                    let len = count * size;
                    // SAFETY: `len` bytes each, of private memory and of this rank's share.
                    unsafe { kernel::copy(own, to, len, Stores::for_shared(len)) };
                }
                _ => self.reduce(op, *span, (from, count), to, sources)?,
            }
        }
        self.whole(target)
    }

    /// All of the block of `owner`.
    fn whole(&self, owner: usize) -> Result<Product, CommError> {
        let parts = self
            .parts()
            .map(|(head, span)| (head.clone(), span.offset))
            .collect();
        let index = self.brought(owner)?.index;
        Ok(Product::View { owner, index, parts })
    }

    /// This rank's part of the contribution of `owner`.
    fn part_of(&self, owner: usize) -> Result<Product, CommError> {
        let ranks = self.ranks();
        let part = |(head, span): (&Head, Span)| {
            let head = head.with_first(|first| Some(first / ranks)).ok_or_else(absent)?;
            Ok((head, span.offset + self.rank * (span.len_bytes() / ranks)))
        };
        let parts = self.parts().map(part).collect::<Result<_, CommError>>()?;
        let index = self.brought(owner)?.index;
        Ok(Product::View { owner, index, parts })
    }

    /// Reduces this rank's part in place, in its own block, where nobody else reads that part.
    fn reduce_scatter(&self, op: ReduceOp, sources: &mut Sources) -> Result<Product, CommError> {
        let own = self.brought(self.rank)?;
        for span in &self.template.spans {
            let count = span.count / self.ranks();
            let (from, size) = (self.rank * count, span.dtype.size_bytes());
            let to = own.address(span.offset + from * size, count * size)?;
            self.reduce(op, *span, (from, count), to, sources)?;
        }
        self.part_of(self.rank)
    }

    fn gather(&self, owner: usize) -> Result<Product, CommError> {
        let results = self.results.ok_or_else(absent)?;
        let too_large = || CommError::from(TensorError::Memory { len_bytes: None });
        let heads = gathered(&self.template.heads, self.ranks()).ok_or_else(too_large)?;
        let (spans, _) = heads.spans(0).ok_or_else(too_large)?;
        let own = self.brought(self.rank)?;
        for (from, to) in self.template.spans.iter().zip(&spans) {
            let len = from.len_bytes();
            let source = own.address(from.offset, len)?;
            let place = results.address(to.offset + self.rank * len, len)?;
            // SAFETY: `len` bytes each; the place is this rank's share of a block that nobody reads before all are done
            // (`COLL-1`), and another block than the contribution's.
            unsafe { std::ptr::copy_nonoverlapping(source, place, len) };
        }
        let offsets = spans.iter().map(|span| span.offset);
        let parts = heads.0.into_iter().zip(offsets).collect();
        let index = results.index;
        Ok(Product::View { owner, index, parts })
    }

    fn all_to_all(&self, sources: &mut Sources) -> Result<Vec<Tensor>, CommError> {
        let mut part = |(head, span): (&Head, Span)| {
            let len = span.len_bytes() / self.ranks();
            self.sources(span.offset + self.rank * len, len, sources)?;
            let fill = |bytes: &mut [u8]| {
                // Nothing to copy where the parts are empty.
                for (to, from) in bytes.chunks_exact_mut(len.max(1)).zip(&sources.0) {
                    // SAFETY: `len` bytes lie behind the source, which nobody writes; the target is new memory.
                    unsafe { std::ptr::copy_nonoverlapping(*from, to.as_mut_ptr(), len) };
                }
            };
            Ok(Tensor::filled(head.dtype, Arc::clone(&head.shape), fill)?)
        };
        self.parts().map(&mut part).collect()
    }
}

/// Whether so little is reduced that everybody does it for itself.
pub(super) fn is_one_shot(template: &Template) -> bool {
    template.len <= ONE_SHOT_BYTES
}

/// Where the same bytes of every rank are.
#[derive(Default)]
pub(super) struct Sources(Vec<*const u8>);

// SAFETY: addresses that are looked up anew before each use.
unsafe impl Send for Sources {}

/// What becomes of the heads when everybody's parts are put one after the other.
pub(super) fn gathered(heads: &Heads, ranks: usize) -> Option<Heads> {
    let longer = |head: &Head| head.with_first(|first| first.checked_mul(ranks));
    heads.0.iter().map(longer).collect::<Option<Vec<_>>>().map(Heads)
}

/// Where the slice of `rank` begins, and how long it is, in elements: whole cache lines, so that no two ranks write one.
pub(super) fn slice(span: &Span, rank: usize, ranks: usize) -> (usize, usize) {
    let line = crate::parts::ALIGN / span.dtype.size_bytes();
    let each = span.count.div_ceil(ranks).next_multiple_of(line);
    let from = each.saturating_mul(rank).min(span.count);
    (from, each.min(span.count - from))
}
