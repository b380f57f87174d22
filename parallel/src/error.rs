//! The errors of pools and of the work that they do.

use std::ops::Range;
use std::time::Duration;

use selvedge_core::{CallError, NoRuntime, RemoteChannelError};

/// The reason that a pool gave no worker.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// No worker of the pool lives.
    #[error("no worker of the pool lives (help: `Pool::add` adds another one)")]
    NoWorker,
    /// All living workers were busy.
    #[error("all {workers} living workers of the pool were busy for {waited:?}")]
    Busy {
        /// The number of living workers.
        workers: usize,
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// A worker was to be added that belongs to another runtime.
    #[error(
        "worker `{worker}` belongs to another runtime than the pool: make the pool by the runtime that has started it, or add a worker of this one"
    )]
    OtherRuntime {
        /// The worker's name.
        worker: String,
    },
    /// The pool was passed to a thread that runs no remote function.
    #[error("a pool that comes from another process is used in a remote function: {0}")]
    NoRuntime(NoRuntime),
    /// The channel of free workers cannot be used.
    #[error("the workers of the pool: {0}")]
    Channel(RemoteChannelError),
}

selvedge_channels::debug_is_report!(PoolError);

impl From<RemoteChannelError> for PoolError {
    fn from(error: RemoteChannelError) -> Self {
        PoolError::Channel(error)
    }
}

impl From<NoRuntime> for PoolError {
    fn from(error: NoRuntime) -> Self {
        PoolError::NoRuntime(error)
    }
}

/// The reason that work was not done.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The call for an item of a map, or for the items of a batch, gave no value.
    #[error("item {item}: {error}")]
    Item {
        /// The place of the item, from 0; of a batch, that of its first item.
        item: u64,
        /// The error.
        error: CallError,
    },
    /// The call for a chunk of a loop gave no value.
    #[error("the chunk {chunk:?}: {error}")]
    Chunk {
        /// The numbers of the chunk.
        chunk: Range<u64>,
        /// The error.
        error: CallError,
    },
    /// No worker was there for the work: none lives, or all were busy for a minute before the work had begun.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The deadline of the work has passed; its calls are cancelled.
    #[error("the work was not done within its deadline of {0:?}")]
    Deadline(Duration),
    /// The function that waits for the work must not wait, or its call was cancelled.
    #[error("the work was not waited for: {0}")]
    NotAwaited(CallError),
}

selvedge_channels::debug_is_report!(MapError);

impl MapError {
    /// The user's own error, if the function returned one of type `E` and serde knows `E`.
    #[must_use]
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            MapError::Item { error, .. } | MapError::Chunk { error, .. } => error.downcast_ref(),
            _ => None,
        }
    }
}
