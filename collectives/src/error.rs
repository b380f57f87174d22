//! What can go wrong in a collective.

use std::time::Duration;

use selvedge_channels::{DType, SegmentError, TensorError};

use crate::operation::{Collective, ReduceOp};

/// Why a collective has no result. Unless it is about a rank's own arguments or about time, every rank gets the same.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// A rank has died, and with it the group: make a new one of those that live.
    #[error("rank {rank} (process {pid}) has died")]
    PeerLost {
        /// Which.
        rank: usize,
        /// Its process.
        pid: u32,
    },
    /// A rank has left before it took part.
    #[error("rank {rank} has left the group and takes part in nothing any more")]
    PeerLeft {
        /// Which.
        rank: usize,
    },
    /// Somebody has ended the group.
    #[error("the group was aborted by rank {rank}")]
    Aborted {
        /// Who.
        rank: usize,
    },
    /// The ranks do not agree on what they do together. Nobody has a result; the group goes on.
    #[error("the ranks disagree: rank 0 brings {first} and rank {rank} brings {other}")]
    Mismatch {
        /// What rank 0 brings.
        first: String,
        /// The first rank that brings something else.
        rank: usize,
        /// What it brings.
        other: String,
    },
    /// A rank contributed a failure instead of tensors. Nobody has a result; the group goes on.
    #[error("rank {rank} had nothing to contribute: its own work failed")]
    PeerFailed {
        /// The first such rank.
        rank: usize,
        /// What it said.
        report: Vec<u8>,
    },
    /// Elements of this type have no such operation.
    #[error("there is no {op} of {dtype:?}: truth values have `Min` (all) and `Max` (any)")]
    NoSuchReduction {
        /// The operation.
        op: ReduceOp,
        /// The type of the elements.
        dtype: DType,
    },
    /// A contribution cannot be cut into as many parts as there are ranks.
    #[error(
        "{operation} cuts along the first dimension, and {shape:?} has none that {ranks} ranks can share equally"
    )]
    Indivisible {
        /// What was to be done.
        operation: Collective,
        /// The shape.
        shape: Vec<usize>,
        /// Number of ranks.
        ranks: usize,
    },
    /// Contributions without a first dimension cannot be put one after the other.
    #[error(
        "{operation} puts contributions one after the other, and a scalar has no dimension to do it along"
    )]
    Scalar {
        /// What was to be done.
        operation: Collective,
    },
    /// Not everybody came in time. The operation is still under way and can be waited for again.
    #[error("{operation} waited {waited:?} for {missing}")]
    Timeout {
        /// What is under way.
        operation: Collective,
        /// How long it was waited for.
        waited: Duration,
        /// Who is missing, for people.
        missing: String,
    },
    /// A message did not come, or the one before it was not taken, in time.
    #[error("rank {rank} has not {what} for {waited:?}")]
    NoMessage {
        /// The other rank.
        rank: usize,
        /// How long it was waited for.
        waited: Duration,
        /// What it has not done.
        what: &'static str,
    },
    /// This communicator has no messages between two ranks.
    #[error("this communicator sends nothing from one rank to another")]
    NoMessages,
    /// A rank that the group does not have.
    #[error("rank {rank} is not in a group of {ranks}")]
    NoSuchRank {
        /// The number given.
        rank: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// This rank is somebody's already.
    #[error("rank {rank} is taken, by process {pid}")]
    Taken {
        /// Which.
        rank: usize,
        /// By whom.
        pid: u32,
    },
    /// A group of no ranks, or of more than there can be.
    #[error("a group has 1 to {most} ranks, not {ranks}")]
    GroupSize {
        /// The number given.
        ranks: usize,
        /// The largest number.
        most: usize,
    },
    /// An operation was launched before the last one was over.
    #[error("{operation} is still under way: a rank takes part in one operation at a time")]
    Busy {
        /// What is under way.
        operation: Collective,
    },
    /// There is nothing to wait for.
    #[error("nothing is under way")]
    Idle,
    /// A plan of another communicator.
    #[error("this communicator has no plan of that number")]
    NoSuchPlan,
    /// The backend does not do this.
    #[error("this communicator does not do {operation}: {why}")]
    Unsupported {
        /// What was asked for.
        operation: Collective,
        /// Why not.
        why: &'static str,
    },
    /// The library behind a backend has failed, or is not there.
    #[error("{backend}: {reason}")]
    Backend {
        /// The backend.
        backend: &'static str,
        /// What it says.
        reason: String,
    },
    /// A device has failed, or is not there.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] selvedge_channels::device::DeviceError),
    /// So many results are held that no more block can be had.
    #[error("{blocks} results of this group are held, and there is no room for more: drop some")]
    Held {
        /// Blocks of memory that are in use.
        blocks: usize,
    },
    /// A tensor could not be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Shared memory could not be had or opened.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Shared memory holds something that no honest peer writes.
    #[error("the group's memory is corrupt: {what}")]
    Corrupt {
        /// What is wrong.
        what: &'static str,
    },
}

selvedge_channels::debug_is_report!(CommError);
