//! The clock of traces: the processor's time stamp counter if it runs evenly on all cores, else the monotonic clock.
//!
//! A read of the counter takes some ten nanoseconds, a third of a read of the monotonic clock. Events store the
//! reading; it is converted to nanoseconds when the events are read, by two moments at which both clocks were read.
#![allow(unsafe_code)] // reads the processor's time stamp counter

use std::sync::LazyLock;

pub(crate) use selvedge_channels::platform::clock::{coarse_ns, now_ns};

/// Whether the counter is *invariant*: it runs at one rate in every power state and in the same way on all cores (CPUID
/// 8000_0007h, EDX bit 8). The answer is the same in every process of a host.
static INVARIANT: LazyLock<bool> = LazyLock::new(invariant);

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    let most = __cpuid(0x8000_0000).eax;
    most >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn invariant() -> bool {
    false
}

/// The time in ticks since an arbitrary moment; events store this reading.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if *INVARIANT {
        // SAFETY: RDTSC is part of every x86-64 processor and touches no memory; an operating system that forbids it to
        // programs also hides the invariant counter, so that this branch is not taken.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    now_ns()
}

/// A moment, read on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    ticks: u64,
    ns: u64,
}

impl ClockReading {
    /// Reads the present moment: one clock in the middle of two readings of the other. Takes the quickest of several
    /// tries, because a thread that loses its core between two readings has read nothing useful.
    pub(crate) fn now() -> Self {
        let read = || {
            let (before, ns) = (ticks(), now_ns());
            let took = ticks().saturating_sub(before);
            (took, before + took / 2, ns)
        };
        let tries = [read(), read(), read(), read()];
        let (_, ticks, ns) = tries.into_iter().min().unwrap_or_else(read);
        ClockReading { ticks, ns }
    }

    /// The reading of [`ticks`] at this moment.
    pub(crate) fn ticks(self) -> u64 {
        self.ticks
    }

    /// Converts a reading of [`ticks`] to nanoseconds of the monotonic clock, by this moment and a later one.
    pub(crate) fn ns_of(self, later: ClockReading, ticks: u64) -> u64 {
        let (ns, passed) = (
            later.ns.saturating_sub(self.ns),
            later.ticks.saturating_sub(self.ticks),
        );
        if passed == 0 {
            return self.ns;
        }
        let since = i128::from(ticks) - i128::from(self.ticks);
        let ns = i128::from(self.ns) + since * i128::from(ns) / i128::from(passed);
        u64::try_from(ns).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn readings_lie_between_the_moments_they_were_taken_at() {
        let begin = ClockReading::now();
        let readings: Vec<u64> = (0..100).map(|_| ticks()).collect();
        let end = ClockReading::now();
        let ns: Vec<u64> = readings
            .into_iter()
            .map(|ticks| begin.ns_of(end, ticks))
            .collect();
        assert!(ns.is_sorted());
        assert!(ns[0] >= begin.ns && ns[99] <= end.ns, "{begin:?} {ns:?} {end:?}");
    }

    #[test]
    fn what_is_read_in_order_stays_in_order_and_before_the_first_moment_too() {
        let (first, second) = (
            ClockReading {
                ticks: 1_000,
                ns: 50_000,
            },
            ClockReading {
                ticks: 3_000,
                ns: 51_000,
            },
        );
        let ns: Vec<u64> = [0, 1_000, 2_000, 3_000, 5_000]
            .map(|ticks| first.ns_of(second, ticks))
            .to_vec();
        assert_eq!(ns, [49_500, 50_000, 50_500, 51_000, 52_000]);
        assert_eq!(first.ns_of(first, 9), 50_000);
    }
}
