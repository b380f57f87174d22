//! The reasons that a remote channel gave no answer.

use std::sync::Arc;
use std::time::Duration;

use selvedge_objects::refs::RefId;

use crate::call::remote_error::RemoteError;
use crate::failure::Failure;
use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;

/// The reason that a request to a [`RemoteChannel`](crate::RemoteChannel) failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RemoteChannelError {
    /// The channel is closed, and for a taker also empty.
    #[error("the channel is closed: end the loop over its values, or make another channel ({channel})")]
    Closed {
        /// The channel.
        channel: RefId,
    },
    /// The process of the channel is dead, and the values in it are lost.
    #[error("the channel is lost, because {home} has died: {end}; make another channel ({channel})")]
    HomeLost {
        /// The channel.
        channel: RefId,
        /// The process where the channel lived.
        home: ProcessName,
        /// How that process ended.
        end: Arc<ProcessEnd>,
    },
    /// The channel does not exist: it was never made, or the process that passed it died before it was confirmed.
    #[error("there is no such channel at {}: make another channel ({channel})", channel.owner.process)]
    Gone {
        /// The channel.
        channel: RefId,
    },
    /// The channel was not made.
    #[error("no channel was made in {process}: {error}")]
    NotMade {
        /// The process.
        process: ProcessName,
        /// The reason.
        error: Box<RemoteError>,
    },
    /// The call of the function that waited was cancelled, or its deadline has passed. A value that was to be taken stays in
    /// the channel; one that was being put may be stored.
    #[error("the call that waited at the channel was cancelled: end the function ({channel})")]
    Cancelled {
        /// The channel.
        channel: RefId,
    },
    /// Too many requests of this process are open at the channel.
    #[error("{limit} requests of this process wait at the channel: wait for their answers first ({channel})")]
    TooMany {
        /// The channel.
        channel: RefId,
        /// The number that is allowed.
        limit: usize,
    },
    /// The value, or a reference in it, cannot be encoded, passed or decoded. A value for which that lasts counts as taken.
    #[error("a value of the channel cannot be passed: {failure} ({channel})")]
    Unreadable {
        /// The channel.
        channel: RefId,
        /// The failure.
        failure: Failure,
    },
    /// The request could not be sent.
    #[error("the channel in {home} was not sent the request: {reason} ({channel})")]
    Unreachable {
        /// The channel.
        channel: RefId,
        /// The process where the channel lives.
        home: ProcessName,
        /// The reason.
        reason: String,
    },
    /// The request was not answered in time, and is cancelled. A value that was being put may be in the channel.
    #[error(
        "no answer of the channel within {waited:?}: it was full or empty for so long, or its process was late ({channel})"
    )]
    Timeout {
        /// The channel.
        channel: RefId,
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// An async remote function waited by blocking, which would stop all other async functions of its process. Nothing was put
    /// or taken.
    #[error("an async remote function cannot block (help: `take_async().await`, and so on; {channel})")]
    WouldBlock {
        /// The channel.
        channel: RefId,
    },
    /// The wait is refused, because many remote functions of this process wait already. Nothing was put or taken.
    #[error(
        "{limit} functions of this process wait already (help: write `async fn` and `.await`; {channel})"
    )]
    TooManyBlocked {
        /// The channel.
        channel: RefId,
        /// The number of functions of a process that may wait at a time.
        limit: usize,
    },
    /// The channel lives in another process.
    #[error("only {} can copy the values of the channel ({channel})", channel.owner.process)]
    NotHere {
        /// The channel.
        channel: RefId,
    },
    /// The runtime was shut down. A value that was being put may be in the channel.
    #[error("the channel did not answer, because the runtime was shut down ({channel})")]
    Shutdown {
        /// The channel.
        channel: RefId,
    },
}

selvedge_channels::debug_is_report!(RemoteChannelError);

impl RemoteChannelError {
    /// Whether the channel is closed, and for a taker also empty: the end of a loop, and no failure.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, RemoteChannelError::Closed { .. })
    }
}
