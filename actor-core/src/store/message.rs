//! Letters about memory of a store. That an object is sealed is said in the letter that makes the reference to it, and where an object
//! lies in the answer to a fetch: `../reference/fetch.rs`.

use selvedge_channels::SegmentId;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::Peer;
use selvedge_objects::store::{Extent, StoreError, StoreId};
use selvedge_objects::transfer::{CopyAt, CopyFacts, CopyName};
use serde::{Deserialize, Serialize};

use super::options::StoreOptions;
use crate::body::Body;
use crate::hub::post::Letter;

/// The service of stores.
pub(crate) const STORES: Service = Service(20);

/// The service of copies on their way between stores: [`selvedge_objects::transfer::TransferMessage`].
pub(crate) const TRANSFERS: Service = Service(21);

/// The head of a letter of [`STORES`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StoreMessage {
    /// Asks the agent for memory.
    Reserve {
        /// The asker's name for the question.
        question: u64,
        /// The length of the object.
        bytes: u64,
    },
    /// The agent lends memory.
    Lent {
        /// The asker's name for the question.
        question: u64,
        /// The memory.
        lent: LentSpot,
    },
    /// The agent has no memory.
    Refused {
        /// The asker's name for the question.
        question: u64,
        /// The reason.
        error: StoreError,
    },
    /// Asks the process that made the runtime which process is the agent of a host.
    FindAgent {
        /// The host.
        host: String,
    },
    /// The agent of the receiver's host, and the sizes of its store.
    Agent {
        /// The agent.
        agent: Peer,
        /// The sizes.
        options: StoreOptions,
    },
    /// The sender is a process of the receiver's host, and uses its store. The receiver watches its end.
    Enter {
        /// The number of the process.
        pid: u32,
    },
    /// Asks the agent for an object that the sender has a reference to.
    Open {
        /// The asker's name for the question.
        question: u64,
        /// The object.
        name: CopyName,
        /// The owner of the object.
        owner: Peer,
    },
    /// The object lies here, and the receiver has a pin on it.
    Granted {
        /// The asker's name for the question.
        question: u64,
        /// The place.
        spot: ObjectSpot,
    },
    /// Seals an object that the sender has filled for an owner on another host.
    Fill {
        /// The asker's name for the question.
        question: u64,
        /// The object in the store.
        object: StoreId,
        /// The number that the sender gives the object.
        number: u64,
        /// The owner to be.
        owner: Peer,
    },
    /// The object is sealed.
    Filled {
        /// The asker's name for the question.
        question: u64,
        /// The copy.
        at: CopyAt,
    },
    /// The owner was not told of an object that the sender has filled.
    Abandon {
        /// The number that the sender has given it.
        number: u64,
    },
    /// The memory goes back unsealed.
    Abort {
        /// The object.
        object: StoreId,
    },
    /// The last view by way of a grant is gone.
    Close {
        /// The object.
        object: StoreId,
        /// The grant.
        grant: u64,
    },
}

impl StoreMessage {
    pub(super) fn letter(&self) -> Letter {
        Letter::new(STORES, Class::Ordered, self, Body::EMPTY)
    }
}

/// An object that was filled in the store of another host than its owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FarObject {
    /// The object.
    pub(crate) name: CopyName,
    /// The length and the checksum.
    pub(crate) facts: CopyFacts,
    /// The copy.
    pub(crate) at: CopyAt,
}

/// Memory that is to be filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LentSpot {
    /// The object.
    pub(super) object: StoreId,
    /// The memory of the store.
    pub(super) memory: SegmentId,
    /// The part of it.
    pub(super) extent: Extent,
    /// The parts of that which have no pages yet.
    pub(super) bare: Vec<Extent>,
}

/// The place of an object that a process may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectSpot {
    /// The object.
    pub(super) object: StoreId,
    /// The pin.
    pub(super) grant: u64,
    /// The memory of the store.
    pub(super) memory: SegmentId,
    /// The first byte.
    pub(super) offset: u64,
    /// The length.
    pub(super) bytes: u64,
}
