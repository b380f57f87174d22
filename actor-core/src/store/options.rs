//! Sizes of a store, and the folder for spilled objects.

use std::path::PathBuf;

use selvedge_channels::{Provider, Segment};
use serde::{Deserialize, Serialize};

/// The share of the memory that a process may have at most which a store has by default: 3/10.
const SHARE: (u64, u64) = (3, 10);

/// Sizes of the object store, and the folder for spilled objects: [`Runtime::store`](crate::Runtime::store).
///
/// By default a store has 3/10 of the memory that the tightest limit of the process allows, and spills into the folder for temporary
/// files. Memory is taken as objects come, not at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreOptions {
    bytes: Option<u64>,
    folder: Option<PathBuf>,
}

impl StoreOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        StoreOptions::default()
    }

    /// Sets the bytes of the store.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets the folder into which objects go that nobody uses, when the store is full. The file there has no name, and is gone with
    /// the process. A folder in memory (tmpfs) is no help.
    #[must_use]
    pub fn spill(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The bytes of the store.
    pub(super) fn capacity_bytes(&self) -> u64 {
        let (of, parts) = SHARE;
        self.bytes
            .unwrap_or_else(|| Segment::room_bytes(Provider::Memfd) / parts * of)
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }
}
