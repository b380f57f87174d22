//! Errors of sessions.

use thiserror::Error;

use crate::peer::Peer;

/// The reason why a session refuses a link or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A link leads to another incarnation than the session's.
    #[error("the link leads to {found}, and this session is with {expected}: end it, and begin another one")]
    OtherPeer {
        /// The peer of the session.
        expected: Peer,
        /// The peer at the other end of the link.
        found: Peer,
    },
    /// The peer acknowledges a message that was never handed to a link.
    #[error(
        "message {acknowledged} is acknowledged, and {sent} were sent: the peer violates the protocol; close the link"
    )]
    NeverSent {
        /// The acknowledged sequence number.
        acknowledged: u64,
        /// The highest sequence number that was handed to a link.
        sent: u64,
    },
    /// The peer sends more messages than the window allows.
    #[error(
        "message {sequence} lies beyond {limit}, the end of the window: the peer violates the protocol; close the link"
    )]
    BeyondWindow {
        /// The sequence number of the message.
        sequence: u64,
        /// The last sequence number that the window allows.
        limit: u64,
    },
    /// An ordered message has sequence number 0, which stands for no message.
    #[error("an ordered message without a sequence number: the peer violates the protocol; close the link")]
    NoSequence,
}

/// The window is full; the message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{frames} messages of {bytes} bytes wait for their acknowledgement: send again when one is settled")]
pub struct WindowFull<M> {
    /// The message that was not sent.
    pub message: M,
    /// The number of unacknowledged messages.
    pub frames: usize,
    /// The bytes of these messages.
    pub bytes: usize,
}
