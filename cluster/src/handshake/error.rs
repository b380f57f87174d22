//! Errors of the handshake.

use thiserror::Error;

use crate::frame::FrameError;

/// The reason why a link is refused. The peer is told nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The bytes are no frames within the limits.
    #[error("the peer does not speak the handshake: {0}")]
    Frame(FrameError),
    /// The peer sent more before its proof than is read.
    #[error("the peer sent more than 4 KiB before its proof: does another program use this address?")]
    TooMuch,
    /// The handshake was not over in time.
    #[error("the handshake took 5 s: is the peer stopped, or the network cut?")]
    TooLate,
    /// A message that does not come at this point.
    #[error(
        "a message that does not belong to this point of the handshake: does the peer run another build?"
    )]
    Unexpected,
    /// The note of a welcome has more than [`NOTE_BYTES_MAX`](super::NOTE_BYTES_MAX) bytes.
    #[error("a welcome has a note of {0} bytes: make it at most {max} bytes long", max = super::NOTE_BYTES_MAX)]
    LongNote(usize),
    /// The process has dialled itself.
    #[error("the process has dialled itself: check the address")]
    Itself,
    /// The peer speaks another version of the protocol.
    #[error(
        "the peer speaks version {theirs} of the protocol, and this process version {ours}: run one build everywhere"
    )]
    Protocol {
        /// The version here.
        ours: u16,
        /// The version there.
        theirs: u16,
    },
    /// The peer does not know the cookie.
    #[error(
        "the peer does not know the cookie of this cluster: give both the same one, by file, environment or stdin; if they have it, somebody between reads the link"
    )]
    WrongCookie,
    /// The peer belongs to another cluster.
    #[error("the peer belongs to the cluster `{theirs}`, and this process to `{ours}`: check the address")]
    Cluster {
        /// The cluster here.
        ours: String,
        /// The cluster there.
        theirs: String,
    },
    /// The peer runs another build.
    #[error("the peer runs build {theirs}, and this process {ours}: copy one executable to all hosts")]
    Build {
        /// The build here.
        ours: String,
        /// The build there.
        theirs: String,
    },
}

impl From<FrameError> for HandshakeError {
    fn from(error: FrameError) -> Self {
        HandshakeError::Frame(error)
    }
}
