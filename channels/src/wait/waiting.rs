//! Waiting strategies: spin, yield, park.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::wait::futex;
use crate::wait::spin_permit;

/// The strategy of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Waiting {
    /// Never parks: lowest latency, one core per waiter.
    Spin,
    /// Parks at once.
    Park,
    /// Spins for this time, then parks.
    SpinThenPark(Duration),
    /// Yields the core this many times, then parks. For programs with more threads than cores, in which the awaited
    /// thread may need this very core. An exchange by yielding costs half as much as falling asleep and being woken.
    YieldThenPark(u32),
}

/// The spin time of [`Waiting::auto`]. Longer than one wake-up across cores (36-39 µs on a virtual machine), so that a
/// wait that could have ended by spinning does not pay for two wake-ups.
const SPIN: Duration = Duration::from_micros(100);

#[cfg(not(loom))]
/// The lowest speed at which a payload is copied and read, with a margin: a transfer from core to core runs at 10 to 30
/// GB/s.
const BYTES_PER_NS: usize = 4;

#[cfg(not(loom))]
/// The largest spin time that is added for a payload: an idle waiter parks soon.
const SPIN_MAX: Duration = Duration::from_millis(5);

/// The number of yields before parking, if there are more threads than cores.
const YIELDS: u32 = 8;

/// The number of polls between two readings of the clock. A reading costs twenty times as much as a poll.
const LOOKS: u32 = 64;

/// The number of polls between two calls of `ready` while `glance` sees nothing.
const GLANCES: u32 = 32;

/// The spin time after which [`Waiting::Spin`] also yields: the awaited thread may need this very core. A yield costs
/// some microseconds even if no thread wants the core, so spinning does not begin with yields.
const YIELD_AFTER: Duration = Duration::from_micros(250);

impl Waiting {
    /// The default strategy for `threads` waiters: spins if each waiter can have a core of its own, else yields the
    /// core to other threads; then parks.
    pub fn auto(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if threads > cores {
            Waiting::YieldThenPark(YIELDS)
        } else {
            Waiting::SpinThenPark(SPIN)
        }
    }

    /// Whether the strategy begins with spinning.
    #[inline]
    pub fn spins(self) -> bool {
        match self {
            Waiting::Spin => true,
            Waiting::SpinThenPark(budget) => !budget.is_zero(),
            Waiting::Park | Waiting::YieldThenPark(_) => false,
        }
    }

    #[cfg(not(loom))] // for `channel`, which is not built under loom
    /// The strategy for messages of `len_bytes`: spins longer by the time that it takes to copy and read such a
    /// message, so that a stream of large payloads does not pay for two wake-ups per message. Adds at most 5 ms,
    /// whatever the size.
    #[must_use]
    pub fn for_payload(self, len_bytes: usize) -> Self {
        match self {
            Waiting::SpinThenPark(budget) if !budget.is_zero() => {
                let moves = Duration::from_nanos((len_bytes / BYTES_PER_NS) as u64);
                Waiting::SpinThenPark(budget.saturating_add(moves.min(SPIN_MAX)))
            }
            other => other,
        }
    }

    /// Spins until `ready` returns `true`; returns `false` when it is time to park or the deadline has passed.
    #[inline]
    pub fn spin(self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        self.spin_on(deadline, &mut ready, |_| true, |ready, _| ready())
    }

    /// Spins as [`spin`](Self::spin) does, with a cheaper poll: `glance` detects most events. `ready` is called when
    /// `glance` returns `true`, and at every 32nd poll in any case; its second argument is `true` in the first case
    /// only. The cheaper the poll, the sooner an event is seen.
    #[inline]
    pub fn spin_on<S: ?Sized>(
        self,
        deadline: Option<Instant>,
        on: &mut S,
        mut glance: impl FnMut(&mut S) -> bool,
        mut ready: impl FnMut(&mut S, bool) -> bool,
    ) -> bool {
        let budget = match self {
            Waiting::Spin => None,
            Waiting::Park => return false,
            Waiting::SpinThenPark(budget) if budget.is_zero() => return false,
            Waiting::SpinThenPark(_) if spin_permit::is_contested() => {
                return yields(YIELDS, || ready(on, false));
            }
            Waiting::SpinThenPark(budget) => Some(budget),
            Waiting::YieldThenPark(times) => return yields(times, || ready(on, false)),
        };
        let mut started = None;
        loop {
            for turn in 1..=LOOKS {
                let seen = turn % GLANCES != 0 && glance(on);
                if (seen || turn % GLANCES == 0) && ready(on, seen) {
                    return true;
                }
                futex::relax();
            }
            // The budget counts from the first reading of the clock. Most waits are over before it.
            let now = Instant::now();
            let spent = now.duration_since(*started.get_or_insert(now));
            let exhausted = budget.is_some_and(|budget| spent >= budget);
            if exhausted || deadline.is_some_and(|deadline| now >= deadline) {
                spin_permit::ends_spinning();
                return false;
            }
            if budget.is_some() && !spin_permit::may_spin(now) {
                return yields(YIELDS, || ready(on, false));
            }
            // A waiter with a budget parks soon, and leaves the core to others then.
            if budget.is_none() && spent >= YIELD_AFTER {
                std::thread::yield_now();
            }
        }
    }
}

fn yields(times: u32, mut ready: impl FnMut() -> bool) -> bool {
    (0..times).any(|_| {
        std::thread::yield_now();
        ready()
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_spin_budget_grows_with_the_payload_up_to_a_bound() {
        let auto = Waiting::SpinThenPark(SPIN);
        let grown = |more| Waiting::SpinThenPark(SPIN + more);
        assert_eq!(auto.for_payload(8), grown(Duration::from_nanos(2)));
        assert_eq!(
            auto.for_payload(1 << 20),
            grown(Duration::from_nanos((1 << 20) / 4))
        );
        assert_eq!(auto.for_payload(1 << 30), grown(SPIN_MAX));
        let endless = Waiting::SpinThenPark(Duration::MAX);
        assert_eq!(endless.for_payload(1 << 30), endless);
        assert_eq!(Waiting::Park.for_payload(1 << 30), Waiting::Park);
        assert_eq!(Waiting::Spin.for_payload(1 << 30), Waiting::Spin);
        let parks = Waiting::SpinThenPark(Duration::ZERO);
        assert_eq!(parks.for_payload(1 << 30), parks);
        assert!(Waiting::Spin.spins() && auto.spins());
        assert!(!parks.spins() && !Waiting::Park.spins() && !Waiting::YieldThenPark(1).spins());
    }
}
