//! The monotonic clock of this process.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time since this process first asked, in nanoseconds.
#[inline]
pub fn now_ns() -> u64 {
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The time of [`now_ns`]. `std` has no cheaper clock.
#[inline]
pub fn coarse_ns() -> u64 {
    now_ns()
}
