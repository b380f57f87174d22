//! Deadlines computed from durations that users give.

use std::time::{Duration, Instant};

/// The time that several waits after each other may take together.
#[derive(Clone, Copy)]
pub(crate) struct TimeLimit {
    started: Instant,
    timeout: Duration,
}

impl TimeLimit {
    /// The waits begin now.
    pub(crate) fn begin(timeout: Duration) -> Self {
        let started = Instant::now();
        TimeLimit { started, timeout }
    }

    /// The time that the waits have taken.
    pub(crate) fn taken(&self) -> Duration {
        self.started.elapsed()
    }

    /// The time that is left for the next wait.
    pub(crate) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.taken())
    }
}

/// A time that is longer than any program runs, and that clocks and timers can represent.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the moment that is `duration` from now. Longer durations, such as [`Duration::MAX`], are cut to 30 years,
/// because no clock can represent every moment.
#[must_use]
pub fn deadline_after(duration: Duration) -> Instant {
    let duration = duration.min(LONGEST);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or(now)
}
