//! Errors of links.

use std::io;
use std::sync::Arc;

use thiserror::Error;

#[cfg(feature = "tls")]
use super::tls::TlsError;
use crate::handshake::HandshakeError;

/// The end of a link, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{link}: {cause}")]
pub struct LinkError {
    /// The name of the link: its transport, and who is at the other end.
    pub link: Arc<str>,
    /// The reason.
    pub cause: LinkCause,
}

/// The reason why a link has ended, or was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkCause {
    /// The transport found nobody.
    #[error("nobody answers ({text}): is the process alive, and does a firewall let the address through?")]
    Unreachable {
        /// The kind of the error.
        kind: io::ErrorKind,
        /// The words of the transport.
        text: String,
    },
    /// The transport cannot listen, or could not take a link that another process has made.
    #[error("no link can be accepted ({text}): are descriptors short (`ulimit -n`)?")]
    NotAccepted {
        /// The kind of the error.
        kind: io::ErrorKind,
        /// The words of the transport.
        text: String,
    },
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The peer said hello, and closed the link before the handshake was over.
    #[error(
        "the peer closed the link during the handshake; it says nothing about the reason, and its own error does: another cookie, cluster or build?"
    )]
    HungUp,
    /// The peer speaks TLS, and this side of the link does not.
    #[error(
        "the peer speaks TLS, and this process does not: give all processes of the cluster the transport `Tls`"
    )]
    SpeaksTls,
    /// TLS refuses the link.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A younger link took the place of this one.
    #[error(
        "too many links wait for their handshake, and the oldest was closed: does another program use this address?"
    )]
    CrowdedOut,
    /// The system has no random bytes.
    #[error("the system gives no random bytes ({0}), and no handshake is safe without them")]
    NoRandomBytes(String),
    /// The transport lost the link.
    #[error("the link is lost ({text}): has the peer died, or is the network cut?")]
    Lost {
        /// The kind of the error.
        kind: io::ErrorKind,
        /// The words of the transport.
        text: String,
    },
}

impl LinkCause {
    /// The error of the link with this name.
    pub(super) fn of(self, link: &Arc<str>) -> LinkError {
        LinkError {
            link: link.clone(),
            cause: self,
        }
    }

    pub(super) fn unreachable(error: &io::Error) -> Self {
        Self::of_tls(error).unwrap_or_else(|| LinkCause::Unreachable {
            kind: error.kind(),
            text: error.to_string(),
        })
    }

    pub(super) fn not_accepted(error: &io::Error) -> Self {
        LinkCause::NotAccepted {
            kind: error.kind(),
            text: error.to_string(),
        }
    }

    pub(super) fn lost(error: &io::Error) -> Self {
        Self::of_tls(error).unwrap_or_else(|| LinkCause::Lost {
            kind: error.kind(),
            text: error.to_string(),
        })
    }

    /// The cause, if TLS has refused the stream.
    #[cfg(feature = "tls")]
    fn of_tls(error: &io::Error) -> Option<Self> {
        TlsError::within(error).map(LinkCause::Tls)
    }

    #[cfg(not(feature = "tls"))]
    fn of_tls(_: &io::Error) -> Option<Self> {
        None
    }
}
