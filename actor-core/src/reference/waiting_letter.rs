//! Letters that wait until the references beside them have come to rest.

use std::sync::Arc;

use selvedge_objects::refs::{RefError, RefId};

use super::handle::{Handle, ReferenceTable};

/// The way on for a letter once its references have come to rest: it gets them, or the reason why it is refused.
pub(super) type Then = Box<dyn FnOnce(Result<Vec<Arc<Handle>>, RefError>) + Send>;

/// A letter that waits for its references. The count has a handle for each of them, unless it refuses the letter.
pub(super) struct WaitingLetter {
    pub(super) ids: Vec<RefId>,
    pub(super) then: Then,
}

impl WaitingLetter {
    /// The letter of references that nobody waits for.
    pub(super) fn of_nobody() -> Self {
        WaitingLetter {
            ids: Vec::new(),
            then: Box::new(|_| {}),
        }
    }

    /// Goes on with the letter.
    pub(super) fn run(self, table: &Arc<dyn ReferenceTable>) {
        let handles = handles(&self.ids, table);
        (self.then)(Ok(handles));
    }

    /// Refuses the letter.
    pub(super) fn refuse(self, error: RefError) {
        (self.then)(Err(error));
    }

    /// Drops the letter, and its references.
    pub(super) fn abandon(self, table: &Arc<dyn ReferenceTable>) {
        drop(handles(&self.ids, table));
    }
}

/// Handles that the count has counted already.
pub(super) fn handles(ids: &[RefId], table: &Arc<dyn ReferenceTable>) -> Vec<Arc<Handle>> {
    ids.iter()
        .map(|id| Handle::counted(*id, Arc::clone(table)))
        .collect()
}
