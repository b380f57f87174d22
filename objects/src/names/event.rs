//! Events, which the table of names hears of, and actions, which its head has to perform.

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use super::{NamedObject, NamingId};
use crate::refs::RefId;

/// Something that has happened. A question is the asker's number, and comes back with the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NameEvent {
    /// A process wants an object to have a name.
    Name {
        /// The process.
        from: Peer,
        /// The number of the question there.
        question: u64,
        /// The name.
        name: String,
        /// The name of the type of the value.
        type_name: String,
        /// The object.
        id: RefId,
    },
    /// A process wants to know the object that has a name.
    Find {
        /// The process.
        from: Peer,
        /// The number of the question there.
        question: u64,
        /// The name.
        name: String,
    },
    /// A process wants a name taken away.
    Unname {
        /// The process.
        from: Peer,
        /// The number of the question there.
        question: u64,
        /// The name.
        name: String,
    },
    /// An owner holds an object, as it was asked to, or has refused to.
    Held {
        /// The owner.
        from: Peer,
        /// The name.
        name: String,
        /// The naming.
        naming: NamingId,
        /// The reason of a refusal.
        refused: Option<String>,
    },
    /// An owner was not asked to hold an object, for this reason.
    Unasked {
        /// The object.
        object: NamedObject,
        /// The reason; `None` if the owner is dead.
        why: Option<String>,
    },
    /// A process has joined, perhaps not for the first time.
    Joined(Peer),
    /// A process that was asked with [`NameAction::Recall`] holds these objects for their names.
    Holding {
        /// The process.
        from: Peer,
        /// The objects.
        objects: Vec<NamedObject>,
    },
    /// A process is dead.
    Dead(Peer),
}

/// Something to do, in the order in which it is returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NameAction {
    /// Write a change to the log, if there is one, before anything that follows.
    Record(NameChange),
    /// Ask the owner of an object to hold it for its name.
    Hold(NamedObject),
    /// Tell an owner that an object has lost its name.
    Unhold {
        /// The owner.
        to: Peer,
        /// The naming.
        naming: NamingId,
    },
    /// Ask a process which objects it holds for their names.
    Recall {
        /// The process.
        to: Peer,
    },
    /// Answer a question.
    Answer {
        /// The asker.
        to: Peer,
        /// The number of the question there.
        question: u64,
        /// The answer.
        answer: NameAnswer,
    },
}

/// A change of the names. All changes since the beginning are the state: [`NameTable::restored`](super::NameTable::restored).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NameChange {
    /// An object has a name, and its owner holds it.
    Named(NamedObject),
    /// A name was taken away, or its object's owner has died.
    Unnamed {
        /// The name.
        name: String,
    },
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NameAnswer {
    /// The name was given or taken away.
    Done,
    /// The object that has the name.
    Found(NamedObject),
    /// Nothing was done or found.
    Refused(NameRefusal),
}

/// The reason that nothing was done or found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NameRefusal {
    /// The name has no character.
    Empty,
    /// The name, or that of the type, is too long.
    TooLong {
        /// The length, in bytes.
        bytes: usize,
        /// The length that is allowed.
        limit: usize,
    },
    /// Another object has the name, or is about to have it.
    Taken {
        /// The process that has given the name to it.
        by: Peer,
    },
    /// Nothing has the name.
    Unknown {
        /// The names on both sides of it in their order: all, if there are few.
        beside: Vec<String>,
    },
    /// The owner of the object that has, had or was to have the name is dead.
    OwnerDead(Peer),
    /// The owner does not hold the object.
    Unheld {
        /// The reason.
        why: String,
    },
    /// The head has too many names.
    TooMany {
        /// The number that is allowed.
        limit: usize,
    },
}
