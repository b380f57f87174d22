//! Errors of leases, and of programs under a lease.

use crate::death::Death;
use crate::id::{LaneId, ProcessId};
use crate::process_name::ProcessName;

/// The reason that a lease, or a program under it, was refused.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another holder has leased the actor, or another actor of its lane.
    #[error("actor `{actor}` is busy: its lane is lent to `{holder}`")]
    Busy {
        /// The actor that was asked for.
        actor: String,
        /// The name of the holder.
        holder: String,
    },
    /// The actor is dead.
    #[error(transparent)]
    Dead(#[from] Death),
    /// The actor belongs to another runtime.
    #[error("actor `{actor}` belongs to another runtime")]
    Foreign {
        /// The actor that was asked for.
        actor: String,
    },
    /// The actor's thread did not return from an earlier program.
    #[error("actor `{actor}` is stuck: its thread never came back from an earlier program")]
    Stuck {
        /// The actor that was asked for.
        actor: String,
    },
    /// The actor's worker was still restarting when the deadline passed.
    #[error("actor `{actor}` was still restarting when the deadline passed")]
    Restarting {
        /// The actor that was asked for.
        actor: String,
    },
    /// A program was given for a lane that the lease does not hold.
    #[error("{lane} is not part of the lease")]
    UnknownLane {
        /// The lane.
        lane: LaneId,
    },
    /// A program was given for a worker that the lease does not hold.
    #[error("{process} is not part of the lease")]
    UnknownProcess {
        /// The process.
        process: ProcessId,
    },
    /// A program was given for a lane that runs one already.
    #[error("{lane} runs a program already")]
    Running {
        /// The lane.
        lane: LaneId,
    },
    /// The worker could not load the programs.
    #[error("{worker} refused the programs: {reason}")]
    Refused {
        /// The worker.
        worker: ProcessName,
        /// The reason, as text.
        reason: String,
    },
    /// The worker did not answer in time.
    #[error("{worker} did not load its programs in time")]
    Silent {
        /// The worker.
        worker: ProcessName,
    },
    /// The runtime is shut down.
    #[error("the runtime is shut down")]
    Shutdown,
}

selvedge_channels::debug_is_report!(LeaseError);
