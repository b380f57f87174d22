//! Letters about memory of a store. That an object is sealed is said in the letter that makes the reference to it, and where an object
//! lies in the answer to a fetch: `../reference/fetch.rs`.

use selvedge_channels::SegmentId;
use selvedge_cluster::frame::Service;
use selvedge_objects::store::{Extent, StoreError, StoreId};
use serde::{Deserialize, Serialize};

/// The service of stores.
pub(crate) const STORES: Service = Service(20);

/// The head of a letter of [`STORES`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreMessage {
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
