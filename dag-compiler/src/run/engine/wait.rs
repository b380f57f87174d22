//! Waiting: a thread looks for its answer, spins while it holds the driver, then leads or follows.

use std::time::Duration;

use selvedge_channels::Waiting;
use selvedge_core::NoEntry;

use crate::bind::ports::collect::Take;
use crate::run::driver::Driver;
use crate::run::engine::Engine;
use crate::run::engine::submit::Outcome;
use crate::run::engine::time_limit::TimeLimit;
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
        Some(self.gave_up(execution, since, limit, refused))
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
