//! The reasons that a store refuses something.

use std::fmt;

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The memory that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreHolder {
    /// The process.
    pub process: Peer,
    /// The bytes of objects of which it has views. Several processes may have views of one object.
    pub pinned_bytes: u64,
    /// The bytes that it has borrowed for objects that are not sealed yet.
    pub unsealed_bytes: u64,
}

impl fmt::Display for StoreHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreHolder {
            process,
            pinned_bytes,
            unsealed_bytes,
        } = self;
        write!(f, "{} has views of {pinned_bytes} bytes", process.process)?;
        match unsealed_bytes {
            0 => Ok(()),
            bytes => write!(f, " and fills {bytes} bytes"),
        }
    }
}

/// The state of a store that has no room, although all that nobody uses was spilled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreFull {
    /// The bytes that were asked for.
    pub need_bytes: u64,
    /// The bytes of the whole store.
    pub capacity_bytes: u64,
    /// The bytes that are free, in several pieces if they are enough.
    pub free_bytes: u64,
    /// The processes that hold the rest.
    pub holders: Vec<StoreHolder>,
}

impl fmt::Display for StoreFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreFull {
            need_bytes,
            capacity_bytes,
            free_bytes,
            holders,
        } = self;
        write!(
            f,
            "no room for {need_bytes} bytes in a store of {capacity_bytes}, of which {free_bytes} are free in pieces and the rest is in use"
        )?;
        for (at, holder) in holders.iter().enumerate() {
            write!(f, "{} {holder}", if at == 0 { ":" } else { "," })?;
        }
        f.write_str(" (help: drop values that were fetched, or make the store larger: `StoreOptions::bytes`)")
    }
}

/// The reason that a store refuses something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoreError {
    /// All of the memory is in use.
    #[error("{0}")]
    Full(StoreFull),
    /// The object is larger than the store.
    #[error(
        "{bytes} bytes are too many for a store of {capacity_bytes} (help: make the store larger: \
         `StoreOptions::bytes`)"
    )]
    TooLarge {
        /// The length of the object.
        bytes: u64,
        /// The bytes of the whole store.
        capacity_bytes: u64,
    },
    /// The system has no memory, or refuses it.
    #[error("the system has no memory for the store: {why}")]
    Memory {
        /// The error of the system.
        why: String,
    },
    /// Objects that nobody uses cannot be written to the folder for them.
    #[error("objects cannot be spilled to {folder}: {why} (help: another folder: `StoreOptions::spill`)")]
    Spill {
        /// The folder.
        folder: String,
        /// The error of the system.
        why: String,
    },
    /// A spilled object cannot be read back, or is damaged.
    #[error("a spilled object cannot be read back: {why}")]
    Restore {
        /// The reason.
        why: String,
    },
    /// No host has a copy of the object any more that can be read: those that had one have died, or their copies are damaged.
    #[error(
        "the object is lost: no host has a copy of it any more (help: a process that dies takes the store of its host with it)"
    )]
    Lost,
    /// The owner of the object has died while its bytes came from another host.
    #[error("the object is lost: its owner has died")]
    OwnerLost,
    /// The bytes that came from another host were not those of the object.
    #[error("the bytes that came from other hosts are not those of the object")]
    Damaged,
    /// No store of its host can be used by this process.
    #[error(
        "this process can use no store: the system has no memory to share, or the agent of the host cannot be reached"
    )]
    NoStore,
    /// The object was dropped for want of room, since its owner can make it again.
    #[error("the store has dropped the object for want of room")]
    Dropped,
    /// The object is no longer there, or the store was closed.
    #[error("the store does not have the object any more")]
    Gone,
}

impl StoreError {
    /// Whether the object is lost for good, and not only out of reach for the moment.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, StoreError::Restore { .. } | StoreError::Dropped)
    }

    /// Whether the store that says so does not have the object any more: it has lost the object, or it was told to free it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_loss() || matches!(self, StoreError::Gone)
    }
}
