//! Handles, which the table counts.

use std::fmt;
use std::sync::{Arc, OnceLock};

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_objects::refs::RefId;

use super::content::AnyShared;
use super::table::References;

/// One handle of this process's table. Its drop tells the table.
pub(crate) struct Handle {
    id: RefId,
    /// `None` for a made-up reference, which only a trial of a type's `Deserialize` sees.
    table: Option<Arc<References>>,
    /// The value, once it was fetched from another process.
    fetched: OnceLock<AnyShared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Handle {
    /// Takes over a handle that the table has counted already.
    pub(super) fn counted(id: RefId, table: &Arc<References>) -> Arc<Self> {
        Arc::new(Handle {
            id,
            table: Some(Arc::clone(table)),
            fetched: OnceLock::new(),
        })
    }

    /// A made-up reference, which refers to nothing.
    pub(super) fn made_up() -> Arc<Self> {
        let peer = Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(0),
        };
        let id = RefId {
            owner: peer,
            creator: peer,
            number: 0,
        };
        Arc::new(Handle {
            id,
            table: None,
            fetched: OnceLock::new(),
        })
    }

    pub(crate) fn id(&self) -> RefId {
        self.id
    }

    /// The table, unless the reference is made up.
    pub(super) fn table(&self) -> Option<&Arc<References>> {
        self.table.as_ref()
    }

    /// The table, if the value lives in this process.
    pub(super) fn owner_table(&self) -> Option<&Arc<References>> {
        self.table().filter(|table| table.me() == self.id.owner)
    }

    /// The value that was fetched by way of this handle.
    pub(super) fn fetched(&self) -> Option<&AnyShared> {
        self.fetched.get()
    }

    /// Keeps a fetched value; returns the one that is kept, which another thread may have fetched first.
    pub(super) fn keep(&self, value: AnyShared) -> AnyShared {
        Arc::clone(self.fetched.get_or_init(|| value))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(table) = &self.table {
            table.dropped(self.id);
        }
    }
}
