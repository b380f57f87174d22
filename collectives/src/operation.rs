//! The operations of a group, and their reductions.

use std::fmt;

use selvedge_channels::DType;
use serde::{Deserialize, Serialize};

/// A reduction: the elements of all ranks become one. Elements are combined in the order of ranks, whichever rank
/// computes, so results are equal bit for bit on every rank and in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReduceOp {
    /// `a + b`. Integers wrap; 16-bit floats are added as `f32` and rounded once.
    Sum,
    /// `a * b`; wraps and rounds as the sum does.
    Product,
    /// The smaller element; NaN if any is NaN. For booleans: true if all are true.
    Min,
    /// The larger element; NaN if any is NaN. For booleans: true if any is true.
    Max,
    /// The sum divided by the number of ranks. For integers: the sum without wrapping, divided and rounded towards
    /// zero.
    Average,
}

impl ReduceOp {
    /// All reductions.
    pub const ALL: [ReduceOp; 5] = [
        ReduceOp::Sum,
        ReduceOp::Product,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Average,
    ];

    /// Whether the reduction is defined for elements of a type: booleans have no sum.
    pub fn is_defined_for(self, dtype: DType) -> bool {
        dtype != DType::Bool || matches!(self, ReduceOp::Min | ReduceOp::Max)
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Product => "product",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Average => "average",
        })
    }
}

/// An operation in which every rank of a group takes part. The names are those of MPI and NCCL. `S` is the shape that
/// every rank contributes, `N` is the number of ranks, and "in parts" means along the first dimension, in the order of
/// ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Collective {
    /// All contributions combined: `S`, on every rank.
    AllReduce(ReduceOp),
    /// All contributions combined; each rank gets its part: `S[0] / N`.
    ReduceScatter(ReduceOp),
    /// All contributions combined: `S`, on the root; the other ranks get no result.
    Reduce {
        /// The reduction.
        op: ReduceOp,
        /// The rank that gets the result.
        root: usize,
    },
    /// All contributions one after the other: `S[0] * N`, on every rank.
    AllGather,
    /// All contributions one after the other: `S[0] * N`, on the root; the other ranks get no result.
    Gather {
        /// The rank that gets the result.
        root: usize,
    },
    /// The root's contribution, on every rank. The contributions of the other ranks are ignored.
    Broadcast {
        /// The rank that contributes.
        root: usize,
    },
    /// The root's contribution in parts, one for each rank. The contributions of the other ranks are ignored.
    Scatter {
        /// The rank that contributes.
        root: usize,
    },
    /// Every contribution in parts; rank r gets part r of each contribution, one after the other: `S`.
    AllToAll,
    /// An operation without data: it is over when every rank has arrived.
    Barrier,
}

impl Collective {
    /// Returns the rank that gives or gets everything, if there is one.
    pub fn root(self) -> Option<usize> {
        match self {
            Collective::Reduce { root, .. }
            | Collective::Gather { root }
            | Collective::Broadcast { root }
            | Collective::Scatter { root } => Some(root),
            _ => None,
        }
    }

    /// Returns the reduction, if the operation has one.
    pub fn reduce_op(self) -> Option<ReduceOp> {
        match self {
            Collective::AllReduce(op) | Collective::ReduceScatter(op) | Collective::Reduce { op, .. } => {
                Some(op)
            }
            _ => None,
        }
    }

    /// Whether every rank's contribution is read, so that all must have one shape and type.
    pub fn reads_all(self) -> bool {
        !matches!(
            self,
            Collective::Broadcast { .. } | Collective::Scatter { .. } | Collective::Barrier
        )
    }

    /// Whether the contribution of rank `rank` is read.
    pub(crate) fn reads(self, rank: usize) -> bool {
        self.reads_all() || self.root() == Some(rank)
    }

    /// Whether rank `rank` gets a result.
    pub fn returns_to(self, rank: usize) -> bool {
        match self {
            Collective::Reduce { root, .. } | Collective::Gather { root } => root == rank,
            Collective::Barrier => false,
            _ => true,
        }
    }

    /// Whether contributions are cut into parts along their first dimension.
    pub fn cuts(self) -> bool {
        matches!(
            self,
            Collective::ReduceScatter(_) | Collective::Scatter { .. } | Collective::AllToAll
        )
    }

    /// Returns the rank in whose memory all ranks put their parts, if the operation gathers parts.
    pub(crate) fn gatherer(self) -> Option<usize> {
        match self {
            Collective::AllGather => Some(0),
            Collective::Gather { root } => Some(root),
            _ => None,
        }
    }

    /// Returns the operation as one word, equal for equal operations.
    pub(crate) fn code(self) -> u64 {
        let kind = match self {
            Collective::AllReduce(_) => 1,
            Collective::ReduceScatter(_) => 2,
            Collective::Reduce { .. } => 3,
            Collective::AllGather => 4,
            Collective::Gather { .. } => 5,
            Collective::Broadcast { .. } => 6,
            Collective::Scatter { .. } => 7,
            Collective::AllToAll => 8,
            Collective::Barrier => 9,
        };
        let op = self.reduce_op().map_or(0, |op| op as u64 + 1);
        let root = self.root().map_or(0, |root| root as u64 + 1);
        kind | op << 8 | root << 16
    }

    /// Returns a readable name for a [`code`](Self::code).
    pub(crate) fn name_of(code: u64) -> String {
        for (medium, name) in [(Medium::Rings, " in place"), (Medium::Device, " on a device")] {
            if code & medium.bit() != 0 {
                return Collective::name_of(code & !medium.bit()) + name;
            }
        }
        let kinds = [
            "?",
            "allreduce",
            "reduce_scatter",
            "reduce",
            "allgather",
            "gather",
            "broadcast",
            "scatter",
            "all_to_all",
            "barrier",
        ];
        let kind = kinds.get((code & 0xff) as usize).copied().unwrap_or("?");
        let op = ReduceOp::ALL
            .iter()
            .find(|op| **op as u64 + 1 == (code >> 8) & 0xff);
        let op = op.map_or_else(String::new, |op| format!("({op})"));
        match code >> 16 {
            0 => format!("{kind}{op}"),
            root => format!("{kind}{op} of root {}", root - 1),
        }
    }
}

/// The memory through which the tensors of an operation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Blocks of the ranks.
    Blocks,
    /// Rings, from and to private vectors.
    Rings,
    /// Memory of devices: the ranks agree on the host only on types and shapes.
    Device,
}

impl Medium {
    /// Returns the bit in the [`code`](Collective::code) of an operation.
    pub(crate) fn bit(self) -> u64 {
        match self {
            Medium::Blocks => 0,
            Medium::Rings => 1 << 62,
            Medium::Device => 1 << 63,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Collective::name_of(self.code()))
    }
}
