//! The driver's notices to its workers about their peers, sent over the worker's control link.

use std::fmt;

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use crate::process_name::ProcessName;

/// A notice about a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// The peer lives and can be asked for, and errors call it so. A worker is told its own name too.
    Joined(Peer, Option<ProcessName>),
    /// The peer is dead, or has never lived.
    Died(Peer),
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

/// Text that is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
