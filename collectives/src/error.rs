//! Errors of collectives.

use std::time::Duration;

use selvedge_channels::{DType, SegmentError, TensorError};

use crate::operation::{Collective, ReduceOp};

/// The reason why a collective has no result. Every rank gets the same error, unless it is about a rank's own arguments
/// or about time.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// A rank has died, and the group has ended with it. Create a new group of the ranks that live.
    #[error("rank {rank} (process {pid}) has died")]
    PeerLost {
        /// The rank.
        rank: usize,
        /// The process of the rank.
        pid: u32,
    },
    /// A rank has left before it took part.
    #[error("rank {rank} has left the group and takes part in nothing any more")]
    PeerLeft {
        /// The rank.
        rank: usize,
    },
    /// The group was aborted.
    #[error("the group was aborted by rank {rank}")]
    Aborted {
        /// The rank that aborted it.
        rank: usize,
    },
    /// The ranks disagree on the operation or its tensors. No rank has a result; the group goes on.
    #[error("the ranks disagree: rank 0 brings {first} and rank {rank} brings {other}")]
    Mismatch {
        /// The contribution of rank 0.
        first: String,
        /// The first rank with another contribution.
        rank: usize,
        /// The contribution of that rank.
        other: String,
    },
    /// A rank contributed a failure instead of tensors. No rank has a result; the group goes on.
    #[error("rank {rank} had nothing to contribute: its own work failed")]
    PeerFailed {
        /// The first such rank.
        rank: usize,
        /// The report of that rank.
        report: Vec<u8>,
    },
    /// The ranks of several hosts got no result, for a reason that one of them has found. The group goes on.
    #[error("{reason}")]
    Refused {
        /// The error that was found.
        reason: String,
    },
    /// The reduction is not defined for elements of this type.
    #[error("there is no {op} of {dtype:?}: truth values have `Min` (all) and `Max` (any)")]
    NoSuchReduction {
        /// The reduction.
        op: ReduceOp,
        /// The type of the elements.
        dtype: DType,
    },
    /// A contribution cannot be cut into as many parts as there are ranks.
    #[error(
        "{operation} cuts along the first dimension, and {shape:?} has none that {ranks} ranks can share equally"
    )]
    Indivisible {
        /// The operation.
        operation: Collective,
        /// The shape.
        shape: Vec<usize>,
        /// The number of ranks.
        ranks: usize,
    },
    /// Contributions without a first dimension cannot be put one after the other.
    #[error(
        "{operation} puts contributions one after the other, and a scalar has no dimension to do it along"
    )]
    Scalar {
        /// The operation.
        operation: Collective,
    },
    /// The operation was not complete in time. It is still in flight, and the caller may wait for it again.
    #[error("{operation} waited {waited:?} for {missing}")]
    Timeout {
        /// The operation in flight.
        operation: Collective,
        /// The duration of the wait.
        waited: Duration,
        /// A description of the missing ranks.
        missing: String,
    },
    /// A message did not come in time, or the message before it was not taken in time.
    #[error("rank {rank} has not {what} for {waited:?}")]
    NoMessage {
        /// The other rank.
        rank: usize,
        /// The duration of the wait.
        waited: Duration,
        /// The action that the other rank has not done.
        what: &'static str,
    },
    /// The communicator does not support messages between two ranks.
    #[error("this communicator sends nothing from one rank to another")]
    NoMessages,
    /// The group does not have this rank.
    #[error("rank {rank} is not in a group of {ranks}")]
    NoSuchRank {
        /// The number given.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The rank is taken already.
    #[error("rank {rank} is taken, by process {pid}")]
    Taken {
        /// The rank.
        rank: usize,
        /// The process that has the rank.
        pid: u32,
    },
    /// A group of no ranks, or of more than the maximum.
    #[error("a group has 1 to {most} ranks, not {ranks}")]
    GroupSize {
        /// The number given.
        ranks: usize,
        /// The maximum number.
        most: usize,
    },
    /// An operation was launched before the last one was over.
    #[error("{operation} is still under way: a rank takes part in one operation at a time")]
    Busy {
        /// The operation in flight.
        operation: Collective,
    },
    /// No operation is in flight.
    #[error("nothing is under way")]
    Idle,
    /// The plan does not belong to this communicator.
    #[error("this communicator has no plan of that number")]
    NoSuchPlan,
    /// The backend does not support this operation.
    #[error("this communicator does not do {operation}: {why}")]
    Unsupported {
        /// The operation.
        operation: Collective,
        /// The reason.
        why: &'static str,
    },
    /// The library behind a backend has failed, or is missing.
    #[error("{backend}: {reason}")]
    Backend {
        /// The backend.
        backend: &'static str,
        /// The message of the library.
        reason: String,
    },
    /// A device has failed, or is missing.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] selvedge_channels::device::DeviceError),
    /// The results that are held use so many blocks that no more can be created.
    #[error("{blocks} results of this group are held, and there is no room for more: drop some")]
    Held {
        /// The number of blocks in use.
        blocks: usize,
    },
    /// A tensor could not be created.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Shared memory could not be created or opened.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Shared memory contains data that no correct peer writes.
    #[error("the group's memory is corrupt: {what}")]
    Corrupt {
        /// A description of the problem.
        what: &'static str,
    },
}

selvedge_channels::debug_is_report!(CommError);
