//! Deadlines from durations that a user has given.

use std::time::{Duration, Instant};

/// Longer than anything runs; clocks and timers can hold a moment so far away.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The moment that is `duration` from now, or decades from now where no clock can hold that moment, as for [`Duration::MAX`].
#[must_use]
pub fn deadline_after(duration: Duration) -> Instant {
    let duration = duration.min(LONGEST);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or(now)
}
