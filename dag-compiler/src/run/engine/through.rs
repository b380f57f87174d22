//! An execution from its input to its result in one go, for who has the graph to itself.
//!
//! What costs most of an execution that takes less than a microsecond is that it may be waited for by anybody, at any time
//! and in any order: a handle that shares the graph, a place in the books of the driver, a lock to submit and one to fetch.
//! Who waits at once and alone needs none of that.

use selvedge_channels::AnyOutlet;

use crate::execution::Take;
use crate::run::driver::Driver;
use crate::run::engine::Engine;
use crate::run::error::ExecError;
use crate::run::patience::Patience;

/// How far it went.
#[derive(Clone, Copy)]
pub(crate) enum Through {
    /// To its end: what it came to has been put where it was asked for.
    Done,
    /// It has been submitted, and is to be waited for as any other.
    Submitted(u64),
    /// Nowhere: it is to be submitted as any other.
    Refused,
}

impl Engine {
    /// Publishes the input with `send`, or stages it with `stage` where that is not to be had, and waits for the result with
    /// the driver in hand: as long as it spins for a result, and while nobody else wants the driver. The result is put into
    /// `found`: handing it through all that waits costs more than all else on the way.
    #[inline]
    pub(crate) fn run_through<Out>(
        &self,
        patience: &Patience,
        take: Take<Out>,
        found: &mut Option<Result<Out, ExecError>>,
        send: impl FnOnce(&mut dyn AnyOutlet) -> bool,
        stage: impl FnOnce(&mut Driver) -> Result<(), ExecError>,
    ) -> Through {
        let through = self.driver.try_with(|driver| {
            // Who leads waits for something, and would have to be told of every move.
            if self.turn.is_led() || !driver.is_idle() || !self.control.is_running() {
                return Through::Refused;
            }
            let execution = if driver.sole_input().is_some_and(send) {
                driver.sent()
            } else if driver.has_room() {
                let sent = stage(driver).and_then(|()| driver.send().map_err(|error| self.broke(&error)));
                match sent {
                    Ok(execution) => execution,
                    Err(error) => {
                        *found = Some(Err(error));
                        return Through::Done;
                    }
                }
            } else {
                return Through::Refused;
            };
            self.await_through(driver, patience, execution, take, found)
        });
        through.unwrap_or(Through::Refused)
    }

    #[inline]
    fn await_through<Out>(
        &self,
        driver: &mut Driver,
        patience: &Patience,
        execution: u64,
        take: Take<Out>,
        found: &mut Option<Result<Out, ExecError>>,
    ) -> Through {
        let lengths = self.recipe.lengths.as_slice();
        self.budget.waiting().spin_on(
            patience.deadline(),
            driver,
            |driver| driver.stirs(),
            |driver| {
                if let Some(taken) = driver.take_sent(execution, lengths, take) {
                    *found = Some(taken.map_err(|fault| Engine::error_of(execution, &fault)));
                    return true;
                }
                // What stirs and cannot be taken is a fault.
                driver.stirs() || self.driver.is_wanted() || !self.control.is_running()
            },
        );
        if found.is_some() {
            return Through::Done;
        }
        driver.book(execution, 1);
        Through::Submitted(execution)
    }
}
