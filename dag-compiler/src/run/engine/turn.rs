//! Turns: which of the waiting threads pumps the driver.
//!
//! One of the waiting threads *leads*: it alone sleeps on the driver's doorbell and pumps. The others *follow*: they
//! sleep here until something has moved, and one of them takes over when the leader has its answer. This lock is never
//! held while user code runs, so an inline method that does not return makes no follower miss its deadline.
//!
//! `TURN-1` a follower that looks while it holds the driver, and calls [`enter`](Turn::enter) before it releases the
//! driver, misses nothing: a thread that moves something must hold the driver too, so it does that after the follower
//! has entered.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct TurnState {
    led: bool,
    /// The number of times that the followers have been told to look again.
    news: u64,
}

/// Leader and followers of one driver.
#[derive(Default)]
pub(crate) struct Turn {
    state: Mutex<TurnState>,
    told: Condvar,
    followers: AtomicUsize,
    /// A copy of `TurnState::led` that is read without the lock.
    led: AtomicBool,
}

/// The lead. Dropping it, even by a panic, passes the lead on.
pub(crate) struct Leading<'a>(&'a Turn);

/// A place among the followers.
pub(crate) struct Following<'a> {
    turn: &'a Turn,
    seen: u64,
}

impl Turn {
    /// Takes the lead if no thread has it, else a place among the followers. Called while the driver is held
    /// (`TURN-1`).
    pub(crate) fn enter(&self) -> Result<Leading<'_>, Following<'_>> {
        let mut state = self.state.lock();
        if state.led {
            return Err(self.follower(state.news));
        }
        state.led = true;
        // Relaxed: the copy is a hint; the lock of `state` decides who leads.
        self.led.store(true, Ordering::Relaxed);
        Ok(Leading(self))
    }

    /// Whether a thread leads: a hint that takes no lock.
    #[inline]
    pub(crate) fn is_led(&self) -> bool {
        // Relaxed: a hint. A thread that reads it late calls `enter`, which decides under the lock.
        self.led.load(Ordering::Relaxed)
    }

    /// Follows, whether or not another thread leads. Called while the driver is held (`TURN-1`).
    pub(crate) fn follow(&self) -> Following<'_> {
        self.follower(self.state.lock().news)
    }

    fn follower(&self, seen: u64) -> Following<'_> {
        // Relaxed: the driver's lock orders the increment before the load in `moved`.
        self.followers.fetch_add(1, Ordering::Relaxed);
        Following { turn: self, seen }
    }

    /// Tells the followers that something has moved. Called while the driver is held; costs one load if there are no
    /// followers.
    #[inline]
    pub(crate) fn moved(&self) {
        // Relaxed: the driver's lock orders this load after the increment of a follower that looked before (TURN-1).
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.rouse();
        }
    }

    /// Makes all followers look again.
    pub(crate) fn rouse(&self) {
        self.state.lock().news += 1;
        self.told.notify_all();
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.led = false;
        // Relaxed: a hint, as in `enter`.
        self.0.led.store(false, Ordering::Relaxed);
        state.news += 1;
        drop(state);
        self.0.told.notify_all();
    }
}

impl Following<'_> {
    /// Sleeps until the followers are told to look again; `false` if the deadline passed first.
    pub(crate) fn wait(self, deadline: Option<Instant>) -> bool {
        let turn = self.turn;
        let mut state = turn.state.lock();
        while state.news == self.seen {
            match deadline {
                None => turn.told.wait(&mut state),
                Some(deadline) if turn.told.wait_until(&mut state, deadline).timed_out() => {
                    return state.news != self.seen;
                }
                Some(_) => {}
            }
        }
        true
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        // Relaxed: a count that is read late costs one needless call of `rouse`.
        self.turn.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_the_next_takes_over() {
        let turn = Turn::default();
        let Ok(lead) = turn.enter() else {
            panic!("nobody led")
        };
        let Err(follower) = turn.enter() else {
            panic!("two lead")
        };
        drop(lead);
        assert!(follower.wait(None), "the end of a lead is news");
        assert!(turn.enter().is_ok());
    }

    #[test]
    fn news_between_look_and_sleep_is_not_missed_and_a_deadline_ends_the_sleep() {
        let turn = Turn::default();
        let follower = turn.follow();
        turn.moved();
        assert!(follower.wait(None));
        assert!(!turn.follow().wait(Some(Instant::now())));
        assert_eq!(turn.followers.into_inner(), 0);
    }

    #[test]
    fn a_leader_that_panics_passes_the_lead_on() {
        let turn = Turn::default();
        let led = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _lead = turn.enter();
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(led.is_err());
        assert!(turn.enter().is_ok());
    }
}
