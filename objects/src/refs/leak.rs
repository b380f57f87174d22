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
    /// An object here was created after the shutdown had begun, or its value is awaited.
    Used(RefId),
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

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leak::Listed { id, user, fork } => {
                write!(f, "{user} holds {id} under {fork}: let it drop its handles")
            }
            Leak::Used(id) => write!(
                f,
                "{id} is used here: drop its handles, and end what waits for its value"
            ),
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
