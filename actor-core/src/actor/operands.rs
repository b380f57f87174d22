//! Operands: the arguments of a generated method and the destination of its result.

use std::any::type_name;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Outlet, Value, Wire};

use crate::{Failure, Parts};

/// The arguments of one COMPUTE by position, and the destination of its result: an [`Invocation`](crate::Invocation),
/// or a [`Hop`](crate::Hop). A method takes the owned arguments first, in order, then borrows the others, and finishes
/// with its result.
pub trait Operands {
    /// Takes argument `i` as an owned value: moved if this is its last read, else cloned.
    ///
    /// # Errors
    /// [`Failure::Channel`] if the value cannot be read, [`Failure::Internal`] for a wrong position or type.
    fn take<T: Wire>(&mut self, i: usize) -> Result<T, Box<Failure>>;

    /// Borrows argument `i` in place.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    fn get<T: Wire>(&self, i: usize) -> Result<&T, Box<Failure>>;

    /// Borrows argument `i`, a `Vec<E>`, as a slice: a view into the slot if `E` is a primitive.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    fn slice<E: Wire>(&self, i: usize) -> Result<&[E], Box<Failure>>;

    /// Borrows argument `i`, a `String`, as text in place.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    fn text(&self, i: usize) -> Result<&str, Box<Failure>>;

    /// Hands over the method's result.
    ///
    /// # Errors
    /// [`Failure::Channel`] if the destination is of another type.
    fn finish<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>>;

    /// Hands over a tuple result, as a whole and in parts, as far as edges lead from there.
    ///
    /// # Errors
    /// The errors of [`finish`](Self::finish).
    fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>>;
}

/// Returns argument `i` with its type.
#[inline]
pub(crate) fn typed<T: Wire>(value: &dyn AnyValue, i: usize) -> Result<&Value<T>, Box<Failure>> {
    value.typed::<T>().ok_or_else(|| wrong_argument::<T>(i))
}

/// Returns argument `i` with its type, mutably.
#[inline]
pub(crate) fn typed_mut<T: Wire>(value: &mut dyn AnyValue, i: usize) -> Result<&mut Value<T>, Box<Failure>> {
    value.typed_mut::<T>().ok_or_else(|| wrong_argument::<T>(i))
}

/// Sends a result if `at_once` is `true`, the result goes to one channel with a free slot, and the send runs no user
/// code; else stages it. Returns whether it was sent. A reader may see a sent result before the arguments are released,
/// so `at_once` is for arguments whose release may be delayed.
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

/// Boxes a channel's error as a failure. Methods of programs return boxed failures, so that a result is one word and
/// cheap to copy.
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
