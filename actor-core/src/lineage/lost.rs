//! The reasons that a value cannot be made again.

use selvedge_cluster::peer::ProcessId;
use serde::{Deserialize, Serialize};

/// The reason that a submitted call gave no value, or that its value was lost for good. The failure of a fetch holds it:
/// [`FetchError::downcast_ref`](crate::FetchError::downcast_ref).
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lost {
    /// The worker died during the call, and the function may not run again.
    #[error(
        "lost: {process} died during the call, which may have run (help: a function that may run again is declared \
         `#[remote(pure)]`)"
    )]
    NotPure {
        /// The worker.
        process: ProcessId,
    },
    /// The worker that the call was for died before it had answered.
    #[error(
        "lost: the call was for {process}, which died (help: without `.on(..)`, a pure call runs again elsewhere)"
    )]
    Pinned {
        /// The worker.
        process: ProcessId,
    },
    /// The call has been run as often as it may, and its worker died each time.
    #[error(
        "lost: the call was run {attempts} times, and {deaths} workers died of it or beside it (help: `.retries(n)` allows more)"
    )]
    RetriesSpent {
        /// The number of times that the call was begun.
        attempts: u32,
        /// The number of workers that died during the call.
        deaths: u32,
    },
    /// Workers died during the call, and no other is left. The driver's process, which runs calls without workers, does not run this
    /// one: it would risk everything.
    #[error(
        "lost: {deaths} workers died of the call or beside it, and none is left (help: such a call does not run in the driver's \
         process; start more workers, and look why they die)"
    )]
    NoWorkerLeft {
        /// The number of workers that died during the call.
        deaths: u32,
    },
    /// The descriptions of calls took too much memory, so this one was dropped.
    #[error(
        "lost: the call that made it was forgotten, since the descriptions of calls took more than {limit} bytes"
    )]
    LineageDropped {
        /// The limit.
        limit: usize,
    },
    /// No worker offers what the call needs.
    #[error("not run: the call needs {needs}, and the workers offer {offered}")]
    Infeasible {
        /// The needs of the call.
        needs: String,
        /// The offer of each worker.
        offered: String,
    },
}

selvedge_channels::debug_is_report!(Lost);
