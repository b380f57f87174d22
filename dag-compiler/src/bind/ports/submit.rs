//! Submit time: a user's input becomes staged outlets.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge_channels::{AnyOutlet, ChannelError, Outlet, Payload, dispose};
use selvedge_core::Parts;

use crate::run::report::{Cause, TaskInfo, fault_with};

/// A function that takes a tuple apart and stages the whole and the parts in their outlets.
pub(crate) type Splitter = fn(&mut dyn Any, &mut InputPort) -> Result<(), ChannelError>;

/// Returns the splitter of a tuple type.
pub(crate) fn splitter<T: Parts>() -> Splitter {
    |value, port| {
        let value = value.downcast_mut::<Option<T>>().ok_or(ChannelError::NoValue)?;
        if let (Some(whole), Some(value)) = (&mut port.whole, &*value) {
            let whole = typed::<T>(whole.as_mut())?;
            let copy = whole.copy(value)?;
            whole.stage(copy);
        }
        let value = value.take().ok_or(ChannelError::NoValue)?;
        value.stage(&mut port.parts).map_err(|_| ChannelError::NoValue)
    }
}

fn stage<T: Payload>(outlet: &mut dyn AnyOutlet, value: T) -> Result<(), ChannelError> {
    typed(outlet)?.stage(value);
    Ok(())
}

fn typed<T: Payload>(outlet: &mut dyn AnyOutlet) -> Result<&mut Outlet<T>, ChannelError> {
    outlet.typed_mut::<T>().ok_or(ChannelError::WrongType {
        expected: std::any::type_name::<T>(),
        found: "an outlet of another type",
    })
}

/// One leaf of the graph's input.
pub(crate) struct InputPort {
    pub(crate) whole: Option<Box<dyn AnyOutlet>>,
    pub(crate) parts: Vec<Option<Box<dyn AnyOutlet>>>,
    pub(crate) splitter: Option<Splitter>,
    /// Signals the arrival of this leaf to tasks that are ordered after the leaf and do not read it.
    pub(crate) done: Option<Box<dyn AnyOutlet>>,
    /// True if the leaf is the start signal, which starts the tasks that take no edge.
    pub(crate) signal: bool,
}

impl InputPort {
    /// Stages a value and the signal of its arrival. Taking a value apart may run user code. If that code panics, the
    /// panic is staged as a failure in every outlet.
    fn stage<T: Payload>(&mut self, value: T, from: &FailureOrigin<'_>) -> Result<(), ChannelError> {
        if let Some(done) = &mut self.done {
            stage(done.as_mut(), ())?;
        }
        match (self.splitter, &mut self.whole) {
            (Some(split), _) => {
                let mut value = Some(value);
                let staged = catch_unwind(AssertUnwindSafe(|| split(&mut value, self)));
                dispose(value);
                staged.unwrap_or_else(|payload| {
                    let fault = fault_with(from.info, from.execution, Cause::of_panic(payload), None);
                    self.outlets()
                        .for_each(|outlet| outlet.stage_fault(fault.clone()));
                    Ok(())
                })
            }
            (None, Some(whole)) => stage(whole.as_mut(), value),
            (None, None) => {
                dispose(value);
                Ok(())
            }
        }
    }

    /// Whether every outlet of this leaf is known to have a free slot.
    #[inline]
    pub(crate) fn is_open(&mut self) -> bool {
        self.outlets().all(|outlet| outlet.is_open())
    }

    /// Returns the only outlet of this leaf, if the value goes there unchanged.
    #[inline]
    pub(crate) fn sole(&mut self) -> Option<&mut dyn AnyOutlet> {
        match self {
            InputPort {
                whole: Some(whole),
                parts,
                splitter: None,
                done: None,
                signal: false,
            } if parts.is_empty() => Some(whole.as_mut()),
            _ => None,
        }
    }

    /// Returns every outlet of this leaf.
    #[inline]
    pub(crate) fn outlets(&mut self) -> impl Iterator<Item = &mut Box<dyn AnyOutlet>> {
        let parts = self.parts.iter_mut().flatten();
        self.whole.iter_mut().chain(parts).chain(&mut self.done)
    }
}

/// The origin of an input's failure: the task information and the execution that a fault names.
pub(crate) struct FailureOrigin<'a> {
    pub(crate) info: &'a TaskInfo,
    pub(crate) execution: u64,
}

/// Stages one input value, leaf by leaf.
pub struct Submitter<'a> {
    from: FailureOrigin<'a>,
    ports: std::slice::IterMut<'a, InputPort>,
    width: usize,
    error: Option<ChannelError>,
}

impl<'a> Submitter<'a> {
    pub(crate) fn new(ports: &'a mut [InputPort], width: usize, from: FailureOrigin<'a>) -> Self {
        Submitter {
            from,
            ports: ports.iter_mut(),
            width,
            error: None,
        }
    }

    /// Stages the value of the next leaf.
    pub fn next<T: Payload>(&mut self, value: T) {
        let staged = match self.ports.next() {
            None => Err(ChannelError::NoValue),
            Some(port) => port.stage(value, &self.from),
        };
        if let Err(error) = staged {
            self.refuse(error);
        }
    }

    /// The number of edges of each `Vec` in the graph's input.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Records an error; the first one counts.
    pub(super) fn refuse(&mut self, error: ChannelError) {
        self.error.get_or_insert(error);
    }

    /// Stages the start signal, if the graph has one, and returns the first error. A leaf without a value is an error
    /// too.
    pub(crate) fn finish(mut self) -> Result<(), ChannelError> {
        if self.ports.as_slice().first().is_some_and(|port| port.signal) {
            self.next(());
        }
        if self.ports.next().is_some() {
            return Err(ChannelError::NoValue);
        }
        self.error.map_or(Ok(()), Err)
    }
}
