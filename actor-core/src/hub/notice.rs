//! The driver's notices to its workers about their peers, sent over the worker's control link.

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

/// A notice about a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// The peer lives and can be asked for.
    Joined(Peer),
    /// The peer is dead, or has never lived.
    Died(Peer),
    /// The descriptor beside this message is one end of a pair; the peer has the other one.
    Linked(Peer),
    /// No pair can be made, for this reason.
    NotLinked(Peer, String),
}
