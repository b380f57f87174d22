//! Handles, which the table counts.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_objects::refs::RefId;
use selvedge_objects::store::StoreError;

use super::content::{AnyShared, Content, ObjectValue};
use super::fetch::{Fetched, Wish};
use super::view::View;
use crate::body::Body;
use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;
use crate::promise::Answer;

/// The table of this process, as handles see it.
pub(super) trait ReferenceTable: Send + Sync {
    /// The name of this process.
    fn me(&self) -> Peer;

    /// A process, as errors name it.
    fn name(&self, process: ProcessId) -> ProcessName;

    /// How the life of a process has ended, if that is known.
    fn end(&self, life: Peer) -> Option<Arc<ProcessEnd>>;

    /// Whether the process ends: it has let go of its references.
    fn is_stopped(&self) -> bool;

    /// A handle was dropped.
    fn dropped(self: Arc<Self>, id: RefId);

    /// The content of an object of this process, as soon as there is one.
    fn content(&self, id: RefId) -> Answer<Content>;

    /// The content of an object of this process, if there is one.
    fn content_now(&self, id: RefId) -> Option<Content>;

    /// A store has refused the bytes of this value of an object of this process, for this reason. Returns whether the value is lost: then
    /// whoever asks for the object again gets the one in its place.
    fn refused(self: Arc<Self>, id: RefId, value: &ObjectValue, error: &StoreError) -> bool;

    /// Asks the owner about the value of an object.
    fn ask(self: Arc<Self>, id: RefId, wish: Wish) -> Answer<Fetched>;

    /// Sets the content of an object of this process; false if it has some, or was freed.
    fn set(self: Arc<Self>, id: RefId, value: ObjectValue) -> bool;

    /// Asks the owner to set the value of an object.
    fn ask_to_set(
        self: Arc<Self>,
        object: Arc<Handle>,
        value: Body,
        references: Vec<Arc<Handle>>,
    ) -> Answer<Fetched>;

    /// Sends what waits to be said to the owner of an object.
    fn flush(self: Arc<Self>, id: RefId);

    /// The service whose objects the table counts, unless the process ends; this module does not know its type.
    fn above(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// Whether the owner has listed this process, as soon as that is known; false if the object is lost.
    fn confirmation(&self, id: RefId) -> Answer<bool>;
}

/// One handle of this process's table. Its drop tells the table.
pub(crate) struct Handle {
    id: RefId,
    /// `None` for a made-up reference, which only a trial of a type's `Deserialize` sees.
    table: Option<Arc<dyn ReferenceTable>>,
    /// The value, once it was fetched from another process.
    fetched: OnceLock<AnyShared>,
    /// A value that lies in a store and was fetched from there, for as long as somebody has it.
    view: View,
    /// The encoded value, if it is short and holds no references: it travels along where the reference is passed.
    encoded: OnceLock<Bytes>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Handle {
    /// Takes over a handle that the table has counted already.
    pub(super) fn counted(id: RefId, table: Arc<dyn ReferenceTable>) -> Arc<Self> {
        Arc::new(Handle {
            id,
            table: Some(table),
            fetched: OnceLock::new(),
            view: View::default(),
            encoded: OnceLock::new(),
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
            view: View::default(),
            encoded: OnceLock::new(),
        })
    }

    pub(crate) fn id(&self) -> RefId {
        self.id
    }

    /// The table, unless the reference is made up.
    pub(super) fn table(&self) -> Option<&Arc<dyn ReferenceTable>> {
        self.table.as_ref()
    }

    /// The table, if the value lives in this process.
    pub(super) fn owner_table(&self) -> Option<&Arc<dyn ReferenceTable>> {
        self.table().filter(|table| table.me() == self.id.owner)
    }

    /// Whether this process has let go of its references, since it ends.
    pub(super) fn is_stopped(&self) -> bool {
        self.table().is_some_and(|table| table.is_stopped())
    }

    /// Whether the object lives in this process.
    pub(crate) fn is_owned(&self) -> bool {
        self.owner_table().is_some()
    }

    /// The service whose objects the table counts, unless the process ends or the reference is made up.
    pub(crate) fn above(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.table()?.above()
    }

    /// The value that was fetched by way of this handle.
    pub(super) fn fetched(&self) -> Option<&AnyShared> {
        self.fetched.get()
    }

    /// The value in the store that was fetched by way of this handle, if somebody has it.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// The encoded value, if it is short.
    pub(super) fn encoded(&self) -> Option<&Bytes> {
        self.encoded.get()
    }

    /// Whether the value is here: it was fetched, or has come along with the reference.
    pub(super) fn has_value(&self) -> bool {
        self.fetched().is_some() || self.encoded().is_some()
    }

    /// Keeps an encoded value. An owner has the value itself.
    pub(super) fn keep_encoded(&self, value: Bytes) {
        if self.owner_table().is_none() {
            let _ = self.encoded.set(value);
        }
    }

    /// Keeps a fetched value; returns the one that is kept, which another thread may have fetched first.
    pub(super) fn keep(&self, value: AnyShared) -> AnyShared {
        Arc::clone(self.fetched.get_or_init(|| value))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            table.dropped(self.id);
        }
    }
}
