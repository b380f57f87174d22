//! Waiting: a thread looks for its answer, spins while it holds the driver, then leads or follows.
//!
//! One of the waiting threads *leads*: it alone sleeps on the driver's doorbell and pumps. The others *follow*: they
//! sleep in their [`Turn`] until something has moved, and one of them takes over when the leader has its answer. The
//! turn's lock is never held while user code runs, so an inline method that does not return makes no follower miss its
//! deadline.
//!
//! `TURN-1` a follower that looks while it holds the driver, and calls [`enter`](Turn::enter) before it releases the
//! driver, misses nothing: a thread that moves something must hold the driver too, so it does that after the follower
//! has entered.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_channels::Waiting;
use selvedge_core::NoEntry;

use crate::bind::ports::Take;
use crate::run::driver::Driver;
use crate::run::engine::submit::Outcome;
use crate::run::engine::{Engine, TimeLimit};
use crate::run::error::ExecError;

/// A waiter: looks for an answer and keeps it. Passing the answer through all the code that waits would cost more than
/// everything else on that path.
pub(crate) trait Waiter {
    /// Whether the waiter looks even if nothing has moved.
    const ALWAYS: bool = false;
    /// Looks for an answer that is available before anything is pumped.
    fn look_at_once(&mut self, _: &mut Driver) -> bool {
        false
    }
    /// Looks for the answer; `true` if the waiter has one.
    fn look(&mut self, driver: &mut Driver) -> bool;
    /// Takes an error as the answer.
    fn fail(&mut self, error: ExecError);
}

/// A waiter whose answer comes from `check`.
struct Until<R, F> {
    check: F,
    found: Option<Result<R, ExecError>>,
}

impl<R, F: FnMut(&mut Driver) -> Option<Result<R, ExecError>>> Waiter for Until<R, F> {
    // A lane makes room in an input by releasing a slot, and no pump reports that as a move.
    const ALWAYS: bool = true;

    fn look(&mut self, driver: &mut Driver) -> bool {
        self.found = (self.check)(driver);
        self.found.is_some()
    }

    fn fail(&mut self, error: ExecError) {
        self.found = Some(Err(error));
    }
}

/// The outcome of spinning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    /// The waiter has an answer.
    Found,
    /// Spinning stopped early: another thread wants the driver, or wakers are due.
    Interrupted,
    /// The spin budget is spent; the waiter parks next.
    Out,
}

impl Engine {
    /// Spins for the result of an execution that was sent under this use of the lock and has no place in the books.
    /// Takes the result, or makes a place in the books if it has not arrived.
    #[inline]
    pub(super) fn take_or_book<Out>(
        &self,
        driver: &mut Driver,
        number: u64,
        take: Take<Out>,
        ran: &mut Outcome<Out>,
    ) {
        // The clock is read only after the input is published, because the lanes wait for the input.
        let limit = self.limit();
        let stopped = driver.sole_output().is_none_or(|mut output| {
            self.budget.waiting().spin_on(
                limit.deadline(),
                &mut output,
                |output| output.peek(),
                |output, stirs| {
                    stirs || output.peek() || self.driver.is_wanted() || !self.control.is_running()
                },
            )
        });
        // A message that has arrived and cannot be taken is a fault.
        if stopped && let Some(taken) = driver.take_at_once(number, &self.recipe.lengths, take) {
            *ran = Outcome::Done(taken.map_err(|fault| self.error_of(number, &fault)));
            return;
        }
        driver.book(number);
        if !stopped {
            limit.spent_spinning();
        }
        *ran = Outcome::Pending { number, limit };
    }

    /// Closes dropped handles and moves all messages that can move; `true` if anything changed.
    fn pump(&self, driver: &mut Driver) -> Result<bool, ExecError> {
        let closed = self.close_discarded(driver);
        let moved = driver.pump().map_err(|error| self.broke(driver, error))?;
        Ok(closed || moved)
    }

    /// Pumps the driver, then lets `waiter` look. If the graph has ended and `waiter` finds nothing, `waiter` gets the
    /// true cause instead of a time-out. `true` if `waiter` has an answer.
    fn look(&self, driver: &mut Driver, waiter: &mut impl Waiter) -> bool {
        self.look_again(driver, waiter, &mut true)
    }

    /// Does the same as [`look`](Self::look), but skips the look if nothing has changed since the caller's last one.
    /// The caller has held the driver since then.
    #[inline]
    fn look_again<W: Waiter>(&self, driver: &mut Driver, waiter: &mut W, changed: &mut bool) -> bool {
        if waiter.look_at_once(driver) {
            self.turn.moved();
            return true;
        }
        let pumped = self.pump(driver);
        let moved = !matches!(pumped, Ok(false));
        if moved {
            self.turn.moved();
        }
        if (W::ALWAYS || std::mem::take(changed) || moved) && waiter.look(driver) {
            return true;
        }
        match pumped.err().or_else(|| self.ended()) {
            Some(error) => {
                waiter.fail(error);
                true
            }
            None => false,
        }
    }

    /// Waits until `waiter` has an answer, and pumps meanwhile.
    fn wait_on(&self, limit: &TimeLimit, waiter: &mut impl Waiter) -> Result<(), NoEntry> {
        loop {
            let looked = self.drive(limit, |driver| match self.look_or_spin(driver, limit, waiter) {
                Spun::Found => None,
                spun => Some((self.turn.enter(), spun)),
            })?;
            match looked {
                None => return Ok(()),
                Some((Ok(_lead), spun)) => return self.lead(limit, waiter, spun),
                Some((Err(following), _)) => {
                    if !following.wait(limit.deadline()) {
                        let last = self.drive(limit, |driver| self.look(driver, waiter))?;
                        return last.then_some(()).ok_or(NoEntry::OutOfTime);
                    }
                }
            }
        }
    }

    /// The first look of a wait. Most results come soon: a thread that holds the driver already, while no other thread
    /// leads, spins for a while without releasing it.
    #[inline]
    fn look_or_spin(&self, driver: &mut Driver, limit: &TimeLimit, waiter: &mut impl Waiter) -> Spun {
        let led = self.turn.is_led();
        if !led && !limit.has_spun() {
            self.spin(driver, limit, waiter)
        } else if self.look(driver, waiter) {
            Spun::Found
        } else if !led {
            Spun::Out
        } else {
            Spun::Interrupted
        }
    }

    fn lead(&self, limit: &TimeLimit, waiter: &mut impl Waiter, mut spun: Spun) -> Result<(), NoEntry> {
        while spun == Spun::Interrupted {
            spun = self.drive(limit, |driver| self.spin(driver, limit, waiter))?;
        }
        if spun == Spun::Found {
            return Ok(());
        }
        let mut answer = Err(NoEntry::OutOfTime);
        self.budget.park(&self.bell, limit.deadline(), || {
            match self.drive(limit, |driver| self.look(driver, waiter)) {
                Ok(false) => return false,
                Ok(true) => answer = Ok(()),
                Err(refused) => answer = Err(refused),
            }
            true
        });
        answer
    }

    /// Looks, then spins while the driver is held.
    #[inline]
    fn spin(&self, driver: &mut Driver, limit: &TimeLimit, waiter: &mut impl Waiter) -> Spun {
        if self.look(driver, waiter) {
            return Spun::Found;
        }
        let waiting = self.budget.waiting();
        if waiting == Waiting::Park {
            return Spun::Out;
        }
        let (mut found, mut changed) = (false, false);
        let spun = waiting.spin_on(
            limit.deadline(),
            driver,
            |driver| driver.may_move(),
            |driver, _| {
                found = self.look_again(driver, waiter, &mut changed);
                found || self.driver.is_wanted() || driver.wakers.is_due()
            },
        );
        match (found, spun) {
            (true, _) => Spun::Found,
            (false, true) => Spun::Interrupted,
            (false, false) => Spun::Out,
        }
    }

    /// Waits until `check` returns an answer.
    pub(crate) fn wait_for<R>(
        &self,
        limit: &TimeLimit,
        check: impl FnMut(&mut Driver) -> Option<Result<R, ExecError>>,
    ) -> Result<Result<R, ExecError>, NoEntry> {
        let mut until = Until { check, found: None };
        self.wait_on(limit, &mut until)?;
        until.found.ok_or(NoEntry::OutOfTime)
    }

    /// Waits until `waiter` has an answer and returns `None`; returns the error if the wait ends without an answer. The
    /// execution was submitted at `since`.
    #[inline]
    pub(crate) fn wait(
        &self,
        execution: u64,
        since: u64,
        limit: &TimeLimit,
        waiter: &mut impl Waiter,
    ) -> Option<ExecError> {
        let refused = self.wait_on(limit, waiter).err()?;
        Some(self.gave_up(Some((execution, since)), limit, refused))
    }

    /// Looks once, and waits only for the driver, whose holder may compute an inline method. `true` if `waiter` has an
    /// answer; if it has none, calls `otherwise` while the driver is still held.
    pub(crate) fn poll(&self, waiter: &mut impl Waiter, otherwise: impl FnOnce(&mut Driver)) -> bool {
        let looked = self.drive_soon(|driver| {
            let found = self.look(driver, waiter);
            if !found {
                otherwise(driver);
            }
            found
        });
        looked.unwrap_or_else(|error| {
            waiter.fail(error);
            true
        })
    }

    /// Looks once, and waits for the driver only for a [`moment`]. Leaves `waiter` without an answer if another thread
    /// holds the driver for longer.
    pub(crate) fn look_soon(&self, waiter: &mut impl Waiter) {
        if let Err(NoEntry::Reentered) = self.drive(&moment(), |driver| self.look(driver, waiter)) {
            waiter.fail(self.reentered());
        }
    }
}

/// The time limit with which a call that must not block waits for the driver. It is longer than another thread needs to
/// release the driver with every core busy; a thread that computes an inline actor's method may hold the driver for
/// ever.
pub(crate) fn moment() -> TimeLimit {
    TimeLimit::new(
        Some(Duration::from_millis(50)),
        "`execute`, which waits, and `Options::submit_timeout`",
    )
}

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
