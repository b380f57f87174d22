//! Deadlines computed from durations that users give.

use std::time::{Duration, Instant};

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
