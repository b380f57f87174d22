//! The messages of a handshake.

use serde::{Deserialize, Serialize};

use super::HandshakeError;
use crate::peer::Peer;

/// The part that a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The process that decides who is a member.
    Head,
    /// A process that runs functions and actors.
    Worker,
    /// A job that has joined.
    Driver,
}

/// The first message of a process, about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol, [`Hello::PROTOCOL`].
    pub protocol: u16,
    /// The name of the cluster.
    pub cluster: String,
    /// The build of the executable.
    pub build: String,
    /// The hash of the registered functions and actors with their signatures.
    pub registry: u64,
    /// The part that the process plays.
    pub role: Role,
    /// The process and its incarnation; `None` if it wants to be given a number.
    pub peer: Option<Peer>,
    /// The process that the dialer wants to reach; `None` if whoever listens there will do. A head names a new worker by it.
    pub to: Option<Peer>,
    /// Random bytes, new for each handshake.
    pub nonce: [u8; 32],
}

impl Hello {
    /// The version of the protocol of this build.
    pub const PROTOCOL: u16 = 1;

    /// The hello of a process that has no number and dials nobody in particular. Each handshake takes a nonce of its own instead of
    /// these zeros.
    pub fn new(cluster: impl Into<String>, build: impl Into<String>, registry: u64, role: Role) -> Self {
        Hello {
            protocol: Self::PROTOCOL,
            cluster: cluster.into(),
            build: build.into(),
            registry,
            role,
            peer: None,
            to: None,
            nonce: [0; 32],
        }
    }

    /// Holds another process's hello against this process's own.
    pub(super) fn check(&self, other: &Hello) -> Result<(), HandshakeError> {
        if self.cluster != other.cluster {
            return Err(HandshakeError::Cluster {
                ours: self.cluster.clone(),
                theirs: other.cluster.clone(),
            });
        }
        if (&self.build, self.registry) != (&other.build, other.registry) {
            return Err(HandshakeError::Build {
                ours: format!("{} ({:016x})", self.build, self.registry),
                theirs: format!("{} ({:016x})", other.build, other.registry),
            });
        }
        Ok(())
    }
}

/// The listener's message to a process that it admits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The name of the process that has dialled.
    pub you: Peer,
    /// The name of the listener.
    pub me: Peer,
    /// Bytes of the listener for the dialer, at most [`NOTE_BYTES_MAX`](super::NOTE_BYTES_MAX).
    pub note: Vec<u8>,
}

/// A message of the handshake.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    Hello(Hello),
    /// The dialer knows the cookie.
    Proof([u8; 32]),
    /// An encoded [`Welcome`], and the proof that the listener knows the cookie and has said this.
    Welcome(Vec<u8>, [u8; 32]),
}
