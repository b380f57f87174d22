//! Spin budgets: the time for which one waiter spins before it parks, adapted to its waits within bounds.
//!
//! A waiter whose waits last a little longer than its budget pays for spinning and for parking every time, and parking
//! delays its input by a wake-up of tens of microseconds. So after a short wait that had to park, the next waits spin
//! for twice as long as that wait took; a long wait resets the budget. This is adaptive spinning by the last wait:
//! Karlin, Li, Manasse and Owicki, *Empirical Studies of Competitive Spinning for a Shared-Memory Multiprocessor* (SOSP
//! 1991).
//!
//! A waiter that was woken from its own core and spins there keeps that core from the thread that it waits for. So it
//! parks at once, until a wake-up comes from another core or the waiter has been moved to another core.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::wait::doorbell::Doorbell;
use crate::wait::spin_permit;
use crate::wait::waiting::Waiting;

/// The largest learned budget, whatever the last waits took: an idle waiter parks soon.
const LONGEST: Duration = Duration::from_millis(1);

/// The waiting strategy of one waiter, with the spin time learned from its last wait. Only [`Waiting::SpinThenPark`]
/// learns.
#[derive(Debug)]
pub struct SpinBudget {
    waiting: Waiting,
    /// The learned spin time in nanoseconds; 0 before anything was learned. Relaxed: no other data depend on it, and an
    /// old value does no harm.
    learned_ns: AtomicU64,
    /// True if the last wake-up came from the waiter's own core. Relaxed, as above.
    shares_core: AtomicBool,
}

impl SpinBudget {
    /// Makes a budget that begins with the strategy `waiting`.
    pub fn new(waiting: Waiting) -> Self {
        if matches!(waiting, Waiting::SpinThenPark(_)) {
            spin_permit::prepare();
        }
        SpinBudget {
            waiting,
            learned_ns: AtomicU64::new(0),
            shares_core: AtomicBool::new(false),
        }
    }

    /// Whether the last wake-up came from the waiter's own core.
    #[inline]
    pub fn shares_core(&self) -> bool {
        self.shares_core.load(Ordering::Relaxed)
    }

    /// Records whether the waiter shares its core with the thread that it waits for.
    #[inline]
    pub(crate) fn set_shares_core(&self, shares: bool) {
        self.shares_core.store(shares, Ordering::Relaxed);
    }

    /// The strategy of the next wait.
    #[inline]
    pub fn waiting(&self) -> Waiting {
        match self.waiting {
            Waiting::SpinThenPark(_) if self.shares_core() => Waiting::SpinThenPark(Duration::ZERO),
            Waiting::SpinThenPark(budget) if !budget.is_zero() => {
                let learned = Duration::from_nanos(self.learned_ns.load(Ordering::Relaxed));
                Waiting::SpinThenPark(budget.max(learned))
            }
            other => other,
        }
    }

    /// Records a wait that spun as [`waiting`](Self::waiting) says and was then parked for the time `parked`;
    /// [`Duration::MAX`] if nothing can be learned from the wait.
    fn parked_for(&self, parked: Duration) {
        let Waiting::SpinThenPark(spun) = self.waiting() else {
            return;
        };
        let waited = spun.saturating_add(parked);
        let learned = if waited <= LONGEST {
            waited.saturating_mul(2).min(LONGEST)
        } else {
            Duration::ZERO
        };
        self.learned_ns
            .store(learned.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Waits as [`Doorbell::wait`] does, with the current strategy, and learns from the wait.
    #[inline]
    pub fn wait(&self, bell: &Doorbell, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        ready() || self.waiting().spin(deadline, &mut ready) || self.park(bell, deadline, ready)
    }

    /// Waits as [`wait`](Self::wait) does, with the cheaper poll `glance` of [`Waiting::spin_on`].
    #[inline]
    pub fn wait_on<S: ?Sized>(
        &self,
        bell: &Doorbell,
        deadline: Option<Instant>,
        on: &mut S,
        glance: impl FnMut(&mut S) -> bool,
        mut ready: impl FnMut(&mut S) -> bool,
    ) -> bool {
        ready(on)
            || self.waiting().spin_on(deadline, on, glance, |on, _| ready(on))
            || self.park(bell, deadline, || ready(on))
    }

    /// Parks without spinning, for callers that have already spun, and learns from the wait. Otherwise it waits as
    /// [`Doorbell::wait`] does with [`Waiting::Park`].
    pub fn park(&self, bell: &Doorbell, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        let mut looked = begun;
        let found = bell.wait(&Waiting::Park, deadline, || {
            // The time is taken before `ready`, which may do all the work of a lane.
            looked = Instant::now();
            ready()
        });
        let parked = looked.saturating_duration_since(begun);
        let shared = self.shares_core();
        let shares = bell.woken_on_own_core().unwrap_or(shared);
        // A wait on a shared core does not show how long to spin when there are two cores.
        let teaches = found && !shared && !shares;
        self.parked_for(if teaches { parked } else { Duration::MAX });
        self.set_shares_core(shares);
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn spins(spin: Duration) -> Waiting {
        Waiting::SpinThenPark(spin)
    }

    #[test]
    fn a_short_wait_that_parked_makes_the_next_spin_for_twice_as_long_and_a_long_one_ends_it() {
        let budget = SpinBudget::new(spins(us(100)));
        assert_eq!(budget.waiting(), spins(us(100)));
        budget.parked_for(us(50));
        assert_eq!(
            budget.waiting(),
            spins(us(300)),
            "it spun for 100 and was parked for 50"
        );
        budget.parked_for(us(300));
        assert_eq!(budget.waiting(), spins(LONGEST), "no more than that");
        budget.parked_for(us(1));
        assert_eq!(budget.waiting(), spins(us(100)), "longer than the longest");
        budget.parked_for(Duration::MAX);
        assert_eq!(budget.waiting(), spins(us(100)));
    }

    #[test]
    fn who_was_told_not_to_spin_or_not_to_park_does_not_learn() {
        let yields = Waiting::YieldThenPark(8);
        for waiting in [
            Waiting::Park,
            Waiting::Spin,
            yields,
            Waiting::SpinThenPark(Duration::ZERO),
        ] {
            let budget = SpinBudget::new(waiting);
            budget.parked_for(us(50));
            assert_eq!(budget.waiting(), waiting);
        }
    }

    #[test]
    #[cfg(not(miri))] // Miri has one core
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs the number of a core"
    )]
    fn a_waiter_that_was_woken_from_its_own_core_parks_at_once_until_another_core_wakes_it() {
        use crate::platform::cores::pinned::{cores, stay_on};
        let cores = cores();
        let budget = SpinBudget::new(spins(us(100)));
        let bell = Doorbell::heap();
        let woken_from = |core| {
            bell.announce();
            let ringer = || {
                stay_on(core);
                bell.ring();
            };
            std::thread::scope(|scope| scope.spawn(ringer).join()).unwrap();
            assert!(budget.park(&bell, None, || true));
        };
        let waiter = || {
            stay_on(cores[0]);
            woken_from(cores[0]);
            assert!(budget.shares_core());
            assert_eq!(budget.waiting(), spins(Duration::ZERO));
            if let Some(other) = cores.get(1) {
                woken_from(*other);
                assert!(!budget.shares_core());
                assert_eq!(budget.waiting(), spins(us(100)));
            }
        };
        std::thread::scope(|scope| scope.spawn(waiter).join()).unwrap();
    }

    #[test]
    fn a_wait_that_ended_with_nothing_teaches_nothing() {
        let budget = SpinBudget::new(spins(us(10)));
        budget.parked_for(us(50));
        let deadline = Instant::now() + us(20);
        assert!(!budget.wait(&Doorbell::heap(), Some(deadline), || false));
        assert_eq!(budget.waiting(), spins(us(10)));
    }

    #[test]
    fn a_wait_is_over_when_what_it_was_for_has_come_and_not_when_that_is_done() {
        let budget = SpinBudget::new(spins(us(10)));
        let (bell, begun) = (Doorbell::heap(), Instant::now());
        let (mut looks, mut came) = (0, begun);
        // The second call of `ready`, which follows at once, takes longer than the largest budget.
        assert!(budget.park(&bell, None, || {
            looks += 1;
            if looks == 2 {
                came = Instant::now();
                std::thread::sleep(2 * LONGEST);
            } else {
                bell.ring();
            }
            looks == 2
        }));
        // The check is skipped if this thread was kept from its core in the meantime.
        if came.duration_since(begun) + us(10) <= LONGEST {
            assert_ne!(budget.waiting(), spins(us(10)));
        }
    }
}
