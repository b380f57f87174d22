//! The time limit of a wait for a graph.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A time limit whose clock starts when there is something to wait for. Reading the clock costs as much as the rest of
/// an execution whose result has already arrived.
pub(crate) struct TimeLimit {
    timeout: Option<Duration>,
    /// The option that sets the time limit, for the error message.
    pub(crate) option: &'static str,
    started: Cell<Option<Instant>>,
    /// True if the wait has already spun for the whole spin budget.
    spun: Cell<bool>,
}

impl TimeLimit {
    /// A time limit of `timeout`; `None` means no limit.
    #[inline]
    pub(crate) fn new(timeout: Option<Duration>, option: &'static str) -> Self {
        TimeLimit {
            timeout,
            option,
            started: Cell::new(None),
            spun: Cell::new(false),
        }
    }

    /// Records that the spin budget is spent, so that the wait parks next.
    pub(crate) fn spent_spinning(&self) {
        self.spun.set(true);
    }

    /// Whether the wait parks without spinning first.
    pub(crate) fn has_spun(&self) -> bool {
        self.spun.get()
    }

    /// The deadline. The first call starts the clock. `None` if there is no limit, or if the deadline is beyond the
    /// range of the clock.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = self.timeout?;
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        started.checked_add(timeout)
    }

    /// The time since the clock started.
    pub(crate) fn waited(&self) -> Duration {
        self.started
            .get()
            .map_or(Duration::ZERO, |started| started.elapsed())
    }
}
