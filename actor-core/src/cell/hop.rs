//! Hops: a COMPUTE with one argument and one result, from the value of the argument to the destination of the result.
//!
//! Most tasks are hops. An [`Invocation`](crate::Invocation) runs any task, and finds arguments and outlets by
//! position; that lookup takes longer than a small method, and longer than the rest of the path from one actor to the
//! next in its lane.

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Value, Wire, dispose};

use crate::actor::operands::{Operands, send, typed, typed_mut, unread, wrong_outlet};
use crate::{Failure, Parts};

/// The destination of a result.
pub enum Destination<'a> {
    /// A value of the same lane, as the only destination.
    Local(&'a mut dyn AnyValue),
    /// An outlet to other lanes.
    Outlet(&'a mut dyn AnyOutlet),
}

/// The operands of a method with one parameter.
pub struct Hop<'a> {
    argument: &'a mut dyn AnyValue,
    destination: Destination<'a>,
    execution: u64,
    handed_over: bool,
}

impl<'a> Hop<'a> {
    /// Creates the operands of one computation of `execution`. A local destination must be empty.
    #[inline]
    pub fn new(argument: &'a mut dyn AnyValue, destination: Destination<'a>, execution: u64) -> Self {
        Hop {
            argument,
            destination,
            execution,
            handed_over: false,
        }
    }

    /// Whether the result has been handed over to its destination. If the method has succeeded and this is `false`, the
    /// result is staged in the outlet.
    #[inline]
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Returns the argument, after the method has returned.
    #[inline]
    pub fn into_argument(self) -> &'a mut dyn AnyValue {
        self.argument
    }
}

impl Hop<'_> {
    /// Hands over a result that leaves the lane.
    #[inline(never)]
    fn leave<T: Wire>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Destination::Outlet(outlet) = &mut self.destination else {
            return Err(wrong_outlet::<T>());
        };
        self.handed_over = send(*outlet, value, self.argument.owes_nothing())?;
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

/// A hop has one argument, so positions are ignored.
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

    /// Hands over the whole value. A tuple result whose parts are wanted has several outlets and is not a hop.
    #[inline]
    fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>> {
        self.finish(value)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_channels::{Arrival, Doorbell, Inlet, PayloadType, Readiness, Routes};

    use super::*;

    fn local(put: Option<i64>) -> Box<dyn AnyValue> {
        let mut value = PayloadType::of::<i64>().value(Inlet::Local, 1).unwrap();
        if let Some(put) = put {
            value.typed_mut::<i64>().unwrap().put(0, Ok(put)).unwrap();
        }
        value
    }

    /// An outlet to another lane, and the value that receives from it.
    fn away() -> (Box<dyn AnyOutlet>, Box<dyn AnyValue>) {
        let kind = PayloadType::of::<i64>();
        let (writer, readers) = kind.ring(2, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
        let routes = Routes {
            local: None,
            ring: Some(writer),
            shared: None,
        };
        let reader = readers.into_iter().next().unwrap();
        (
            kind.outlet(routes).unwrap(),
            kind.value(Inlet::Ring(reader), 1).unwrap(),
        )
    }

    #[test]
    fn a_result_goes_from_value_to_value() {
        let (mut from, mut to) = (local(Some(20)), local(None));
        let mut hop = Hop::new(from.as_mut(), Destination::Local(to.as_mut()), 0);
        assert_eq!(*hop.get::<i64>(0).unwrap(), 20);
        let taken = hop.take::<i64>(0).unwrap();
        hop.finish(taken + 1).unwrap();
        assert!(hop.has_handed_over());
        assert!(hop.into_argument().count_read());
        assert!(from.is_empty());
        assert_eq!(to.fill(0).unwrap(), Arrival::Value);
        assert_eq!(to.typed_mut::<i64>().unwrap().take().unwrap(), 21);
    }

    #[test]
    fn a_result_leaves_at_once_where_nobody_waits_for_the_argument_and_is_staged_otherwise() {
        for (reads, at_once) in [(1, true), (2, false)] {
            let (mut outlet, mut there) = away();
            let mut argument = PayloadType::of::<String>().value(Inlet::Local, reads).unwrap();
            let text = Ok("twenty".to_owned());
            argument.typed_mut::<String>().unwrap().put(0, text).unwrap();
            let mut hop = Hop::new(argument.as_mut(), Destination::Outlet(outlet.as_mut()), 0);
            let taken = hop.take::<String>(0).unwrap();
            hop.finish(taken.len() as i64).unwrap();
            assert_eq!(hop.has_handed_over(), at_once);
            if !at_once {
                assert_eq!(there.fill(0).unwrap(), Arrival::Nothing);
                assert_eq!(outlet.publish(0, &mut []).unwrap(), Readiness::Ready);
            }
            assert_eq!(there.fill(0).unwrap(), Arrival::Value);
            assert_eq!(there.typed_mut::<i64>().unwrap().take().unwrap(), 6);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_lost() {
        let (mut from, mut to) = (local(Some(20)), local(Some(1)));
        let mut hop = Hop::new(from.as_mut(), Destination::Local(to.as_mut()), 0);
        assert!(hop.take::<String>(0).is_err());
        assert!(hop.slice::<u8>(0).is_err());
        assert!(hop.finish(String::new()).is_err());
        assert!(hop.finish(2_i64).is_err(), "it holds another");
        assert!(!hop.has_handed_over());
        assert_eq!(hop.take::<i64>(0).unwrap(), 20);
        assert!(hop.take::<i64>(0).is_err(), "it is gone");
        assert_eq!(to.typed_mut::<i64>().unwrap().take().unwrap(), 1);
        let (mut outlet, _there) = away();
        let mut hop = Hop::new(from.as_mut(), Destination::Outlet(outlet.as_mut()), 0);
        assert!(hop.finish(String::new()).is_err());
        assert!(!hop.has_handed_over());
    }
}
