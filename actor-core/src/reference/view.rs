//! A decoded value that others share as long as somebody has it.

use std::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::content::AnyShared;

/// A decoded value, for as long as somebody has it.
#[derive(Default)]
pub(super) struct View(Mutex<Option<Weak<dyn Any + Send + Sync>>>);

impl View {
    /// The value, if somebody has it.
    pub(super) fn get(&self) -> Option<AnyShared> {
        self.0.lock().as_ref()?.upgrade()
    }

    /// Keeps a value, unless somebody has one already; returns the one that is kept.
    pub(super) fn keep(&self, value: AnyShared) -> AnyShared {
        let mut kept = self.0.lock();
        if let Some(before) = kept.as_ref().and_then(Weak::upgrade) {
            drop(kept);
            return before;
        }
        *kept = Some(Arc::downgrade(&value));
        value
    }
}
