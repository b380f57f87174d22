//! The timer of references: repeats questions and sends bundles when their time has come.
//!
//! One task on the thread that reads links sleeps until the next moment at which something is due. A step of the count
//! that brings an earlier moment wakes it. The task starts when something is due for the first time, and ends with the
//! references.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::references::References;

#[derive(Default)]
pub(super) struct ReferenceTimer {
    state: Mutex<TimerState>,
    earlier: Arc<Notify>,
}

#[derive(Default)]
struct TimerState {
    due: Option<Duration>,
    is_started: bool,
}

impl ReferenceTimer {
    /// The next moment at which something is due, by the clock of the references.
    pub(super) fn set(&self, due: Option<Duration>, references: &Arc<References>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.due, due);
        let Some(due) = due else { return };
        if !state.is_started {
            let task = run(Arc::downgrade(references), Arc::clone(&self.earlier));
            state.is_started = references.post().spawn(Box::pin(task));
        } else if before.is_none_or(|before| due < before) {
            self.earlier.notify_one();
        }
    }

    fn due(&self) -> Option<Duration> {
        self.state.lock().due
    }
}

async fn run(references: Weak<References>, earlier: Arc<Notify>) {
    loop {
        let due = {
            let Some(references) = references.upgrade() else {
                return;
            };
            let now = references.now();
            let due = references.timer().due().map(|due| due.saturating_sub(now));
            if due == Some(Duration::ZERO) {
                references.tick();
            }
            due
        };
        match due {
            Some(Duration::ZERO) => tokio::task::yield_now().await,
            Some(due) => drop(tokio::time::timeout(due, earlier.notified()).await),
            None => earlier.notified().await,
        }
    }
}

impl Drop for ReferenceTimer {
    fn drop(&mut self) {
        self.earlier.notify_one();
    }
}
