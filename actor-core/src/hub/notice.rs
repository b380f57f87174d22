//! The driver's notices to its workers about their peers, sent over the worker's control link.

use std::fmt;
use std::hint::black_box;

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;

/// A notice about a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// The peer lives and can be asked for, and errors call it so. A worker is told its own name too.
    Joined(Peer, Option<ProcessName>),
    /// The peer is a job, which lives and takes no work.
    Job(Peer, Option<ProcessName>),
    /// The worker was told to end: calls that name no process go to others.
    Leaves(Peer),
    /// The peer is dead, by this end, or has never lived.
    Died(Peer, ProcessEnd),
    /// Of the processes with numbers below this one, these are all that live: the rest has died while this worker had no head.
    Survivors { below: u32, living: Vec<Peer> },
    /// The descriptors beside this message are one end of a pair; the peer has the other one.
    Linked(Peer),
    /// No link can be made, for this reason.
    NotLinked(Peer, String),
    /// Make the link, by dialling the peer: it is on another host, or this worker is.
    Dial {
        peer: Peer,
        /// The place where the peer listens, for the transport.
        connect_at: String,
        /// The cookie and the credentials for the link, for a worker that has not got them otherwise.
        keys: Option<Secret>,
    },
}

/// Bytes that are not shown, and whose memory is overwritten when they are dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl Secret {
    fn wipe(&mut self) {
        self.0.fill(0);
        // The zeros count as read, so the compiler writes them.
        black_box(&self.0);
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_and_its_memory_is_overwritten() {
        let mut secret = Secret(b"abc".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        secret.wipe();
        assert_eq!(secret.0, [0; 3]);
    }
}
