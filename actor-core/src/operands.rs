//! What a generated method takes its arguments from and hands its result to.

use std::any::type_name;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Outlet, Value, Wire};

use crate::{Failure, Parts};

/// The arguments of one COMPUTE by position, and where its result goes: an [`Invocation`](crate::Invocation), or a
/// [`Hop`](crate::Hop). A method takes the owned arguments first, in order, then borrows the others, and finishes with its result.
pub trait Operands {
    /// Argument `i`, owned: moved where this is its last read, cloned otherwise.
    ///
    /// # Errors
    /// [`Failure::Channel`] where the value cannot be read, [`Failure::Internal`] for a wrong position or type.
    fn take<T: Wire>(&mut self, i: usize) -> Result<T, Box<Failure>>;

    /// Argument `i`, in place.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    fn get<T: Wire>(&self, i: usize) -> Result<&T, Box<Failure>>;

    /// Argument `i`, a `Vec<E>`, as a slice: a view into the slot where `E` is a primitive.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    fn slice<E: Wire>(&self, i: usize) -> Result<&[E], Box<Failure>>;

    /// Argument `i`, a `String`, as text in place.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    fn text(&self, i: usize) -> Result<&str, Box<Failure>>;

    /// Hands over the method's result.
    ///
    /// # Errors
    /// [`Failure::Channel`] where it goes to something of another type.
    fn finish<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>>;

    /// Hands over a tuple result, whole and in parts, as they are wanted.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>>;
}

/// A value that is argument `i`, with its type.
#[inline]
pub(crate) fn typed<T: Wire>(value: &dyn AnyValue, i: usize) -> Result<&Value<T>, Box<Failure>> {
    value.typed::<T>().ok_or_else(|| wrong_argument::<T>(i))
}

/// A value that is argument `i`, with its type.
#[inline]
pub(crate) fn typed_mut<T: Wire>(value: &mut dyn AnyValue, i: usize) -> Result<&mut Value<T>, Box<Failure>> {
    value.typed_mut::<T>().ok_or_else(|| wrong_argument::<T>(i))
}

/// Sends a result `at_once` where it goes to one channel, which has room, and that runs none of the user's code; stages it otherwise.
/// Whether it has been sent. At once is where nobody notices when the arguments are given back: it is seen before that.
#[inline]
pub(crate) fn send<T: Wire>(
    outlet: &mut dyn AnyOutlet,
    value: T,
    at_once: bool,
) -> Result<bool, Box<Failure>> {
    let outlet = outlet.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?;
    let left = if at_once {
        outlet.try_send(value)
    } else {
        Some(value)
    };
    match left {
        None => Ok(true),
        Some(back) => {
            stage_typed(outlet, back);
            Ok(false)
        }
    }
}

#[inline(never)]
fn stage_typed<T: Wire>(outlet: &mut Outlet<T>, value: T) {
    outlet.stage(value);
}

/// Stages a result.
pub(crate) fn stage<T: Wire>(outlet: &mut dyn AnyOutlet, value: T) -> Result<(), Box<Failure>> {
    stage_typed(outlet.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?, value);
    Ok(())
}

/// A failure is boxed where programs run: what every computation returns is then a word, and not to be copied about.
#[cold]
pub(crate) fn unread(error: ChannelError) -> Box<Failure> {
    Box::new(Failure::Channel(error))
}

#[cold]
pub(crate) fn wrong_outlet<T>() -> Box<Failure> {
    unread(ChannelError::WrongType {
        expected: "the outlet's type",
        found: type_name::<T>(),
    })
}

#[cold]
fn wrong_argument<T>(i: usize) -> Box<Failure> {
    let wanted = type_name::<T>();
    Box::new(Failure::Internal(format!(
        "argument {i} is read as `{wanted}` but holds another type"
    )))
}
