//! Changes of the membership, as the head tells them to all members.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::peer::{Peer, ProcessId};

/// One change of the membership. All members are told of all changes, in the order of their epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Notice {
    /// The number of the change, from 1.
    pub epoch: u64,
    /// The member.
    pub peer: Peer,
    /// The change.
    pub change: Change,
}

/// A change of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Change {
    /// The incarnation is a member from now on.
    Joined,
    /// The incarnation is dead, and no member from now on.
    Died(WhyDead),
}

/// The reason why the head has declared an incarnation dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WhyDead {
    /// The process has ended, as the system of its host says.
    Ended,
    /// The link was lost, and the process's address refuses another one.
    Refused,
    /// Nothing was heard of it for this time. It may still run, and nobody listens to it any more.
    Silent(Duration),
    /// The agent of its host is dead.
    WithAgent(ProcessId),
    /// A removal from the cluster.
    Removed,
}

impl fmt::Display for WhyDead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyDead::Ended => f.write_str("its process has ended"),
            WhyDead::Refused => f.write_str("its link was lost, and its address refuses another one"),
            WhyDead::Silent(time) => write!(f, "nothing was heard of it for {time:?}"),
            WhyDead::WithAgent(agent) => write!(f, "{agent}, the agent of its host, is dead"),
            WhyDead::Removed => f.write_str("it was removed"),
        }
    }
}
