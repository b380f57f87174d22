//! Events, which happen to a store, and actions, which its host agent has to perform.

use selvedge_cluster::id_map::IdKey;
use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::extents::Extent;

/// The name of an object in its store. A store never uses a name twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub u64);

impl IdKey for StoreId {
    type Number = u128;

    const BITS: u32 = u64::BITS;

    fn number(self) -> u128 {
        self.0.into()
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreEvent {
    /// A process needs memory for an object: [`StoreAction::Lend`] or [`StoreAction::Refuse`] answers.
    Reserve {
        /// The name of the question.
        request: u64,
        /// The process.
        by: Peer,
        /// The length of the object.
        bytes: u64,
    },
    /// The process that has borrowed the memory has filled it: the object does not change any more.
    Seal {
        /// The process.
        by: Peer,
        /// The object.
        object: StoreId,
    },
    /// The process gives the memory back unsealed.
    Abort {
        /// The process.
        by: Peer,
        /// The object.
        object: StoreId,
    },
    /// A process wants to read an object: [`StoreAction::Grant`] or [`StoreAction::Refuse`] answers.
    Open {
        /// The name of the question.
        request: u64,
        /// The process.
        by: Peer,
        /// The object.
        object: StoreId,
    },
    /// A process wants a part of an object, wherever the object lies, and waits for no memory: [`StoreAction::Grant`],
    /// [`StoreAction::ReadBack`] or [`StoreAction::Refuse`] answers.
    Read {
        /// The name of the question.
        request: u64,
        /// The process.
        by: Peer,
        /// The object.
        object: StoreId,
        /// The first byte.
        offset: u64,
        /// The number of bytes. They lie in the object.
        bytes: u64,
    },
    /// A process has dropped its last view by way of a grant.
    Close {
        /// The process.
        by: Peer,
        /// The object.
        object: StoreId,
        /// The grant.
        grant: u64,
    },
    /// The last reference to the object is gone. Its memory is given back with the last pin.
    Free {
        /// The object.
        object: StoreId,
    },
    /// Whether the owner can make the object again: then it is dropped if it is to be spilled and the file does not take it.
    Remakeable {
        /// The object.
        object: StoreId,
        /// Whether the owner can.
        is_remakeable: bool,
    },
    /// A spill has ended.
    Spilled {
        /// The object.
        object: StoreId,
        /// The attempt, as [`StoreAction::Spill`] names it.
        attempt: u64,
        /// Whether the file has the object.
        result: Result<(), StoreError>,
    },
    /// A restore has ended.
    Restored {
        /// The object.
        object: StoreId,
        /// The attempt, as [`StoreAction::Restore`] names it.
        attempt: u64,
        /// Whether the memory has the object, with the right checksum.
        result: Result<(), StoreError>,
    },
    /// The pages of an extent went back to the system.
    Punched(Extent),
    /// A process counts as dead: no letter of it follows, and what it waits for is refused. It may still run for a while.
    Dead(Peer),
    /// A process has ended. Once it counts as dead too, its pins end and its unsealed memory goes back, in one step.
    Ended(Peer),
}

/// Something that has to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreAction {
    /// Lend memory to whoever asked. The borrower reserves the pages of `bare` before it writes.
    Lend {
        /// The name of the question.
        request: u64,
        /// The object that is to be made.
        object: StoreId,
        /// The memory.
        extent: Extent,
        /// The parts of it that have no pages yet.
        bare: Vec<Extent>,
    },
    /// Tell whoever asked that there is nothing for it.
    Refuse {
        /// The name of the question.
        request: u64,
        /// The reason.
        error: StoreError,
    },
    /// Tell whoever asked where the object lies. The object is pinned already, until [`StoreEvent::Close`] with this grant.
    Grant {
        /// The name of the question.
        request: u64,
        /// The object.
        object: StoreId,
        /// The number of the pin.
        grant: u64,
        /// The memory.
        extent: Extent,
        /// The length of the object.
        bytes: u64,
    },
    /// Write the object to the file: [`StoreEvent::Spilled`] follows. Spills, restores, reads and discards of a file are done one
    /// after the other, in the order of the steps that have asked for them.
    Spill {
        /// The object.
        object: StoreId,
        /// The name of the attempt.
        attempt: u64,
        /// The memory.
        from: Extent,
        /// The place in the file.
        to: Extent,
        /// The length of the object.
        bytes: u64,
    },
    /// Read the object from the file into memory, after the pages of `bare` are reserved: [`StoreEvent::Restored`] follows.
    Restore {
        /// The object.
        object: StoreId,
        /// The name of the attempt.
        attempt: u64,
        /// The place in the file.
        from: Extent,
        /// The memory.
        to: Extent,
        /// The parts of it that have no pages yet.
        bare: Vec<Extent>,
        /// The length of the object.
        bytes: u64,
    },
    /// Read a part of the object from the file, and give it to whoever asked. It is read in the order of the steps, as spills are written.
    ReadBack {
        /// The name of the question.
        request: u64,
        /// The object.
        object: StoreId,
        /// The place of the whole object in the file.
        from: Extent,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// Give the pages of memory back to the system: [`StoreEvent::Punched`] follows. The extent is lent to nobody until then.
    Punch(Extent),
    /// Give a part of the file back.
    Discard(Extent),
}
