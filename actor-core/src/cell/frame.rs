//! Frames: the arguments of one COMPUTE, and the destination of its result.
//!
//! Most tasks have one argument and one result. Their frame refers to both directly: a look-up by position takes longer
//! than a small method, and longer than the rest of the path from one actor to the next in its lane.

use std::any::type_name;
use std::future::Future;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Outlet, Payload, Value, dispose};

use crate::{AsyncDriver, Failure, Parts};

/// The position of a value among the values of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueIx(pub usize);

selvedge_cluster::id_key!(ValueIx as usize: |index| index.0);

/// The values and outlets that a method works on.
pub enum Operands<'a> {
    /// One argument, and a value of the same lane as the only destination of the result. The destination is empty.
    ToLocal {
        /// The argument.
        argument: &'a mut dyn AnyValue,
        /// The destination.
        local: &'a mut dyn AnyValue,
    },
    /// One argument, and an outlet as the only destination of the result.
    ToOutlet {
        /// The argument.
        argument: &'a mut dyn AnyValue,
        /// The destination.
        outlet: &'a mut dyn AnyOutlet,
    },
    /// Any number of arguments and destinations.
    ByPosition {
        /// The values of the lane.
        values: &'a mut [Box<dyn AnyValue>],
        /// For each argument, its index in `values`.
        params: &'a [ValueIx],
        /// The outlet of the whole result, then the outlets of the parts of a tuple result; each is `None` if no edge
        /// leads from there.
        outlets: &'a mut [Option<Box<dyn AnyOutlet>>],
        /// True if a result with a single destination is to be handed over at once instead of being staged.
        at_once: bool,
    },
}

/// The operands of one call of a method. A method takes the owned arguments first, in order, then borrows the others,
/// and finishes with its result.
///
/// A result for a value of the same lane is put there at once. A result for an outlet is sent at once if the send runs
/// no user code and the release of the arguments may come after it, because each argument was moved out, or is local
/// and has no destructor: a reader may see the result before the arguments are released. Every other result is staged
/// in its outlet.
pub struct Frame<'a> {
    operands: Operands<'a>,
    driver: &'a AsyncDriver,
    execution: u64,
    handed_over: bool,
}

impl<'a> Frame<'a> {
    /// Creates the frame of one computation of `execution`.
    #[inline]
    pub fn new(operands: Operands<'a>, driver: &'a AsyncDriver, execution: u64) -> Self {
        Frame {
            operands,
            driver,
            execution,
            handed_over: false,
        }
    }
}

impl Frame<'_> {
    /// Whether the result has been handed over to its destination. If the method has succeeded and this is `false`, the
    /// result is staged in its outlets.
    #[inline]
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Counts the read of the only argument, if the argument need not be released after it. Else returns `false`, with
    /// nothing changed, as for arguments by position.
    #[inline]
    pub fn count_read(&mut self) -> bool {
        match &mut self.operands {
            Operands::ToLocal { argument, .. } | Operands::ToOutlet { argument, .. } => {
                argument.try_read_done()
            }
            Operands::ByPosition { .. } => false,
        }
    }

    /// Takes argument `i` as an owned value: moved if this is its last read, else cloned.
    ///
    /// # Errors
    /// [`Failure::Channel`] if the value cannot be read, [`Failure::Internal`] for a wrong position or type.
    #[inline]
    pub fn take<T: Payload>(&mut self, i: usize) -> Result<T, Box<Failure>> {
        let argument = match &mut self.operands {
            Operands::ToLocal { argument, .. } | Operands::ToOutlet { argument, .. } if i == 0 => {
                &mut **argument
            }
            Operands::ByPosition { values, params, .. } => {
                let value = params.get(i).and_then(|index| values.get_mut(index.0));
                value.ok_or_else(|| no_argument(i))?.as_mut()
            }
            _ => return Err(no_argument(i)),
        };
        let argument = argument.typed_mut::<T>().ok_or_else(|| wrong_argument::<T>(i))?;
        match argument.try_take() {
            Some(value) => Ok(value),
            None => take_other(argument),
        }
    }

    /// Borrows argument `i` in place.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    #[inline]
    pub fn get<T: Payload>(&self, i: usize) -> Result<&T, Box<Failure>> {
        self.argument::<T>(i)?.get().map_err(unread)
    }

    /// Borrows argument `i`, a `Vec<E>`, as a slice: a view into the slot if `E` is a primitive.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    #[inline]
    pub fn slice<E: Payload>(&self, i: usize) -> Result<&[E], Box<Failure>> {
        self.argument::<Vec<E>>(i)?.slice().map_err(unread)
    }

    /// Borrows argument `i`, a `String`, as text in place.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    #[inline]
    pub fn text(&self, i: usize) -> Result<&str, Box<Failure>> {
        self.argument::<String>(i)?.text().map_err(unread)
    }

    #[inline]
    fn argument<T: Payload>(&self, i: usize) -> Result<&Value<T>, Box<Failure>> {
        let argument = match &self.operands {
            Operands::ToLocal { argument, .. } | Operands::ToOutlet { argument, .. } if i == 0 => &**argument,
            Operands::ByPosition { values, params, .. } => {
                let value = params.get(i).and_then(|index| values.get(index.0));
                value.ok_or_else(|| no_argument(i))?.as_ref()
            }
            _ => return Err(no_argument(i)),
        };
        argument.typed::<T>().ok_or_else(|| wrong_argument::<T>(i))
    }

    /// Runs an async method's future to completion on this thread.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] if the future awaited and was no longer wanted, [`Failure::TimedOut`] if it took too
    /// long.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Box<Failure>> {
        Ok(self.driver.block_on(future).map_err(Failure::from)?)
    }

    /// Hands over the method's result.
    ///
    /// # Errors
    /// [`Failure::Channel`] if the destination is of another type.
    #[inline]
    pub fn finish<T: Payload>(&mut self, value: T) -> Result<(), Box<Failure>> {
        let Operands::ToLocal { local, .. } = &mut self.operands else {
            return self.leave(value);
        };
        let local = local.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?;
        if let Some(refused) = local.try_put(self.execution, value) {
            return Err(unread_before(refused));
        }
        self.handed_over = true;
        Ok(())
    }

    /// Hands over a tuple result, as a whole and in parts, as far as edges lead from there.
    ///
    /// # Errors
    /// The errors of [`finish`](Self::finish).
    #[inline]
    pub fn finish_parts<T: Parts>(&mut self, value: T) -> Result<(), Box<Failure>> {
        match &mut self.operands {
            Operands::ByPosition { outlets, .. } if outlets.iter().skip(1).any(Option::is_some) => {
                stage_parts(outlets, value)
            }
            _ => self.finish(value),
        }
    }

    /// Hands over a result that is not for a known value of the lane.
    #[inline(never)]
    fn leave<T: Payload>(&mut self, value: T) -> Result<(), Box<Failure>> {
        match &mut self.operands {
            Operands::ToLocal { .. } => return Err(wrong_outlet::<T>()),
            Operands::ToOutlet { argument, outlet } => {
                self.handed_over = send(*outlet, value, argument.owes_nothing())?;
            }
            Operands::ByPosition {
                values,
                params,
                outlets,
                at_once,
            } => {
                let Some(Some(outlet)) = outlets.first_mut() else {
                    return Ok(());
                };
                let mut value = value;
                if *at_once
                    && let Some(local) = outlet.within().and_then(|index| values.get_mut(index))
                    && let Some(local) = local.typed_mut::<T>()
                {
                    match local.try_put(self.execution, value) {
                        None => {
                            self.handed_over = true;
                            return Ok(());
                        }
                        Some(back) => value = back,
                    }
                }
                let owes_nothing =
                    |index: &ValueIx| values.get(index.0).is_some_and(|value| value.owes_nothing());
                let at_once = *at_once && params.iter().all(owes_nothing);
                self.handed_over = send(outlet.as_mut(), value, at_once)?;
            }
        }
        Ok(())
    }
}

#[inline(never)]
fn take_other<T: Payload>(argument: &mut Value<T>) -> Result<T, Box<Failure>> {
    argument.take().map_err(unread)
}

/// Sends a result if `at_once` is `true`, the result goes to one channel with a free slot, and the send runs no user
/// code; else stages it. Returns whether it was sent.
#[inline]
fn send<T: Payload>(outlet: &mut dyn AnyOutlet, value: T, at_once: bool) -> Result<bool, Box<Failure>> {
    let outlet = outlet.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?;
    let left = if at_once {
        outlet.try_put(value)
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

/// Stages a tuple result of which parts are wanted.
fn stage_parts<T: Parts>(outlets: &mut [Option<Box<dyn AnyOutlet>>], value: T) -> Result<(), Box<Failure>> {
    let Some((whole, parts)) = outlets.split_first_mut() else {
        return Ok(());
    };
    if let Some(whole) = whole {
        let whole = whole.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?;
        let copy = whole.copy(&value).map_err(unread)?;
        stage_typed(whole, copy);
    }
    value.stage(parts)
}

#[inline(never)]
fn stage_typed<T: Payload>(outlet: &mut Outlet<T>, value: T) {
    outlet.stage(value);
}

/// Stages a result.
pub(crate) fn stage<T: Payload>(outlet: &mut dyn AnyOutlet, value: T) -> Result<(), Box<Failure>> {
    stage_typed(outlet.typed_mut::<T>().ok_or_else(wrong_outlet::<T>)?, value);
    Ok(())
}

/// Boxes a channel's error as a failure. Methods of programs return boxed failures, so that a result is one word and
/// cheap to copy.
#[cold]
fn unread(error: ChannelError) -> Box<Failure> {
    Box::new(Failure::from(error))
}

#[cold]
fn unread_before<T>(refused: T) -> Box<Failure> {
    dispose(refused);
    unread(ChannelError::Unread)
}

#[cold]
fn wrong_outlet<T>() -> Box<Failure> {
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

#[cold]
fn no_argument(i: usize) -> Box<Failure> {
    Box::new(Failure::Internal(format!("the task has no argument {i}")))
}

#[cfg(test)]
mod tests {
    use selvedge_channels::{Arrival, Doorbell, Inlet, Local, PayloadType, Readiness, Route, Routes};

    use super::*;

    fn local(put: Option<i64>) -> Box<dyn AnyValue> {
        let mut value = PayloadType::of::<i64>().value(Inlet::Local(Local), 1).unwrap();
        if let Some(put) = put {
            value.typed_mut::<i64>().unwrap().put(0, Ok(put)).unwrap();
        }
        value
    }

    fn to_local<'a>(from: &'a mut Box<dyn AnyValue>, to: &'a mut Box<dyn AnyValue>) -> Operands<'a> {
        let (argument, local) = (from.as_mut(), to.as_mut());
        Operands::ToLocal { argument, local }
    }

    fn to_outlet<'a>(from: &'a mut Box<dyn AnyValue>, to: &'a mut Box<dyn AnyOutlet>) -> Operands<'a> {
        let (argument, outlet) = (from.as_mut(), to.as_mut());
        Operands::ToOutlet { argument, outlet }
    }

    /// An outlet to another lane, and the value that receives from it.
    fn away() -> (Box<dyn AnyOutlet>, Box<dyn AnyValue>) {
        let kind = PayloadType::of::<i64>();
        let (writer, readers) = kind.ring(2, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
        let routes = Routes {
            local: None,
            channels: vec![Route::Ring(writer)],
        };
        let reader = readers.into_iter().next().unwrap();
        (
            kind.outlet(routes).unwrap(),
            kind.value(Inlet::Ring(reader), 1).unwrap(),
        )
    }

    #[test]
    fn a_result_goes_from_value_to_value() {
        let driver = AsyncDriver::new();
        let (mut from, mut to) = (local(Some(20)), local(None));
        let mut frame = Frame::new(to_local(&mut from, &mut to), &driver, 0);
        assert_eq!(*frame.get::<i64>(0).unwrap(), 20);
        let taken = frame.take::<i64>(0).unwrap();
        frame.finish(taken + 1).unwrap();
        assert!(frame.has_handed_over());
        assert!(frame.count_read());
        assert!(from.is_empty());
        assert_eq!(to.receive(0).unwrap(), Arrival::Value);
        assert_eq!(to.typed_mut::<i64>().unwrap().take().unwrap(), 21);
    }

    #[test]
    fn a_result_leaves_at_once_where_nobody_waits_for_the_argument_and_is_staged_otherwise() {
        let driver = AsyncDriver::new();
        for (reads, at_once) in [(1, true), (2, false)] {
            let (mut outlet, mut there) = away();
            let mut argument = PayloadType::of::<String>()
                .value(Inlet::Local(Local), reads)
                .unwrap();
            let text = Ok("twenty".to_owned());
            argument.typed_mut::<String>().unwrap().put(0, text).unwrap();
            let mut frame = Frame::new(to_outlet(&mut argument, &mut outlet), &driver, 0);
            let taken = frame.take::<String>(0).unwrap();
            frame.finish(taken.len() as i64).unwrap();
            assert_eq!(frame.has_handed_over(), at_once);
            if !at_once {
                assert_eq!(there.receive(0).unwrap(), Arrival::Nothing);
                assert_eq!(outlet.publish(0, &mut []).unwrap(), Readiness::Ready);
            }
            assert_eq!(there.receive(0).unwrap(), Arrival::Value);
            assert_eq!(there.typed_mut::<i64>().unwrap().take().unwrap(), 6);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_lost() {
        let driver = AsyncDriver::new();
        let (mut from, mut to) = (local(Some(20)), local(Some(1)));
        let mut frame = Frame::new(to_local(&mut from, &mut to), &driver, 0);
        assert!(frame.take::<String>(0).is_err());
        assert!(frame.slice::<u8>(0).is_err());
        assert!(frame.take::<i64>(1).is_err(), "there is one argument");
        assert!(frame.finish(String::new()).is_err());
        assert!(frame.finish(2_i64).is_err(), "it holds another");
        assert!(!frame.has_handed_over());
        assert_eq!(frame.take::<i64>(0).unwrap(), 20);
        assert!(frame.take::<i64>(0).is_err(), "it is gone");
        assert_eq!(to.typed_mut::<i64>().unwrap().take().unwrap(), 1);
        let (mut outlet, _there) = away();
        let mut frame = Frame::new(to_outlet(&mut from, &mut outlet), &driver, 0);
        assert!(frame.finish(String::new()).is_err());
        assert!(!frame.has_handed_over());
    }
}
