//! What each rank computes of a result, once everybody has arrived.
#![allow(unsafe_code)] // reads and writes memory that ranks share by turns

use std::sync::Arc;

use selvedge_channels::{Region, Tensor, TensorError};

use super::group::Shared;
use super::output::Held;
use crate::error::CommError;
use crate::kernel;
use crate::operation::{Collective, ReduceOp};
use crate::parts::{Head, Heads, Span};

/// Up to so many bytes everybody reduces everything for itself: reading a line of everybody costs less than a second meeting.
const ONE_SHOT_BYTES: usize = 2 << 10;

/// A rank's block in an operation.
#[derive(Clone, Debug)]
pub(super) struct Brought {
    pub(super) index: usize,
    pub(super) region: Region,
}

/// Everything that all ranks know alike.
pub(super) struct Meeting {
    pub(super) operation: Collective,
    /// What every rank brings, or the root alone.
    pub(super) heads: Heads,
    /// Where it lies in every block.
    pub(super) spans: Vec<Span>,
    /// Bytes of it all.
    pub(super) len: usize,
    /// By rank; empty for those that nobody reads.
    pub(super) brought: Vec<Option<Brought>>,
    /// Where results are gathered.
    pub(super) results: Option<Brought>,
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
        brought: Brought,
        parts: Vec<(Head, usize)>,
    },
}

impl Product {
    /// The result. To be called before the rank has finished the operation.
    pub(super) fn tensors(self, shared: &Arc<Shared>, holder: usize) -> Result<Vec<Tensor>, CommError> {
        match self {
            Product::Nothing => Ok(Vec::new()),
            Product::Made(made) => made,
            Product::View {
                owner,
                brought,
                parts,
            } => {
                let held = Arc::new(Held::new(shared, holder, owner, brought.index, brought.region)?);
                let tensor = |(head, offset): &(Head, usize)| {
                    let too_large = TensorError::Memory { len_bytes: None };
                    let len = head
                        .count()
                        .and_then(|count| count.checked_mul(head.dtype.size_bytes()));
                    held.tensor(head, *offset, len.ok_or(too_large)?)
                };
                parts.iter().map(tensor).collect()
            }
        }
    }
}

fn absent() -> CommError {
    CommError::Corrupt {
        what: "a rank brought no memory",
    }
}

impl Meeting {
    fn ranks(&self) -> usize {
        self.brought.len()
    }

    fn brought(&self, rank: usize) -> Result<&Brought, CommError> {
        self.brought.get(rank).and_then(Option::as_ref).ok_or_else(absent)
    }

    /// Why there is no such operation on what has been brought; the same for everybody.
    pub(super) fn refused(&self) -> Option<CommError> {
        let (operation, ranks) = (self.operation, self.ranks());
        if let Some(op) = operation.reduce_op()
            && let Some(head) = self.heads.0.iter().find(|head| !op.is_defined_for(head.dtype))
        {
            return Some(CommError::NoSuchReduction {
                op,
                dtype: head.dtype,
            });
        }
        let shared_out = |head: &&Head| {
            head.shape
                .first()
                .is_none_or(|first| !first.is_multiple_of(ranks))
        };
        if operation.cuts()
            && let Some(head) = self.heads.0.iter().find(shared_out)
        {
            return Some(CommError::Indivisible {
                operation,
                shape: head.shape.clone(),
                ranks,
            });
        }
        let gathers = matches!(operation, Collective::AllGather | Collective::Gather { .. });
        let scalar = self.heads.0.iter().any(|head| head.shape.is_empty());
        (gathers && scalar).then_some(CommError::Scalar { operation })
    }

    /// Does the share of `rank`; says what it will have, and whether everybody's share must be done for it.
    pub(super) fn share(&self, rank: usize) -> Result<(Product, bool), CommError> {
        let mine = self.operation.returns_to(rank);
        match self.operation {
            Collective::AllReduce(op) if self.len <= ONE_SHOT_BYTES => {
                Ok((Product::Made(self.one_shot(op)), false))
            }
            Collective::AllReduce(op) => self.two_shot(op, 0, rank).map(|product| (product, mine)),
            Collective::Reduce { op, root } => {
                let product = self.two_shot(op, root, rank)?;
                Ok(if mine {
                    (product, true)
                } else {
                    (Product::Nothing, false)
                })
            }
            Collective::ReduceScatter(op) => self.reduce_scatter(op, rank).map(|product| (product, false)),
            Collective::AllGather => self.gather(0, rank).map(|product| (product, mine)),
            Collective::Gather { root } => {
                let product = self.gather(root, rank)?;
                Ok(if mine {
                    (product, true)
                } else {
                    (Product::Nothing, false)
                })
            }
            Collective::Broadcast { root } => {
                let parts = self
                    .heads
                    .0
                    .iter()
                    .cloned()
                    .zip(self.spans.iter().map(|span| span.offset))
                    .collect();
                Ok((
                    Product::View {
                        owner: root,
                        brought: self.brought(root)?.clone(),
                        parts,
                    },
                    false,
                ))
            }
            Collective::Scatter { root } => self.parts_of(root, rank).map(|product| (product, false)),
            Collective::AllToAll => Ok((Product::Made(self.all_to_all(rank)), false)),
            Collective::Barrier => Ok((Product::Nothing, false)),
        }
    }

    /// Addresses of `len` bytes at `offset` in every rank's block.
    fn sources(&self, offset: usize, len: usize) -> Result<Vec<*const u8>, CommError> {
        let source = |brought: &Option<Brought>| {
            let region = &brought.as_ref().ok_or_else(absent)?.region;
            Ok(region.address(offset, len)?.cast_const())
        };
        self.brought.iter().map(source).collect()
    }

    /// Elements `from..from + count` of a part, of every rank, joined into `to`.
    fn reduce(
        &self,
        op: ReduceOp,
        span: Span,
        from: usize,
        count: usize,
        to: *mut u8,
    ) -> Result<(), CommError> {
        let size = span.dtype.size_bytes();
        let sources = self.sources(span.offset + from * size, count * size)?;
        // SAFETY: so many bytes lie behind each pointer. Everybody has arrived, so nobody writes contributions but their shares;
        // the target is this rank's share (`COLL-1`), or memory of its own.
        unsafe { kernel::reduce(op, span.dtype, to, &sources, count) };
        Ok(())
    }

    fn one_shot(&self, op: ReduceOp) -> Result<Vec<Tensor>, CommError> {
        let part = |(head, span): (&Head, &Span)| {
            let mut reduced = Ok(());
            let tensor = Tensor::filled(head.dtype, &head.shape, |bytes| {
                if bytes.len() == span.len_bytes() {
                    reduced = self.reduce(op, *span, 0, span.count, bytes.as_mut_ptr());
                }
            })?;
            reduced.map(|()| tensor)
        };
        self.heads.0.iter().zip(&self.spans).map(part).collect()
    }

    /// Reduces this rank's slice of every part in place, in the block of `target`.
    fn two_shot(&self, op: ReduceOp, target: usize, rank: usize) -> Result<Product, CommError> {
        let brought = self.brought(target)?;
        for span in &self.spans {
            let (from, count) = slice(span, rank, self.ranks());
            let size = span.dtype.size_bytes();
            let to = brought.region.address(span.offset + from * size, count * size)?;
            self.reduce(op, *span, from, count, to)?;
        }
        let parts = self
            .heads
            .0
            .iter()
            .cloned()
            .zip(self.spans.iter().map(|span| span.offset))
            .collect();
        Ok(Product::View {
            owner: target,
            brought: brought.clone(),
            parts,
        })
    }

    /// Part `rank` of the contribution of `owner`.
    fn parts_of(&self, owner: usize, rank: usize) -> Result<Product, CommError> {
        let ranks = self.ranks();
        let part = |(head, span): (&Head, &Span)| {
            let head = head.with_first(|first| Some(first / ranks)).ok_or_else(absent)?;
            Ok((head, span.offset + rank * (span.len_bytes() / ranks)))
        };
        let parts = self
            .heads
            .0
            .iter()
            .zip(&self.spans)
            .map(part)
            .collect::<Result<_, CommError>>()?;
        Ok(Product::View {
            owner,
            brought: self.brought(owner)?.clone(),
            parts,
        })
    }

    /// Reduces part `rank` in place, in this rank's own block, where nobody else reads that part.
    fn reduce_scatter(&self, op: ReduceOp, rank: usize) -> Result<Product, CommError> {
        let own = self.brought(rank)?;
        for span in &self.spans {
            let count = span.count / self.ranks();
            let size = span.dtype.size_bytes();
            let to = own
                .region
                .address(span.offset + rank * count * size, count * size)?;
            self.reduce(op, *span, rank * count, count, to)?;
        }
        self.parts_of(rank, rank)
    }

    /// What becomes of the heads when everybody's parts are put one after the other.
    pub(super) fn gathered(heads: &Heads, ranks: usize) -> Option<Heads> {
        let longer = |head: &Head| head.with_first(|first| first.checked_mul(ranks));
        heads.0.iter().map(longer).collect::<Option<Vec<_>>>().map(Heads)
    }

    fn gather(&self, target: usize, rank: usize) -> Result<Product, CommError> {
        let results = self.results.as_ref().ok_or_else(absent)?;
        let too_large = || CommError::from(TensorError::Memory { len_bytes: None });
        let heads = Meeting::gathered(&self.heads, self.ranks()).ok_or_else(too_large)?;
        let (spans, _) = heads.spans(0).ok_or_else(too_large)?;
        let own = self.brought(rank)?;
        for (from, to) in self.spans.iter().zip(&spans) {
            let len = from.len_bytes();
            let source = own.region.address(from.offset, len)?;
            let place = results.region.address(to.offset + rank * len, len)?;
            // SAFETY: `len` bytes each; the place is this rank's share of a block that nobody reads before all are done
            // (`COLL-1`), and another block than the contribution's.
            unsafe { std::ptr::copy_nonoverlapping(source, place, len) };
        }
        let offsets: Vec<usize> = spans.iter().map(|span| span.offset).collect();
        let parts = heads.0.into_iter().zip(offsets).collect();
        Ok(Product::View {
            owner: target,
            brought: results.clone(),
            parts,
        })
    }

    fn all_to_all(&self, rank: usize) -> Result<Vec<Tensor>, CommError> {
        let part = |(head, span): (&Head, &Span)| {
            let len = span.len_bytes() / self.ranks();
            let sources = self.sources(span.offset + rank * len, len)?;
            let fill = |bytes: &mut [u8]| {
                // Nothing to copy where the parts are empty.
                for (to, from) in bytes.chunks_exact_mut(len.max(1)).zip(&sources) {
                    // SAFETY: `len` bytes lie behind the source, which nobody writes; the target is new memory.
                    unsafe { std::ptr::copy_nonoverlapping(*from, to.as_mut_ptr(), len) };
                }
            };
            Ok(Tensor::filled(head.dtype, &head.shape, fill)?)
        };
        self.heads.0.iter().zip(&self.spans).map(part).collect()
    }
}

/// Where the slice of `rank` begins, and how long it is, in elements: whole cache lines, so that no two ranks write one.
fn slice(span: &Span, rank: usize, ranks: usize) -> (usize, usize) {
    let line = crate::parts::ALIGN / span.dtype.size_bytes();
    let each = span.count.div_ceil(ranks).next_multiple_of(line);
    let from = each.saturating_mul(rank).min(span.count);
    (from, each.min(span.count - from))
}
