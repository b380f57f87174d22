//! Whose turn it is to pump the driver.
//!
//! One of the waiting threads *leads*: it alone sleeps on the driver's doorbell and pumps. The others *follow*: they
//! sleep here until something moved, and one of them takes over when the leader has what it wanted. This lock is
//! never held while user code runs, so nobody can be late because of an inline method that does not return.
//!
//! `TURN-1` a follower that looks while it has the driver, and then [`enter`](Turn::enter)s before it lets the driver
//! go, misses nothing: whoever moves something has the driver too, and comes later.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct State {
    led: bool,
    /// Counts what followers have been told.
    news: u64,
}

/// Leader and followers of one driver.
#[derive(Default)]
pub(crate) struct Turn {
    state: Mutex<State>,
    told: Condvar,
    followers: AtomicUsize,
    /// As `State::led`, for who only wants to know.
    led: AtomicBool,
}

/// What a thread that found nothing does next.
pub(crate) enum Role<'a> {
    /// It leads until this is dropped.
    Lead(Leading<'a>),
    /// It sleeps until there is news.
    Follow(Following<'a>),
}

/// The lead; dropping it, also by a panic, passes it on.
pub(crate) struct Leading<'a>(&'a Turn);

/// A place among the followers.
pub(crate) struct Following<'a> {
    turn: &'a Turn,
    seen: u64,
}

impl Turn {
    /// Takes the lead if nobody has it. To be called with the driver in hand (`TURN-1`).
    pub(crate) fn enter(&self) -> Role<'_> {
        let mut state = self.state.lock();
        if state.led {
            return Role::Follow(self.follower(state.news));
        }
        state.led = true;
        self.led.store(true, Ordering::Relaxed);
        Role::Lead(Leading(self))
    }

    /// Whether somebody leads: a hint, which costs no lock.
    #[inline]
    pub(crate) fn is_led(&self) -> bool {
        self.led.load(Ordering::Relaxed)
    }

    /// Follows, whoever leads. To be called with the driver in hand (`TURN-1`).
    pub(crate) fn follow(&self) -> Following<'_> {
        self.follower(self.state.lock().news)
    }

    fn follower(&self, seen: u64) -> Following<'_> {
        // Relaxed: the driver's lock orders it before the look in `moved`.
        self.followers.fetch_add(1, Ordering::Relaxed);
        Following { turn: self, seen }
    }

    /// Something moved. To be called with the driver in hand; costs nothing where nobody follows.
    #[inline]
    pub(crate) fn moved(&self) {
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.rouse();
        }
    }

    /// Has everybody look again.
    pub(crate) fn rouse(&self) {
        self.state.lock().news += 1;
        self.told.notify_all();
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.led = false;
        self.0.led.store(false, Ordering::Relaxed);
        state.news += 1;
        drop(state);
        self.0.told.notify_all();
    }
}

impl Following<'_> {
    /// Sleeps until there is news; `false` when the deadline passed first.
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
        self.turn.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_the_next_takes_over() {
        let turn = Turn::default();
        let Role::Lead(lead) = turn.enter() else {
            panic!("nobody led")
        };
        let Role::Follow(follower) = turn.enter() else {
            panic!("two lead")
        };
        drop(lead);
        assert!(follower.wait(None), "the end of a lead is news");
        assert!(matches!(turn.enter(), Role::Lead(_)));
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
        assert!(matches!(turn.enter(), Role::Lead(_)));
    }
}
