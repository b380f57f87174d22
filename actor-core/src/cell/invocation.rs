//! Invocations: a COMPUTE of a program, with arguments by position and results by outlet.

use std::future::Future;

use selvedge_channels::{AnyOutlet, AnyValue, Wire};

use crate::actor::operands::{Operands, send, stage, typed, typed_mut, unread};
use crate::{AsyncDriver, Failure, Parts};

/// The operands of a generated method.
///
/// `args[i]` is the index in `values` of argument `i`. `outlets[0]` takes the whole result and `outlets[1..]` take the
/// parts of a tuple result; each is `None` if no edge leads from there.
pub struct Invocation<'a> {
    values: &'a mut [Box<dyn AnyValue>],
    args: &'a [usize],
    outlets: &'a mut [Option<Box<dyn AnyOutlet>>],
    driver: &'a AsyncDriver,
    /// The execution, if a result with one destination is to be handed over at once.
    at_once: Option<u64>,
    handed_over: bool,
}

impl<'a> Invocation<'a> {
    /// Creates the operands of one computation.
    #[inline]
    pub fn new(
        values: &'a mut [Box<dyn AnyValue>],
        args: &'a [usize],
        outlets: &'a mut [Option<Box<dyn AnyOutlet>>],
        driver: &'a AsyncDriver,
    ) -> Self {
        Self {
            values,
            args,
            outlets,
            driver,
            at_once: None,
            handed_over: false,
        }
    }

    /// Requests that a result with a single destination is handed over at once, as the result of `execution`, instead
    /// of being staged. A result for the same lane is put into the local value. A result for a channel is sent if the
    /// send runs no user code and the release of the arguments may come after it, because each argument was moved out,
    /// or is local and has no destructor. See [`has_handed_over`](Self::has_handed_over).
    #[inline]
    #[must_use]
    pub fn at_once(mut self, execution: u64) -> Self {
        self.at_once = Some(execution);
        self
    }

    /// Whether the result has been handed over to its destination; nothing is staged then.
    #[inline]
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Runs an async method's future to completion on this thread.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] if the future awaited and was no longer wanted, [`Failure::TimedOut`] if it took too
    /// long.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Box<Failure>> {
        Ok(self.driver.block_on(future).map_err(Failure::from)?)
    }

    /// Hands over a result that leaves the lane or must be staged.
    #[inline(never)]
    fn hand_on<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Some(Some(outlet)) = self.outlets.first_mut() else {
            return Ok(());
        };
        let at_once = self.at_once.is_some() && owes_nothing(self.values, self.args);
        self.handed_over = send(outlet.as_mut(), value, at_once)?;
        Ok(())
    }

    #[inline]
    fn index(&self, i: usize) -> Result<usize, Box<Failure>> {
        match self.args.get(i) {
            Some(index) => Ok(*index),
            None => Err(no_argument(i, self.args.len())),
        }
    }

    #[inline]
    fn value(&self, i: usize) -> Result<&dyn AnyValue, Box<Failure>> {
        let index = self.index(i)?;
        let value = self.values.get(index).ok_or_else(|| no_value(i, index))?;
        Ok(value.as_ref())
    }
}

impl Operands for Invocation<'_> {
    #[inline]
    fn take<T: Wire>(&mut self, i: usize) -> Result<T, Box<Failure>> {
        let index = self.index(i)?;
        let value = self.values.get_mut(index).ok_or_else(|| no_value(i, index))?;
        typed_mut::<T>(value.as_mut(), i)?.take().map_err(unread)
    }

    #[inline]
    fn get<T: Wire>(&self, i: usize) -> Result<&T, Box<Failure>> {
        typed::<T>(self.value(i)?, i)?.get().map_err(unread)
    }

    #[inline]
    fn slice<E: Wire>(&self, i: usize) -> Result<&[E], Box<Failure>> {
        typed::<Vec<E>>(self.value(i)?, i)?.slice().map_err(unread)
    }

    #[inline]
    fn text(&self, i: usize) -> Result<&str, Box<Failure>> {
        typed::<String>(self.value(i)?, i)?.text().map_err(unread)
    }

    #[inline]
    fn finish<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Some(Some(outlet)) = self.outlets.first_mut() else {
            return Ok(());
        };
        let mut value = value;
        if let (Some(execution), Some(index)) = (self.at_once, outlet.within())
            && let Some(local) = self.values.get_mut(index)
            && let Some(local) = local.typed_mut::<T>()
        {
            match local.try_put(execution, value) {
                None => {
                    self.handed_over = true;
                    return Ok(());
                }
                Some(back) => value = back,
            }
        }
        self.hand_on(value)
    }

    fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Some((whole, parts)) = self.outlets.split_first_mut() else {
            return Ok(());
        };
        let parts_wanted = parts.iter().any(Option::is_some);
        match (whole, parts_wanted) {
            (Some(whole), true) => {
                stage(whole.as_mut(), value.clone())?;
                value.stage(parts)
            }
            (Some(whole), false) => stage(whole.as_mut(), value),
            (None, _) => value.stage(parts),
        }
    }
}

/// Whether the release of the arguments may be delayed: each was moved out, or is local and has no destructor.
#[inline]
fn owes_nothing(values: &[Box<dyn AnyValue>], args: &[usize]) -> bool {
    let value = |index: &usize| values.get(*index);
    args.iter()
        .all(|index| value(index).is_some_and(|value| value.owes_nothing()))
}

#[cold]
fn no_argument(i: usize, count: usize) -> Box<Failure> {
    Box::new(Failure::Internal(format!(
        "argument {i} asked for, {count} given"
    )))
}

#[cold]
fn no_value(i: usize, index: usize) -> Box<Failure> {
    Box::new(Failure::Internal(format!(
        "argument {i} is value {index}, which does not exist"
    )))
}
