//! Submission: an input becomes an execution.
//!
//! `run` is `execute` and `wait` under one use of the lock. An execution is entered in the books when the lock is
//! released and its result has not come: `execute` enters it at once, `run` only if its spin ends without a result.

use selvedge_channels::AnyOutlet;
use selvedge_core::IdMap;

use crate::api::options::OnFull;
use crate::bind::ports::Take;
use crate::run::driver::Driver;
use crate::run::driver::books::NoRoom;
use crate::run::engine::failure::suspects;
use crate::run::engine::{Engine, TimeLimit};
use crate::run::error::ExecError;

/// An input value that is to be submitted.
pub(crate) trait Submission {
    /// Publishes the value at once if `outlet` can take it; `false` leaves the value as it is.
    fn send(&mut self, outlet: &mut dyn AnyOutlet) -> bool;
    /// Stages the value in the graph's inputs. Called at most once.
    fn stage(&mut self, driver: &mut Driver) -> Result<(), ExecError>;
}

/// How far a thread got with an execution under one use of the lock. It is written to the place that the caller
/// provides: passing it through all the code that waits would cost more than everything else on that path.
pub(crate) enum Outcome<Out> {
    /// The execution has ended with this result.
    Done(Result<Out, ExecError>),
    /// The execution is in the books. The caller waits for it, for the rest of the time limit.
    Pending { number: u64, limit: TimeLimit },
    /// Nothing was submitted, because others use the graph.
    Refused,
}

/// The reasons why an execution was not submitted.
enum Denied {
    Full(NoRoom),
    Ended(Box<ExecError>),
}

impl Denied {
    #[cold]
    fn ended(error: ExecError) -> Self {
        Denied::Ended(Box::new(error))
    }
}

impl Engine {
    /// The behaviour on a full graph and the time limit of submissions, from `Options::on_full` and
    /// `Options::submit_timeout`.
    #[inline]
    pub(crate) fn submit_options(&self) -> (OnFull, TimeLimit) {
        let limit = TimeLimit::new(self.options.submit_timeout_value(), "Options::submit_timeout");
        (self.options.on_full, limit)
    }

    /// Submits the input and waits for the result while the driver is held: for as long as a wait spins, and only while
    /// no other thread wants the driver. The caller sets `ran` to `Refused` beforehand.
    #[inline]
    pub(crate) fn run<Out>(&self, input: &mut impl Submission, take: Take<Out>, ran: &mut Outcome<Out>) {
        // If the driver is not free, `ran` stays refused.
        let _ = self.driver.try_with(|driver| {
            // A leading thread waits for an answer and would have to be told of every move.
            if self.turn.is_led() || !driver.is_idle() {
                return;
            }
            match self.enter(driver, input) {
                Ok(number) => self.take_or_book(driver, number, take, ran),
                Err(Denied::Full(_)) => {}
                Err(Denied::Ended(error)) => *ran = Outcome::Done(Err(*error)),
            }
        });
        self.close_missed();
    }

    /// Waits for room, and submits the input; returns the number of the execution.
    #[inline]
    pub(crate) fn submit(
        &self,
        (on_full, limit): (OnFull, TimeLimit),
        input: &mut impl Submission,
    ) -> Result<u64, ExecError> {
        // There usually is room, and then nothing has to be pumped first.
        match self.drive(&limit, |driver| self.enter_and_book(driver, input)) {
            Ok(Ok(number)) => Ok(number),
            Ok(Err(Denied::Ended(error))) => Err(*error),
            Ok(Err(Denied::Full(_))) => self.submit_later(on_full, &limit, input),
            Err(refused) => Err(self.gave_up(None, &limit, refused)),
        }
    }

    /// Continues [`submit`](Self::submit) after its first attempt found no room.
    #[inline(never)]
    fn submit_later(
        &self,
        on_full: OnFull,
        limit: &TimeLimit,
        input: &mut dyn Submission,
    ) -> Result<u64, ExecError> {
        let mut displaced = None;
        let outcome = self.wait_for(limit, |driver: &mut Driver| {
            match self.enter_and_book(driver, &mut *input) {
                Ok(number) => Some(Ok(number)),
                Err(Denied::Ended(error)) => Some(Err(*error)),
                Err(Denied::Full(no_room)) => self.full(driver, no_room, on_full, &mut displaced).map(Err),
            }
        });
        outcome.unwrap_or_else(|refused| Err(self.gave_up(None, limit, refused)))
    }

    #[inline]
    fn enter_and_book<S: Submission + ?Sized>(
        &self,
        driver: &mut Driver,
        input: &mut S,
    ) -> Result<u64, Denied> {
        let number = self.enter(driver, input)?;
        driver.book(number);
        Ok(number)
    }

    /// Publishes the input if there is room: at once if it is one value and its channel can take it, else staged. The
    /// execution has no place in the books yet.
    #[inline]
    fn enter<S: Submission + ?Sized>(&self, driver: &mut Driver, input: &mut S) -> Result<u64, Denied> {
        if !self.control.is_running() {
            return Err(Denied::ended(self.true_end()));
        }
        if driver.books.has_room() && driver.sole_input().is_some_and(|outlet| input.send(outlet)) {
            return Ok(driver.books.sent());
        }
        if !driver.has_room() {
            match driver.room() {
                Ok(Ok(())) => {}
                Ok(Err(no_room)) => return Err(Denied::Full(no_room)),
                Err(error) => return Err(Denied::ended(self.broke(driver, error))),
            }
        }
        input.stage(driver).map_err(Denied::ended)?;
        driver
            .publish_inputs()
            .map_err(|error| Denied::ended(self.broke(driver, error)))
    }

    /// The reaction to a graph without room: an error, or `None` to wait.
    fn full(
        &self,
        driver: &mut Driver,
        no_room: NoRoom,
        on_full: OnFull,
        displaced: &mut Option<u64>,
    ) -> Option<ExecError> {
        match (no_room, on_full) {
            (NoRoom::Buffered(buffered), _) => Some(ExecError::ResultsBuffered {
                buffered,
                max_buffered: driver.books.max_buffered,
            }),
            (NoRoom::Inflight(inflight), OnFull::Fail) => Some(ExecError::CapacityExceeded {
                inflight,
                max_inflight: driver.books.max_inflight,
            }),
            (NoRoom::Unread(_), OnFull::Fail) => Some(ExecError::InputsUnread {
                behind: suspects(&self.plan, &self.control, &IdMap::new(), &self.recipe.actors).into(),
            }),
            (NoRoom::Inflight(_) | NoRoom::Unread(_), OnFull::DropOldest) => {
                let oldest = driver.books.oldest_unfinished();
                // One that nobody wants ends already. Of another one the slot was taken by somebody else, or a lane has yet to read
                // its inputs.
                if let Some((oldest, true)) = oldest
                    && displaced.is_none_or(|last| last < oldest && matches!(no_room, NoRoom::Inflight(_)))
                {
                    *displaced = Some(oldest);
                    self.cancel(oldest);
                }
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
