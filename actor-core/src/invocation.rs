//! One COMPUTE of a program: a method's arguments by position, its results by outlet.

use std::future::Future;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Outlet, Value, Wire};

use crate::{AsyncDriver, Failure, Parts};

/// What a generated method wrapper works on. It takes the owned arguments first, in order, then borrows the
/// others, calls the method and finishes with its result.
///
/// `args[i]` is the index in `values` of argument `i`; `outlets[0]` is the whole result, `outlets[1..]` are the
/// parts of a tuple result, each `None` where nobody wants it.
pub struct Invocation<'a> {
    values: &'a mut [Box<dyn AnyValue>],
    args: &'a [usize],
    outlets: &'a mut [Option<Box<dyn AnyOutlet>>],
    driver: &'a AsyncDriver,
}

impl<'a> Invocation<'a> {
    /// Puts one computation together.
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
        }
    }

    /// Argument `i`, owned: moved where this is its last read, cloned otherwise.
    ///
    /// # Errors
    /// [`Failure::Channel`] where the value cannot be read, [`Failure::Internal`] for a wrong position.
    pub fn take<T: Wire>(&mut self, i: usize) -> Result<T, Failure> {
        let index = self.index(i)?;
        let value = self.values.get_mut(index).ok_or_else(|| no_value(i, index))?;
        match value.as_any_mut().downcast_mut::<Value<T>>() {
            Some(value) => Ok(value.take()?),
            None => Err(wrong_argument::<T>(i)),
        }
    }

    /// Argument `i`, in place.
    ///
    /// # Errors
    /// As [`Invocation::take`].
    pub fn get<T: Wire>(&self, i: usize) -> Result<&T, Failure> {
        Ok(self.value::<T>(i)?.get()?)
    }

    /// Argument `i`, a `Vec<E>`, as a slice: a view into the slot where `E` is a primitive.
    ///
    /// # Errors
    /// As [`Invocation::take`].
    pub fn slice<E: Wire>(&self, i: usize) -> Result<&[E], Failure> {
        Ok(self.value::<Vec<E>>(i)?.slice()?)
    }

    /// Argument `i`, a `String`, as text in place.
    ///
    /// # Errors
    /// As [`Invocation::take`].
    pub fn text(&self, i: usize) -> Result<&str, Failure> {
        Ok(self.value::<String>(i)?.text()?)
    }

    /// Hands over the method's result.
    ///
    /// # Errors
    /// [`Failure::Internal`] where the outlet is of another type.
    pub fn finish<T: Wire>(&mut self, value: T) -> Result<(), Failure> {
        stage(self.outlets.first_mut(), value)
    }

    /// Hands over a tuple result, whole and in parts, as they are wanted.
    ///
    /// # Errors
    /// As [`Invocation::finish`].
    pub fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Failure> {
        let Some((whole, parts)) = self.outlets.split_first_mut() else {
            return Ok(());
        };
        let parts_wanted = parts.iter().any(Option::is_some);
        match (whole.is_some(), parts_wanted) {
            (true, true) => {
                stage(Some(whole), value.clone())?;
                value.stage(parts)
            }
            (true, false) => stage(Some(whole), value),
            (false, _) => value.stage(parts),
        }
    }

    /// Runs an async method's future to its end on this thread.
    ///
    /// # Errors
    /// [`Failure::Busy`] when it was interrupted.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        Ok(self.driver.block_on(future)?)
    }

    fn index(&self, i: usize) -> Result<usize, Failure> {
        let count = self.args.len();
        self.args
            .get(i)
            .copied()
            .ok_or_else(|| Failure::Internal(format!("argument {i} asked for, {count} given")))
    }

    fn value<T: Wire>(&self, i: usize) -> Result<&Value<T>, Failure> {
        let index = self.index(i)?;
        let value = self.values.get(index).ok_or_else(|| no_value(i, index))?;
        value
            .as_any()
            .downcast_ref::<Value<T>>()
            .ok_or_else(|| wrong_argument::<T>(i))
    }
}

/// Stages into an outlet that may be absent; a value nobody wants is dropped.
pub(crate) fn stage<T: Wire>(
    outlet: Option<&mut Option<Box<dyn AnyOutlet>>>,
    value: T,
) -> Result<(), Failure> {
    let Some(Some(outlet)) = outlet else { return Ok(()) };
    match outlet.as_any_mut().downcast_mut::<Outlet<T>>() {
        Some(outlet) => {
            outlet.stage(value);
            Ok(())
        }
        None => Err(Failure::Channel(ChannelError::WrongType {
            expected: "the outlet's type",
            found: std::any::type_name::<T>(),
        })),
    }
}

fn no_value(i: usize, index: usize) -> Failure {
    Failure::Internal(format!("argument {i} is value {index}, which does not exist"))
}

fn wrong_argument<T>(i: usize) -> Failure {
    let wanted = std::any::type_name::<T>();
    Failure::Internal(format!(
        "argument {i} is read as `{wanted}` but holds another type"
    ))
}
