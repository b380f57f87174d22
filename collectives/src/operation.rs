//! What a group does together.

use std::fmt;

use selvedge_channels::DType;
use serde::{Deserialize, Serialize};

/// How the elements of all ranks become one. Elements are joined in the order of ranks, whoever computes, so results are
/// equal bit for bit on every rank and in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReduceOp {
    /// `a + b`. Integers wrap; 16-bit floats are added as `f32` and rounded once.
    Sum,
    /// `a * b`, likewise.
    Product,
    /// The smaller one; NaN if any is. Of truth values: whether all are true.
    Min,
    /// The larger one; NaN if any is. Of truth values: whether any is true.
    Max,
    /// The sum over the number of ranks. Of integers: of the sum that does not wrap, rounded towards zero.
    Average,
}

impl ReduceOp {
    /// All of them.
    pub const ALL: [ReduceOp; 5] = [
        ReduceOp::Sum,
        ReduceOp::Product,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Average,
    ];

    /// Whether there is such a thing for elements of a type: truth values have no sum.
    pub fn is_defined_for(self, dtype: DType) -> bool {
        dtype != DType::Bool || matches!(self, ReduceOp::Min | ReduceOp::Max)
    }

    fn code(self) -> u64 {
        match self {
            ReduceOp::Sum => 0,
            ReduceOp::Product => 1,
            ReduceOp::Min => 2,
            ReduceOp::Max => 3,
            ReduceOp::Average => 4,
        }
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

/// An operation that every rank of a group takes part in. The names are those of MPI and NCCL; `S` is the shape that every
/// rank contributes, `N` the number of ranks, and "in parts" is along the first dimension, in the order of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Collective {
    /// All contributions joined: `S`, on every rank.
    AllReduce(ReduceOp),
    /// All contributions joined; each rank gets its part: `S[0] / N`.
    ReduceScatter(ReduceOp),
    /// All contributions joined: `S`, on the root; nothing elsewhere.
    Reduce {
        /// How.
        op: ReduceOp,
        /// The rank that gets the result.
        root: usize,
    },
    /// All contributions one after the other: `S[0] * N`, on every rank.
    AllGather,
    /// All contributions one after the other: `S[0] * N`, on the root; nothing elsewhere.
    Gather {
        /// The rank that gets the result.
        root: usize,
    },
    /// The root's contribution, on every rank. What the others contribute is not looked at.
    Broadcast {
        /// The rank whose contribution it is.
        root: usize,
    },
    /// The root's contribution in parts, one for each rank. What the others contribute is not looked at.
    Scatter {
        /// The rank whose contribution it is.
        root: usize,
    },
    /// Every contribution in parts; rank r gets part r of each, one after the other: `S`.
    AllToAll,
    /// Nothing but that every rank has come.
    Barrier,
}

impl Collective {
    /// The rank that gives or gets everything, where there is one.
    pub fn root(self) -> Option<usize> {
        match self {
            Collective::Reduce { root, .. }
            | Collective::Gather { root }
            | Collective::Broadcast { root }
            | Collective::Scatter { root } => Some(root),
            _ => None,
        }
    }

    /// How elements are joined, where they are.
    pub fn reduce_op(self) -> Option<ReduceOp> {
        match self {
            Collective::AllReduce(op) | Collective::ReduceScatter(op) | Collective::Reduce { op, .. } => {
                Some(op)
            }
            _ => None,
        }
    }

    /// Whether every rank's contribution counts, so that all must be of one shape and type.
    pub fn reads_all(self) -> bool {
        !matches!(
            self,
            Collective::Broadcast { .. } | Collective::Scatter { .. } | Collective::Barrier
        )
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

    /// The rank in whose memory everybody puts its part, where one collects them.
    pub(crate) fn gatherer(self) -> Option<usize> {
        match self {
            Collective::AllGather => Some(0),
            Collective::Gather { root } => Some(root),
            _ => None,
        }
    }

    /// As one word, equal for equal operations.
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
        let op = self.reduce_op().map_or(0, |op| op.code() + 1);
        let root = self.root().map_or(0, |root| root as u64 + 1);
        kind | op << 8 | root << 16
    }

    /// In a word of [`code`](Self::code): the tensors are not in the host's memory.
    pub(crate) const ELSEWHERE: u64 = 1 << 63;

    /// In a word of [`code`](Self::code): a private vector is joined in place.
    pub(crate) const IN_PLACE: u64 = 1 << 62;

    /// What a word of [`code`](Self::code) means, for people.
    pub(crate) fn name_of(code: u64) -> String {
        if code & Collective::IN_PLACE != 0 {
            return Collective::name_of(code & !Collective::IN_PLACE) + " in place";
        }
        if code & Collective::ELSEWHERE != 0 {
            return Collective::name_of(code & !Collective::ELSEWHERE) + " on a device";
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
            .find(|op| op.code() + 1 == (code >> 8) & 0xff);
        let op = op.map_or_else(String::new, |op| format!("({op})"));
        match code >> 16 {
            0 => format!("{kind}{op}"),
            root => format!("{kind}{op} of root {}", root - 1),
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Collective::name_of(self.code()))
    }
}
