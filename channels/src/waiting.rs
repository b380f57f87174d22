//! How long to spin before parking.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::futex;

/// How a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// Never parks: lowest latency, one core per waiter.
    Spin,
    /// Parks at once.
    Park,
    /// Spins this long, then parks.
    SpinThenPark(Duration),
    /// Lets others have the core so many times, then parks: for where threads outnumber cores, and who is waited for may
    /// need this very core. A hand-over costs half of what falling asleep and being woken does.
    YieldThenPark(u32),
}

/// Longer than one wake-up across cores (36-39 µs on a virtual machine), so that a wait that could have ended
/// by spinning does not pay for two.
const SPIN: Duration = Duration::from_micros(100);

#[cfg(not(loom))]
/// How fast a payload is copied in and read at least, with room to spare: a hand-over from core to core runs at 10 to 30
/// GB/s.
const BYTES_PER_NS: usize = 4;

#[cfg(not(loom))]
/// Whoever is idle parks soon.
const SPIN_MAX: Duration = Duration::from_millis(5);

/// Turns of the scheduler before parking, where threads outnumber cores.
const YIELDS: u32 = 8;

/// Looks at the condition between two looks at the clock, which costs twenty times as much.
const LOOKS: u32 = 64;

/// Turns between two full looks, for who has a quicker one.
const GLANCES: u32 = 32;

/// A waiter that never parks and spins for longer than this may wait for a thread that needs this very core. Letting it have the
/// core costs some microseconds where nobody wants it, so it is not done at once.
const YIELD_AFTER: Duration = Duration::from_micros(250);

impl Waiting {
    /// Spins only where every one of `threads` waiters can have a core of its own; elsewhere it lets others have it.
    pub fn auto(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if threads > cores {
            Waiting::YieldThenPark(YIELDS)
        } else {
            Waiting::SpinThenPark(SPIN)
        }
    }

    /// Whether it looks again and again at first.
    #[inline]
    pub fn spins(self) -> bool {
        match self {
            Waiting::Spin => true,
            Waiting::SpinThenPark(budget) => !budget.is_zero(),
            Waiting::Park | Waiting::YieldThenPark(_) => false,
        }
    }

    #[cfg(not(loom))] // for `channel`, which is not built under loom
    /// The same where messages of so many bytes are expected: their copying and reading is waited for as well, so that a
    /// stream of large payloads does not pay for two wake-ups each. Parks after 5 ms whatever their size.
    #[must_use]
    pub fn for_payload(self, len_bytes: usize) -> Self {
        match self {
            Waiting::SpinThenPark(budget) if !budget.is_zero() => {
                let moves = Duration::from_nanos((len_bytes / BYTES_PER_NS) as u64);
                Waiting::SpinThenPark(budget + moves.min(SPIN_MAX))
            }
            other => other,
        }
    }

    /// Spins as long as this allows, until `ready` says so; `false` when it is time to park, or too late.
    #[inline]
    pub fn spin(self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        self.spin_on(deadline, &mut ready, |_| true, |ready, _| ready())
    }

    /// The same for who has a quicker way to see most of what is waited for: `glance` is asked in between, and where it sees
    /// something, or after some turns in any case, `ready` is, and told which. The quicker the look, the sooner it is seen.
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
            // Most waits are over before the clock is read for the first time; the budget counts from there.
            let now = Instant::now();
            let spent = now.duration_since(*started.get_or_insert(now));
            let exhausted = budget.is_some_and(|budget| spent >= budget);
            if exhausted || deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
            // Who parks soon lets others have the core then.
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
        assert_eq!(Waiting::Park.for_payload(1 << 30), Waiting::Park);
        assert_eq!(Waiting::Spin.for_payload(1 << 30), Waiting::Spin);
        let parks = Waiting::SpinThenPark(Duration::ZERO);
        assert_eq!(parks.for_payload(1 << 30), parks);
        assert!(Waiting::Spin.spins() && auto.spins());
        assert!(!parks.spins() && !Waiting::Park.spins() && !Waiting::YieldThenPark(1).spins());
    }
}
