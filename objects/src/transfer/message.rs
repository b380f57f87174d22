//! Messages between owners and host agents, and what a step wants done.

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use super::name::{CopyAt, CopyFacts, CopyName};
use crate::store::StoreError;

/// A message about an object. It may overtake another one; none is lost between two that live, and none comes twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TransferMessage {
    /// To the owner: who has a copy? The asker has none.
    Seek {
        /// The object.
        name: CopyName,
        /// The asker's number for the attempt, larger than all before.
        attempt: u64,
    },
    /// From the owner: these have a copy.
    Sources {
        /// The object.
        name: CopyName,
        /// The attempt.
        attempt: u64,
        /// The length and the checksum.
        facts: CopyFacts,
        /// The copies.
        sources: Vec<CopyAt>,
    },
    /// From the owner: nobody has a copy, or it is out of reach for the moment.
    Unfound {
        /// The object.
        name: CopyName,
        /// The attempt.
        attempt: u64,
        /// The reason.
        why: StoreError,
    },
    /// To a source: send this chunk. An asker has a few such questions open, which are its credits.
    Get {
        /// The object.
        name: CopyName,
        /// The attempt.
        attempt: u64,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// From a source: the chunk, in the body.
    Chunk {
        /// The object.
        name: CopyName,
        /// The attempt.
        attempt: u64,
        /// The first byte.
        offset: u64,
    },
    /// From a source: it has no copy that can be read.
    Unread {
        /// The object.
        name: CopyName,
        /// The attempt.
        attempt: u64,
    },
    /// To the owner: the sender has a sealed copy.
    Copied {
        /// The object.
        name: CopyName,
        /// The attempt that it came by.
        attempt: u64,
    },
    /// To the owner: the sender has lost the copy that came by this attempt.
    Dropped {
        /// The object.
        name: CopyName,
        /// The attempt.
        attempt: u64,
    },
    /// From the owner: nobody has a reference any more. The copy goes, or the pull ends.
    Forget {
        /// The object.
        name: CopyName,
    },
    /// To the owner: the process that has filled this copy is dead. Is the object known?
    Orphan {
        /// The object.
        name: CopyName,
    },
    /// From the owner: the object that the receiver has a copy of is known.
    Claim {
        /// The object.
        name: CopyName,
    },
}

/// Something that has to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TransferAction {
    /// Send a message. One to this process itself goes to its other side.
    Send {
        /// The receiver.
        to: Peer,
        /// The message.
        message: TransferMessage,
    },
    /// Cut off a process that sends what no lawful one does.
    Cut {
        /// The process.
        peer: Peer,
        /// The reason.
        why: &'static str,
    },
    /// Compute the checksum of this process's own copy: [`CopyList::measured`](super::CopyList::measured) follows.
    Measure {
        /// The object.
        name: CopyName,
    },
    /// The last copy of an object that has references is lost.
    Lost {
        /// The object.
        name: CopyName,
    },
    /// Get memory for an object: [`Pulls::lent`](super::Pulls::lent) or [`Pulls::unlent`](super::Pulls::unlent) follows.
    Reserve {
        /// The object.
        name: CopyName,
        /// The number of the pull.
        pull: u64,
        /// The length.
        bytes: u64,
    },
    /// The memory has all bytes, and their checksum is right: seal the object.
    Seal {
        /// The object.
        name: CopyName,
        /// The number of the pull.
        pull: u64,
    },
    /// The memory of a pull goes back. A chunk that is being written into it is written to its end before.
    Abort {
        /// The object.
        name: CopyName,
        /// The number of the pull.
        pull: u64,
    },
    /// Give the copy up.
    Drop {
        /// The object.
        name: CopyName,
    },
    /// Tell whoever asked that the object is in the store of this host.
    Grant {
        /// The name of the question.
        request: u64,
        /// The object.
        name: CopyName,
    },
    /// Tell whoever asked that the object does not come.
    Refuse {
        /// The name of the question.
        request: u64,
        /// The reason.
        error: StoreError,
    },
}
