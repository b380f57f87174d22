//! The waiter for the result of one execution.

use std::ops::Range;

use crate::bind::ports::{Collected, Take};
use crate::run::driver::Driver;
use crate::run::driver::leaf::Status;
use crate::run::engine::Engine;
use crate::run::engine::wait::Waiter;
use crate::run::error::ExecError;

/// The fields of an `Execution` that looks for its result, borrowed.
pub(crate) struct ResultWaiter<'e, Out> {
    pub(crate) engine: &'e Engine,
    pub(crate) number: u64,
    pub(crate) leaves: &'e Range<usize>,
    pub(crate) take: Take<Out>,
    pub(crate) closed: &'e mut bool,
    pub(crate) found: Option<Result<Out, ExecError>>,
}

impl<Out> ResultWaiter<'_, Out> {
    /// Cancels the execution if it is unfinished and this was its last handle.
    fn unfinished(&self, unfinished: bool) {
        if unfinished {
            self.engine.cancel(self.number);
        }
    }
}

impl<Out> Waiter for ResultWaiter<'_, Out> {
    #[inline]
    fn look_at_once(&mut self, driver: &mut Driver) -> bool {
        if !driver.may_move() {
            return false;
        }
        let lengths = self.engine.recipe.lengths.as_slice();
        let Some(taken) = driver.take_at_once(self.number, lengths, self.take) else {
            return false;
        };
        self.found = Some(taken.map_err(|fault| self.engine.error_of(self.number, &fault)));
        *self.closed = true;
        self.unfinished(driver.close_taken(self.number));
        true
    }

    /// Takes the result if it has arrived.
    fn look(&mut self, driver: &mut Driver) -> bool {
        let found = match driver.status(self.number, self.leaves) {
            Status::Pending => return false,
            Status::Gone => Err(ExecError::Taken {
                execution: self.number,
            }),
            Status::Fault(fault) => Err(self.engine.error_of(self.number, &fault)),
            Status::Value => {
                let leaves = driver.lane.leaves.get_mut(self.leaves.clone());
                let lengths = self.engine.recipe.lengths.as_slice();
                let mut collected = Collected::new(leaves.unwrap_or_default(), lengths, self.number);
                (self.take)(&mut collected).map_err(|fault| self.engine.error_of(self.number, &fault))
            }
        };
        if !std::mem::replace(self.closed, true) {
            let unfinished = match found {
                Ok(_) => driver.close_taken(self.number),
                Err(_) => driver.close(self.number, self.leaves),
            };
            self.unfinished(unfinished);
        }
        self.found = Some(found);
        true
    }

    fn fail(&mut self, error: ExecError) {
        self.found = Some(Err(error));
    }
}
