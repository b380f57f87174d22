//! The decisions of a head.

use selvedge_cluster::peer::{Incarnation, Peer};
use selvedge_objects::names::NameChange;
use serde::{Deserialize, Serialize};

use super::state::HeadState;

/// The part that a member plays, which decides whether it outlives the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MemberPart {
    /// A worker that has dialled in: it dials the next life of the head.
    Guest,
    /// A job, which ends with the head.
    Job,
}

/// A decision of the head. It is in the log before anybody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HeadRecord {
    /// All decisions so far, of which only the outcome matters.
    Summary(HeadState),
    /// The next life of the head begins.
    Began(Incarnation),
    /// A new process is a member, under this name in errors.
    Joined {
        peer: Peer,
        part: MemberPart,
        name: String,
    },
    /// A member is on this host.
    Located { peer: Peer, host: String },
    /// A member is dead.
    Died(Peer),
    /// An object has a name, or has it no more.
    Name(NameChange),
}
