//! The reasons that a fetch gave no value.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use selvedge_objects::store::StoreError;

use super::name::NamedRef;
use crate::failure::Failure;
use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;

/// The reason that a reference gave no value.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The function that was to make the value failed. Every later fetch returns the same failure.
    #[error("the value of {id} was not made: {failure}")]
    Failed {
        /// The reference.
        id: NamedRef,
        /// The failure: [`Failure::Unmade`] with the function, its process, and its own failure, in which [`Failure::Error`]
        /// holds the user's own error, if serde knows the error's type.
        failure: Failure,
    },
    /// The value cannot be encoded by its owner or decoded here.
    #[error("the value of {id} cannot be fetched: {failure}")]
    Unreadable {
        /// The reference.
        id: NamedRef,
        /// The failure.
        failure: Failure,
    },
    /// The store of the owner's host cannot provide the value: it is full, say, and the value was spilled. A later fetch may find
    /// room.
    #[error("the value of {id} cannot be read: {error}")]
    Stored {
        /// The reference.
        id: NamedRef,
        /// The reason.
        error: StoreError,
    },
    /// The process that held the value is dead, and the value is lost.
    #[error("{id} is lost: {}", of_dead_owner(owner, end.as_deref()))]
    OwnerLost {
        /// The reference.
        id: NamedRef,
        /// The owner.
        owner: ProcessName,
        /// How the owner ended; `None` if that is not known. Then the process that passed the reference on may be the one that has died.
        end: Option<Arc<ProcessEnd>>,
    },
    /// The owner has not confirmed in time that it makes the value.
    #[error("the creation of {id} timed out, and the value may not exist: see whether its owner runs")]
    CreateTimedOut {
        /// The reference.
        id: NamedRef,
    },
    /// The value was dropped by its owner.
    #[error("{id} was freed by its owner")]
    Freed {
        /// The reference.
        id: NamedRef,
    },
    /// The reference holds a value of another type, or one that another process has set and that nobody has fetched yet
    /// in the process where it lives.
    #[error(
        "{id} holds no `{wanted}` yet, or another type (help: a value that another process has set is decoded by the \
         first fetch in the process where it lives)"
    )]
    WrongType {
        /// The reference.
        id: NamedRef,
        /// The type that was asked for.
        wanted: &'static str,
    },
    /// The value was not made in time. A later fetch waits for it again.
    #[error("{id} has no value after {waited:?} (help: `fetch_timeout` and `ready_timeout` set this time)")]
    Timeout {
        /// The reference.
        id: NamedRef,
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// The call of the function that waited was cancelled, or its deadline has passed.
    #[error("{id} was not fetched: the call that waited for it was cancelled: end the function")]
    Cancelled {
        /// The reference.
        id: NamedRef,
    },
    /// The runtime was shut down, and has let go of the reference.
    #[error("{id} was not fetched: the runtime was shut down")]
    Shutdown {
        /// The reference.
        id: NamedRef,
    },
    /// An async remote function waited by blocking, which would stop all other async functions of its process.
    #[error("{id} was not fetched: an async remote function cannot block (help: write `(&reference).await`)")]
    WouldBlock {
        /// The reference.
        id: NamedRef,
    },
    /// The wait is refused, because many remote functions of this process wait already.
    #[error(
        "{id} was not fetched: {limit} functions of this process wait already (help: write `async fn` and `.await`)"
    )]
    TooManyBlocked {
        /// The reference.
        id: NamedRef,
        /// The number of functions of a process that may wait at a time.
        limit: usize,
    },
    /// The question could not be sent.
    #[error("{id} cannot be fetched from {owner}: {reason}")]
    Unreachable {
        /// The reference.
        id: NamedRef,
        /// The owner.
        owner: ProcessName,
        /// The reason.
        reason: String,
    },
}

selvedge_channels::debug_is_report!(FetchError);

impl FetchError {
    /// The user's own error, if the function that was to make the value returned one of type `E`.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            FetchError::Failed { failure, .. } => failure.downcast_ref(),
            _ => None,
        }
    }
}

/// The death by which an object was lost.
/// A reference in the arguments of a call whose value is lost.
#[derive(Debug, thiserror::Error)]
#[error("a reference in them is lost: {}", of_dead_owner(owner, end.as_deref()))]
pub(crate) struct LostArgument {
    pub(crate) owner: ProcessName,
    pub(crate) end: Option<Arc<ProcessEnd>>,
}

fn of_dead_owner(owner: &ProcessName, end: Option<&ProcessEnd>) -> String {
    match end {
        Some(end) => format!("its owner, {owner}, has died: {end}"),
        None => format!("its owner, {owner}, or the process that passed it on, has died"),
    }
}
