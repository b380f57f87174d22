//! The monotonic clock, which all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// The time of the monotonic clock, in nanoseconds.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The time of the monotonic clock at the last tick of the scheduler, in nanoseconds; that tick is some milliseconds
/// old at most. A read takes a few nanoseconds.
#[inline]
pub fn coarse_ns() -> u64 {
    nanoseconds(ClockId::MonotonicCoarse)
}

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
