//! The names of what a shutdown leaves.

use std::fmt;

use selvedge_cluster::peer::Peer;

use super::{Fork, RefId};

/// Something that is left when the time for a shutdown is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leak {
    /// A process is still listed for an object here.
    Listed {
        /// The reference.
        id: RefId,
        /// The process that is listed.
        user: Peer,
        /// The registration.
        fork: Fork,
    },
    /// The owner has not confirmed a reference of this process.
    Unconfirmed(RefId),
    /// A process to which a reference was passed has not accepted it.
    Unaccepted {
        /// The reference.
        id: RefId,
        /// The process that got the reference.
        child: Peer,
        /// The number of the fork.
        fork: u64,
    },
    /// A process has not answered this process's last questions about references.
    Unanswered {
        /// The process that was asked.
        peer: Peer,
        /// The number of the questions.
        questions: usize,
    },
}

impl Leak {
    /// The reference; `None` for questions without an answer, which may be about several.
    pub fn id(&self) -> Option<RefId> {
        match *self {
            Leak::Listed { id, .. } | Leak::Unconfirmed(id) | Leak::Unaccepted { id, .. } => Some(id),
            Leak::Unanswered { .. } => None,
        }
    }

    /// The process that holds the reference, or owes an answer.
    pub fn peer(&self) -> Peer {
        match *self {
            Leak::Listed { user, .. } => user,
            Leak::Unconfirmed(id) => id.owner,
            Leak::Unaccepted { child, .. } => child,
            Leak::Unanswered { peer, .. } => peer,
        }
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leak::Listed { id, user, fork } => {
                write!(f, "{user} holds {id} under {fork}: let it drop its handles")
            }
            Leak::Unconfirmed(id) => write!(f, "{} has not confirmed {id}: see whether it runs", id.owner),
            Leak::Unaccepted { id, child, fork } => {
                write!(
                    f,
                    "{child} has not accepted fork {fork} of {id}: see whether it runs"
                )
            }
            Leak::Unanswered { peer, questions } => {
                write!(
                    f,
                    "{peer} has not answered {questions} questions about references: see whether it runs"
                )
            }
        }
    }
}
