//! The reasons that a value cannot be made again.

use std::sync::Arc;

use selvedge_cluster::peer::ProcessId;
use serde::{Deserialize, Serialize};

use crate::error_codec::ErrorCodec;
use crate::failure::Failure;
use crate::process_end::ProcessEnd;

/// The event by which a call or its value was lost.
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Loss {
    /// The worker died during the call.
    #[error("{process} died during the call, which may have run ({end})")]
    Death {
        /// The worker.
        process: ProcessId,
        /// How it ended.
        end: Arc<ProcessEnd>,
    },
    /// The worker had died before it had the call, which has not run.
    #[error("{process} died before it had the call ({end})")]
    DeathBefore {
        /// The worker.
        process: ProcessId,
        /// How it ended.
        end: Arc<ProcessEnd>,
    },
    /// The call has ended, and the last copy of its value is gone.
    #[error("the last copy of the value is gone")]
    Value,
}

selvedge_channels::debug_is_report!(Loss);

/// The reason that a submitted call gave no value, or that its value was lost for good. The failure of a fetch holds it:
/// [`FetchError::downcast_ref`](crate::FetchError::downcast_ref).
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lost {
    /// The worker died during the call, or the last copy of its value is gone, and the function may not run again.
    #[error("lost: {loss} (help: a function that may run again is declared `#[remote(pure)]`)")]
    NotPure {
        /// The event.
        loss: Loss,
    },
    /// The call was for one worker, which died before it had answered, or the last copy of its value is gone.
    #[error(
        "lost: the call was for {process} alone: {loss} (help: without `.on(..)`, a pure call runs again elsewhere)"
    )]
    Pinned {
        /// The worker.
        process: ProcessId,
        /// The event.
        loss: Loss,
    },
    /// The value was put, or is what a graph has given: there is no call that could make it again.
    #[error("lost: it was put, or a graph has given it, so no call makes it again: {why}")]
    Put {
        /// The reason that the last copy is gone.
        why: String,
    },
    /// The call has been run as often as it may, and each time its worker died or its value was lost.
    #[error(
        "lost: the call was run {attempts} times, and {deaths} times its worker died or its value was lost (help: `.retries(n)` allows \
         more)"
    )]
    RetriesSpent {
        /// The number of times that the call was begun.
        attempts: u32,
        /// The number of workers that died during the call, and of losses of its value.
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
        "lost: the call that made it was forgotten, since the descriptions of calls took more than {limit} bytes (help: \
         `Runtime::lineage_bytes`)"
    )]
    LineageDropped {
        /// The limit.
        limit: usize,
    },
    /// No worker offers what the call needs.
    #[error(
        "not run: the call needs {needs}, and the workers offer {offered} (help: `Worker::offers` says what a worker has room for)"
    )]
    Infeasible {
        /// The needs of the call.
        needs: String,
        /// The offer of each worker.
        offered: String,
    },
    /// The graph that was to give the value has ended. What its actors have done is not known, so the input is not executed again.
    #[error(
        "lost: graph `{graph}` ended before it had given the value (help: compile it again, and submit the input again): {reason}"
    )]
    GraphEnded {
        /// The graph's name.
        graph: String,
        /// The reason, such as the death of an actor.
        reason: String,
    },
}

selvedge_channels::debug_is_report!(Lost);

impl Lost {
    /// The process whose death it was, or the one that the call was for.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        match self {
            Lost::NotPure {
                loss: Loss::Death { process, .. },
            }
            | Lost::Pinned { process, .. } => Some(*process),
            _ => None,
        }
    }
}

/// The codec of losses, which are the same to whoever fetches the value, or that of a call that reads it, in any process.
pub(crate) static LOSSES: ErrorCodec = ErrorCodec::of::<Lost>();

impl From<Lost> for Failure {
    fn from(why: Lost) -> Self {
        Failure::encodable(Arc::new(why), &LOSSES)
    }
}
