//! An object of this process in a store: that of its own host, or that of another one.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use selvedge_objects::refs::RefId;
use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::CopyName;

use super::host_store::HeldObject;
use super::message::FarObject;
use super::stores::Stores;
use crate::promise::{Answer, promise_by_letter};

/// An object that this process owns. The drop says that nobody has a reference to it any more.
pub(crate) struct PlacedObject {
    stores: Arc<Stores>,
    /// The object in the store of this process, if it was made there.
    here: Option<Arc<HeldObject>>,
    /// The name by which other hosts know the object, once one does.
    name: OnceLock<CopyName>,
}

impl PlacedObject {
    /// An object in the store of this process.
    pub(crate) fn here(stores: &Arc<Stores>, held: HeldObject) -> Self {
        PlacedObject {
            stores: Arc::clone(stores),
            here: Some(Arc::new(held)),
            name: OnceLock::new(),
        }
    }

    /// An object in the store of another host.
    pub(crate) fn elsewhere(stores: &Arc<Stores>, far: FarObject) -> Self {
        // Its author says where it lies.
        stores.transfers().note(far, stores.is_living(far.at.agent));
        PlacedObject {
            stores: Arc::clone(stores),
            here: None,
            name: OnceLock::from(far.name),
        }
    }

    /// The name by which other hosts ask for the object.
    pub(crate) fn name(&self) -> CopyName {
        *self.name.get_or_init(|| {
            let name = self.stores.next_name();
            if let Some(held) = &self.here {
                self.stores.transfers().enlist(name, Arc::clone(held));
            }
            name
        })
    }

    /// The object is the content of this reference. Only the values that lie elsewhere can be lost while this process lives.
    pub(crate) fn belongs_to(&self, id: RefId) {
        if let (None, Some(name)) = (&self.here, self.name.get()) {
            self.stores.transfers().belongs_to(*name, id);
        }
    }

    /// Whether other hosts know the object by this name.
    pub(crate) fn is_named(&self, name: CopyName) -> bool {
        self.name.get() == Some(&name)
    }

    /// Tells the store of this process, if it has the object, whether the object can be made again.
    pub(crate) fn set_remakeable(&self, is_remakeable: bool) {
        if let Some(held) = &self.here {
            held.set_remakeable(is_remakeable);
        }
    }

    /// Gets the object into the store of this process, if it is not there. `then` must not run user code.
    pub(crate) fn with_held(&self, then: impl FnOnce(Result<Arc<HeldObject>, StoreError>) + Send + 'static) {
        match &self.here {
            Some(held) => then(Ok(Arc::clone(held))),
            None => self
                .stores
                .transfers()
                .open(self.name(), self.stores.post().me(), then),
        }
    }

    /// Asks for the bytes, for this process.
    pub(crate) fn open(&self) -> Answer<Result<Bytes, StoreError>> {
        if let Some(held) = &self.here {
            return held.open_here();
        }
        let (promise, answer) = promise_by_letter(self.stores.post().lead());
        let stores = Arc::clone(&self.stores);
        self.read(move |bytes| stores.keep(promise, bytes));
        answer
    }

    /// Asks for the bytes, for a letter to another process. `then` must not run user code.
    pub(crate) fn read(&self, then: impl FnOnce(Result<Bytes, StoreError>) + Send + 'static) {
        self.with_held(move |held| match held {
            Ok(held) => held.read_here(then),
            Err(error) => then(Err(error)),
        });
    }
}

impl Drop for PlacedObject {
    fn drop(&mut self) {
        if let Some(name) = self.name.get() {
            self.stores.transfers().free(*name);
        }
    }
}
