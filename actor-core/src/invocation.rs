//! One COMPUTE of a program: a method's arguments by position, its results by outlet.

use std::future::Future;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Value, Wire};

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
    /// The execution, where a result that goes to one place is to be handed over at once.
    at_once: Option<u64>,
    handed_over: bool,
}

impl<'a> Invocation<'a> {
    /// Puts one computation together.
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

    /// Has a result that goes to one place and nowhere else handed over at once, as that of `execution`, where it would be staged
    /// otherwise: put into a local value, or sent to a channel where that runs none of the user's code and nobody notices when
    /// the arguments are given back. See [`has_handed_over`](Self::has_handed_over).
    #[inline]
    #[must_use]
    pub fn at_once(mut self, execution: u64) -> Self {
        self.at_once = Some(execution);
        self
    }

    /// Whether the result has been put where it goes: nothing is staged then.
    #[inline]
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Argument `i`, owned: moved where this is its last read, cloned otherwise.
    ///
    /// # Errors
    /// [`Failure::Channel`] where the value cannot be read, [`Failure::Internal`] for a wrong position.
    #[inline]
    pub fn take<T: Wire>(&mut self, i: usize) -> Result<T, Box<Failure>> {
        let index = self.index(i)?;
        let value = self.values.get_mut(index).ok_or_else(|| no_value(i, index))?;
        match value.typed_mut::<T>() {
            Some(value) => value.take().map_err(unread),
            None => Err(wrong_argument::<T>(i)),
        }
    }

    /// Argument `i`, in place.
    ///
    /// # Errors
    /// As [`Invocation::take`].
    #[inline]
    pub fn get<T: Wire>(&self, i: usize) -> Result<&T, Box<Failure>> {
        self.value::<T>(i)?.get().map_err(unread)
    }

    /// Argument `i`, a `Vec<E>`, as a slice: a view into the slot where `E` is a primitive.
    ///
    /// # Errors
    /// As [`Invocation::take`].
    #[inline]
    pub fn slice<E: Wire>(&self, i: usize) -> Result<&[E], Box<Failure>> {
        self.value::<Vec<E>>(i)?.slice().map_err(unread)
    }

    /// Argument `i`, a `String`, as text in place.
    ///
    /// # Errors
    /// As [`Invocation::take`].
    #[inline]
    pub fn text(&self, i: usize) -> Result<&str, Box<Failure>> {
        self.value::<String>(i)?.text().map_err(unread)
    }

    /// Hands over the method's result.
    ///
    /// # Errors
    /// [`Failure::Internal`] where the outlet is of another type.
    #[inline]
    pub fn finish<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>> {
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

    /// Hands over what leaves the lane, or is to be staged.
    #[inline(never)]
    fn hand_on<T: Wire>(&mut self, mut value: T) -> Result<(), Box<Failure>> {
        let Some(Some(outlet)) = self.outlets.first_mut() else {
            return Ok(());
        };
        if self.at_once.is_some()
            && outlet.only_moves()
            && owes_nothing(self.values, self.args)
            && let Some(outlet) = outlet.typed_mut::<T>()
        {
            match outlet.try_send(value) {
                None => {
                    self.handed_over = true;
                    return Ok(());
                }
                Some(back) => value = back,
            }
        }
        stage_in(outlet.as_mut(), value)
    }

    /// Hands over a tuple result, whole and in parts, as they are wanted.
    ///
    /// # Errors
    /// As [`Invocation::finish`].
    pub fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>> {
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
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Box<Failure>> {
        Ok(self.driver.block_on(future).map_err(Failure::from)?)
    }

    #[inline]
    fn index(&self, i: usize) -> Result<usize, Box<Failure>> {
        match self.args.get(i) {
            Some(index) => Ok(*index),
            None => Err(no_argument(i, self.args.len())),
        }
    }

    #[inline]
    fn value<T: Wire>(&self, i: usize) -> Result<&Value<T>, Box<Failure>> {
        let index = self.index(i)?;
        let value = self.values.get(index).ok_or_else(|| no_value(i, index))?;
        value.typed::<T>().ok_or_else(|| wrong_argument::<T>(i))
    }
}

/// Whether nobody notices when the arguments are given back.
#[inline]
fn owes_nothing(values: &[Box<dyn AnyValue>], args: &[usize]) -> bool {
    let value = |index: &usize| values.get(*index);
    args.iter()
        .all(|index| value(index).is_some_and(|value| value.owes_nothing()))
}

/// Stages into an outlet that may be absent; a value nobody wants is dropped.
pub(crate) fn stage<T: Wire>(
    outlet: Option<&mut Option<Box<dyn AnyOutlet>>>,
    value: T,
) -> Result<(), Box<Failure>> {
    match outlet {
        Some(Some(outlet)) => stage_in(outlet.as_mut(), value),
        _ => Ok(()),
    }
}

#[inline]
fn stage_in<T: Wire>(outlet: &mut dyn AnyOutlet, value: T) -> Result<(), Box<Failure>> {
    match outlet.typed_mut::<T>() {
        Some(outlet) => {
            outlet.stage(value);
            Ok(())
        }
        None => Err(wrong_outlet::<T>()),
    }
}

#[cold]
fn wrong_outlet<T>() -> Box<Failure> {
    unread(ChannelError::WrongType {
        expected: "the outlet's type",
        found: std::any::type_name::<T>(),
    })
}

/// A failure is boxed where programs run: what every computation returns is then a word, and not to be copied about.
#[cold]
fn unread(error: ChannelError) -> Box<Failure> {
    Box::new(Failure::Channel(error))
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

#[cold]
fn wrong_argument<T>(i: usize) -> Box<Failure> {
    let wanted = std::any::type_name::<T>();
    Box::new(Failure::Internal(format!(
        "argument {i} is read as `{wanted}` but holds another type"
    )))
}
