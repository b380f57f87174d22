//! A COMPUTE of one argument and one result, from where the one lies to where the other goes.
//!
//! Most tasks are no more than this. An [`Invocation`](crate::Invocation) does the same for any task, and finds argument and
//! outlet by their positions among many; that takes longer than a small method, and all else on the way from one actor to the
//! next in its lane.

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Value, Wire, dispose};

use crate::operands::{Operands, send, stage, typed, typed_mut, unread, wrong_outlet};
use crate::{Failure, Parts};

/// Where a result goes.
pub enum Destination<'a> {
    /// To a value of the same lane, and nowhere else.
    Local(&'a mut dyn AnyValue),
    /// To other lanes.
    Outlet(&'a mut dyn AnyOutlet),
}

/// What a method of one parameter works on.
pub struct Hop<'a> {
    argument: &'a mut dyn AnyValue,
    destination: Destination<'a>,
    execution: u64,
    handed_over: bool,
}

impl<'a> Hop<'a> {
    /// One computation of `execution`. A local destination holds nothing.
    #[inline]
    pub fn new(argument: &'a mut dyn AnyValue, destination: Destination<'a>, execution: u64) -> Self {
        Hop {
            argument,
            destination,
            execution,
            handed_over: false,
        }
    }

    /// Whether the result has been put where it goes: otherwise it is staged in the outlet.
    #[inline]
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// The argument, when its method has returned.
    #[inline]
    pub fn into_argument(self) -> &'a mut dyn AnyValue {
        self.argument
    }
}

impl Hop<'_> {
    /// Hands over what leaves the lane.
    #[inline(never)]
    fn leave<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Destination::Outlet(outlet) = &mut self.destination else {
            return Err(wrong_outlet::<T>());
        };
        if !self.argument.owes_nothing() {
            return stage(*outlet, value);
        }
        self.handed_over = send(*outlet, value)?;
        Ok(())
    }
}

#[inline(never)]
fn take_other<T: Wire>(argument: &mut Value<T>) -> Result<T, Box<Failure>> {
    argument.take().map_err(unread)
}

#[cold]
fn unread_before<T>(refused: T) -> Box<Failure> {
    dispose(refused);
    unread(ChannelError::Unread)
}

/// There is one argument, whatever its position is said to be.
impl Operands for Hop<'_> {
    #[inline]
    fn take<T: Wire>(&mut self, i: usize) -> Result<T, Box<Failure>> {
        let argument = typed_mut::<T>(self.argument, i)?;
        match argument.try_take() {
            Some(value) => Ok(value),
            None => take_other(argument),
        }
    }

    #[inline]
    fn get<T: Wire>(&self, i: usize) -> Result<&T, Box<Failure>> {
        typed::<T>(self.argument, i)?.get().map_err(unread)
    }

    #[inline]
    fn slice<E: Wire>(&self, i: usize) -> Result<&[E], Box<Failure>> {
        typed::<Vec<E>>(self.argument, i)?.slice().map_err(unread)
    }

    #[inline]
    fn text(&self, i: usize) -> Result<&str, Box<Failure>> {
        typed::<String>(self.argument, i)?.text().map_err(unread)
    }

    #[inline]
    fn finish<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Destination::Local(local) = &mut self.destination else {
            return self.leave(value);
        };
        let local = local.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?;
        if let Some(refused) = local.try_put(self.execution, value) {
            return Err(unread_before(refused));
        }
        self.handed_over = true;
        Ok(())
    }

    /// Where the parts are wanted there are several outlets, and no hop: only the whole goes on.
    #[inline]
    fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>> {
        self.finish(value)
    }
}
