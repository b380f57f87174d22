//! The time within which an owner has to confirm that it keeps a result.

use std::time::Duration;

use super::due::Creation;
use super::{Action, RefId, Refs, Stage};

impl Refs {
    /// Waits for the confirmation of a result. Returns the time at which the wait ends; `None` for never.
    pub(super) fn expect_confirmation(&mut self, now: Duration, id: RefId) -> Option<Duration> {
        let due = now.checked_add(self.settings.create_timeout)?;
        self.creations.insert(Creation { due, id });
        Some(due)
    }

    /// Waits for the confirmation no longer.
    pub(super) fn stop_expecting(&mut self, id: RefId) {
        if let Some(due) = self.held.get_mut(&id).and_then(|held| held.due.take()) {
            self.creations.remove(&Creation { due, id });
        }
    }

    /// Marks the results whose confirmation is late. Their questions go on: a late confirmation ends the mark.
    pub(super) fn mark_late(&mut self, now: Duration) {
        while let Some(late) = self.creations.first().copied().filter(|first| first.due <= now) {
            self.creations.remove(&late);
            let id = late.id;
            if let Some(held) = self.held.get_mut(&id)
                && matches!(held.stage, Stage::Pending(_))
            {
                held.was_late = true;
                self.actions.push(Action::TimedOut(id));
            }
        }
    }
}
