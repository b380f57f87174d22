//! Errors of channels.

use selvedge_cluster::peer::Peer;
use thiserror::Error;

/// The reason why a request to a channel has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The channel is closed, and for a taker also empty.
    #[error("the channel at {0} is closed: end the loop over its values, or make another channel")]
    Closed(Peer),
    /// The process of the channel is dead.
    #[error("the channel at {0} is lost, since that process is dead: make another channel")]
    HomeLost(Peer),
    /// Too many requests of this process are open at the channel.
    #[error(
        "{limit} requests of this process are open at the channel at {home}: wait for their answers, acknowledge what was \
         taken, or raise `ChannelSettings::requests_max`"
    )]
    TooMany {
        /// The process of the channel.
        home: Peer,
        /// The number that is allowed.
        limit: usize,
    },
}

/// A value that was not put; it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the value was not put: {reason}")]
pub struct NotPut<V> {
    /// The value.
    pub value: V,
    /// The reason.
    pub reason: ChannelError,
}
