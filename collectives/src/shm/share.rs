//! Shares: the part of a result that each rank computes, once all ranks have arrived.
#![allow(unsafe_code)] // reads and writes memory that ranks access in turn

use std::sync::Arc;

use selvedge_channels::{Tensor, TensorError};

use crate::error::CommError;
use crate::kernel::{self, Stores};
use crate::operation::{Collective, ReduceOp};
use crate::parts::{Head, Span, Template};
use crate::rendezvous::{BlockView, MappedBlocks};

/// The maximum number of bytes that every rank reduces completely for itself: reading a cache line of every rank costs
/// less than a second synchronisation.
pub(super) const ONE_SHOT_BYTES: usize = 2 << 10;

/// A rank's block in an operation. It contains no address: another rank may have the block mapped anew at any time, so each
/// use asks for the mapping that this rank has then.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOf {
    pub(super) owner: usize,
    pub(super) index: usize,
}

impl BlockOf {
    /// Returns the address of `len` bytes at `offset`. It is valid as long as `mapped` is borrowed.
    pub(super) fn address(
        self,
        mapped: &MappedBlocks,
        offset: usize,
        len: usize,
    ) -> Result<*mut u8, CommError> {
        let region = mapped.known(self.owner, self.index)?;
        region.address(offset, len).map_err(|_| CommError::Corrupt {
            what: "a block is shorter than what lies in it",
        })
    }
}

/// The contribution of this rank, in memory that no other rank sees. It is one part, and the block contains only the
/// data that other ranks reduce. This rank puts its reduced part of the result there too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Private(pub(super) *mut u8);

// SAFETY: only the thread that drives the rank uses the pointer, while the owner of the memory keeps it.
unsafe impl Send for Private {}

/// An operation on which all ranks agree: the data that all ranks know alike, and this rank's own.
pub(super) struct Exchange<'a> {
    pub(super) operation: Collective,
    /// The types and shapes of every rank's contribution, or of the root's alone.
    pub(super) template: &'a Template,
    /// The blocks, by rank; `None` for a rank whose block is not read.
    pub(super) blocks: &'a [Option<BlockOf>],
    /// The mappings of the blocks. While they are borrowed, the addresses of an operation are valid.
    pub(super) mapped: &'a MappedBlocks,
    /// The block in which results are gathered.
    pub(super) results: Option<BlockOf>,
    /// The number of this rank, and the contribution that is not in its block.
    pub(super) rank: usize,
    pub(super) private: Option<Private>,
}

/// The result that a rank will have when all shares are done.
#[derive(Debug)]
pub(super) enum Product {
    Nothing,
    /// Tensors that the rank has computed itself.
    Made(Result<Vec<Tensor>, CommError>),
    /// Tensors in the block of a rank.
    View(BlockView),
}

fn absent() -> CommError {
    CommError::Corrupt {
        what: "a rank brought no memory",
    }
}

impl Exchange<'_> {
    fn ranks(&self) -> usize {
        self.blocks.len()
    }

    fn block(&self, rank: usize) -> Result<BlockOf, CommError> {
        self.blocks.get(rank).copied().flatten().ok_or_else(absent)
    }

    fn parts(&self) -> impl Iterator<Item = (&Head, Span)> {
        self.template
            .heads
            .0
            .iter()
            .zip(self.template.spans.iter().copied())
    }

    /// Computes this rank's share. Returns the result that the rank will have, and whether that result needs the shares
    /// of all ranks.
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

    /// Collects the addresses of `len` bytes at `offset` in every rank's block.
    fn sources(&self, offset: usize, len: usize, sources: &mut Sources) -> Result<(), CommError> {
        sources.0.clear();
        for block in self.blocks {
            sources.0.push(
                block
                    .as_ref()
                    .ok_or_else(absent)?
                    .address(self.mapped, offset, len)?
                    .cast_const(),
            );
        }
        Ok(())
    }

    /// Reduces elements `from..from + count` of a part, of every rank, into `to`.
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
            // The private contribution is one part, and these elements are inside it.
            *source = own.wrapping_add(from * size).cast_const();
        }
        // SAFETY: `count` elements lie behind each pointer. All ranks have arrived, so each rank writes contributions
        // only in its own share; the target is this rank's share (`COLL-1`), or memory of its own.
        unsafe { kernel::reduce(op, span.dtype, to, &sources.0, count) };
        Ok(())
    }

    /// Reduces everything, for this rank alone.
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
        let block = self.block(target)?;
        for span in &self.template.spans {
            let (from, count) = slice(span, self.rank, self.ranks());
            let size = span.dtype.size_bytes();
            let to = block.address(self.mapped, span.offset + from * size, count * size)?;
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

    /// Returns a view of the whole block of `owner`.
    fn whole(&self, owner: usize) -> Result<Product, CommError> {
        let parts = self
            .parts()
            .map(|(head, span)| (head.clone(), span.offset))
            .collect();
        let index = self.block(owner)?.index;
        Ok(Product::View(BlockView { owner, index, parts }))
    }

    /// Returns a view of this rank's part of the contribution of `owner`.
    fn part_of(&self, owner: usize) -> Result<Product, CommError> {
        let ranks = self.ranks();
        let part = |(head, span): (&Head, Span)| {
            let head = head.with_first(|first| Some(first / ranks)).ok_or_else(absent)?;
            Ok((head, span.offset + self.rank * (span.len_bytes() / ranks)))
        };
        let parts = self.parts().map(part).collect::<Result<_, CommError>>()?;
        let index = self.block(owner)?.index;
        Ok(Product::View(BlockView { owner, index, parts }))
    }

    /// Reduces this rank's part in place, in its own block, where no other rank reads that part.
    fn reduce_scatter(&self, op: ReduceOp, sources: &mut Sources) -> Result<Product, CommError> {
        let own = self.block(self.rank)?;
        for span in &self.template.spans {
            let count = span.count / self.ranks();
            let (from, size) = (self.rank * count, span.dtype.size_bytes());
            let to = own.address(self.mapped, span.offset + from * size, count * size)?;
            self.reduce(op, *span, (from, count), to, sources)?;
        }
        self.part_of(self.rank)
    }

    fn gather(&self, owner: usize) -> Result<Product, CommError> {
        let results = self.results.ok_or_else(absent)?;
        let too_large = || CommError::from(TensorError::Memory { len_bytes: None });
        let heads = self.template.heads.gathered(self.ranks()).ok_or_else(too_large)?;
        let (spans, _) = heads.spans(0).ok_or_else(too_large)?;
        let own = self.block(self.rank)?;
        for (from, to) in self.template.spans.iter().zip(&spans) {
            let len = from.len_bytes();
            let source = own.address(self.mapped, from.offset, len)?;
            let place = results.address(self.mapped, to.offset + self.rank * len, len)?;
            // SAFETY: `len` bytes each; the place is this rank's share of a block that no rank reads before all are
            // done (`COLL-1`), and that is another block than the contribution's.
            unsafe { std::ptr::copy_nonoverlapping(source, place, len) };
        }
        let offsets = spans.iter().map(|span| span.offset);
        let parts = heads.0.into_iter().zip(offsets).collect();
        let index = results.index;
        Ok(Product::View(BlockView { owner, index, parts }))
    }

    fn all_to_all(&self, sources: &mut Sources) -> Result<Vec<Tensor>, CommError> {
        let mut part = |(head, span): (&Head, Span)| {
            let len = span.len_bytes() / self.ranks();
            self.sources(span.offset + self.rank * len, len, sources)?;
            let fill = |bytes: &mut [u8]| {
                // If the parts are empty, there are no bytes to copy.
                for (to, from) in bytes.chunks_exact_mut(len.max(1)).zip(&sources.0) {
                    // SAFETY: `len` bytes lie behind the source, and no one writes them; the target is new memory.
                    unsafe { std::ptr::copy_nonoverlapping(*from, to.as_mut_ptr(), len) };
                }
            };
            Ok(Tensor::filled(head.dtype, Arc::clone(&head.shape), fill)?)
        };
        self.parts().map(&mut part).collect()
    }
}

/// Whether the contribution is so small that every rank reduces all of it for itself.
pub(super) fn is_one_shot(template: &Template) -> bool {
    template.len <= ONE_SHOT_BYTES
}

/// The addresses of the same bytes in every rank's block.
#[derive(Default)]
pub(super) struct Sources(Vec<*const u8>);

// SAFETY: the addresses are computed anew before each use.
unsafe impl Send for Sources {}

/// Returns the start and the length of the slice of `rank`, in elements. Slices are whole cache lines, so that no two
/// ranks write the same line.
pub(super) fn slice(span: &Span, rank: usize, ranks: usize) -> (usize, usize) {
    let line = crate::parts::ALIGN / span.dtype.size_bytes();
    let each = span.count.div_ceil(ranks).next_multiple_of(line);
    let from = each.saturating_mul(rank).min(span.count);
    (from, each.min(span.count - from))
}
