//! Ports: the ends of the channels of a graph's input and output. First the types that a graph takes and returns, and
//! the shapes among them; then the way of one value in (`Submitter`), and out (`Collected`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge_channels::{
    AnyOutlet, AnyValue, ChannelError, Fault, Outlet, Payload, PayloadType, Value, dispose,
};
use selvedge_core::Parts;

use crate::api::sealed::Sealed;
use crate::bind::builder::Builder;
use crate::bind::edge::{Edge, Source};
use crate::run::driver::leaf::{AnyLeaf, Leaf};
use crate::run::report::{Cause, TaskInfo, fault_with};

/// Makes the edges of a graph's input.
pub struct InputPorts {
    pub(crate) builder: std::rc::Rc<std::cell::RefCell<Builder>>,
    pub(crate) width: usize,
    /// Whether the input has a `Vec`.
    pub(crate) lists: bool,
}

impl InputPorts {
    fn open<T: Payload>(&mut self) -> Edge<T> {
        let value = self.builder.borrow_mut().input(PayloadType::of_moved::<T>());
        Edge::new(Source::Value {
            builder: std::rc::Rc::clone(&self.builder),
            value,
        })
    }
}

/// A leaf of a graph's output: its edge, and the constructor of the buffer for its results.
pub(crate) struct OutputLeaf {
    pub(crate) source: Source,
    pub(crate) leaf: fn(usize) -> Box<dyn AnyLeaf>,
}

/// Collects the edges of a graph's output.
#[derive(Default)]
pub struct OutputList {
    pub(crate) leaves: Vec<OutputLeaf>,
    pub(crate) lengths: Vec<usize>,
}

impl<T> Sealed for Edge<T> {}
impl<S, const N: usize> Sealed for [S; N] {}
impl<S> Sealed for Vec<S> {}

/// A type that a graph can take as input: an edge, or a tuple, array or `Vec` of inputs. The trait cannot be implemented
/// outside.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a graph",
    note = "take an `Edge<T>`, a tuple, array or `Vec` of edges, or `()`"
)]
pub trait Inputs: Sealed + Sized {
    /// The type that `execute` takes.
    type Value: 'static;
    /// Makes the edges of the input.
    #[doc(hidden)]
    fn open(ports: &mut InputPorts) -> Self;
    /// Stages a value.
    #[doc(hidden)]
    fn write(value: Self::Value, ports: &mut Submitter<'_>);
    /// Whether each `Vec` in a value has as many items as the graph has edges for it.
    #[doc(hidden)]
    fn fits(_: &Self::Value, _width: usize) -> bool {
        true
    }
    /// Publishes a value at once if the input is one edge and its channel can take the value; else returns the value.
    #[doc(hidden)]
    fn send(value: Self::Value, _: &mut dyn AnyOutlet) -> Option<Self::Value> {
        Some(value)
    }
}

/// A type that a graph can return as output: an edge, or a tuple, array or `Vec` of outputs. The trait cannot be
/// implemented outside.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a graph",
    note = "return an `Edge<T>`, or a tuple, array or `Vec` of edges"
)]
pub trait Outputs: Sealed + Sized {
    /// The type that an execution returns.
    type Value: 'static;
    /// Lists the edges of the output.
    #[doc(hidden)]
    fn list(&self, out: &mut OutputList);
    /// Takes a value, leaf by leaf in the order of `list`.
    ///
    /// # Errors
    /// The first fault among the leaves.
    #[doc(hidden)]
    fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault>;
}

impl Sealed for () {}

/// The input of a graph without inputs. An execution starts the tasks that take no edge.
impl Inputs for () {
    type Value = ();

    fn open(_: &mut InputPorts) -> Self {}

    fn write((): (), _: &mut Submitter<'_>) {}
}

impl<T: Payload> Inputs for Edge<T> {
    type Value = T;

    fn open(ports: &mut InputPorts) -> Self {
        ports.open::<T>()
    }

    fn write(value: T, ports: &mut Submitter<'_>) {
        ports.next(value);
    }

    fn send(value: T, outlet: &mut dyn AnyOutlet) -> Option<T> {
        match outlet.typed_mut::<T>() {
            Some(outlet) => outlet.try_put(value),
            None => Some(value),
        }
    }
}

impl<T: Payload> Outputs for Edge<T> {
    type Value = T;

    fn list(&self, out: &mut OutputList) {
        let leaf = |executions| -> Box<dyn AnyLeaf> { Box::new(Leaf::<T>::with_capacity(executions)) };
        out.leaves.push(OutputLeaf {
            source: self.source.clone(),
            leaf,
        });
    }

    fn take(collected: &mut Collected<'_>) -> Result<T, Fault> {
        collected.next::<T>()
    }
}

impl<I: Inputs, const N: usize> Inputs for [I; N] {
    type Value = [I::Value; N];

    fn open(ports: &mut InputPorts) -> Self {
        std::array::from_fn(|_| I::open(ports))
    }

    fn write(value: Self::Value, ports: &mut Submitter<'_>) {
        value.into_iter().for_each(|value| I::write(value, ports));
    }

    fn fits(value: &Self::Value, width: usize) -> bool {
        value.iter().all(|value| I::fits(value, width))
    }
}

impl<O: Outputs, const N: usize> Outputs for [O; N] {
    type Value = [O::Value; N];

    fn list(&self, out: &mut OutputList) {
        self.iter().for_each(|edge| edge.list(out));
    }

    fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault> {
        // Every leaf is taken, even after a fault, so that later outputs find their own leaves.
        let taken: [_; N] = std::array::from_fn(|_| O::take(collected));
        let all: Vec<O::Value> = taken.into_iter().collect::<Result<_, _>>()?;
        all.try_into().map_err(|_| Fault::cancelled())
    }
}

impl<I: Inputs> Inputs for Vec<I> {
    type Value = Vec<I::Value>;

    fn open(ports: &mut InputPorts) -> Self {
        ports.lists = true;
        (0..ports.width).map(|_| I::open(ports)).collect()
    }

    /// Refuses a value that has fewer or more items than the graph has edges.
    fn write(value: Self::Value, ports: &mut Submitter<'_>) {
        if value.len() != ports.width() {
            ports.refuse(ChannelError::NoValue);
        }
        value.into_iter().for_each(|value| I::write(value, ports));
    }

    fn fits(value: &Self::Value, width: usize) -> bool {
        value.len() == width && value.iter().all(|value| I::fits(value, width))
    }
}

impl<O: Outputs> Outputs for Vec<O> {
    type Value = Vec<O::Value>;

    fn list(&self, out: &mut OutputList) {
        out.lengths.push(self.len());
        self.iter().for_each(|edge| edge.list(out));
    }

    fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault> {
        let length = collected.length();
        // Every leaf is taken, even after a fault, so that later outputs find their own leaves.
        let taken: Vec<_> = (0..length).map(|_| O::take(collected)).collect();
        taken.into_iter().collect()
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<$($name),+> Sealed for ($($name,)+) {}

        impl<$($name: Inputs),+> Inputs for ($($name,)+) {
            type Value = ($($name::Value,)+);

            fn open(ports: &mut InputPorts) -> Self {
                ($($name::open(ports),)+)
            }

            fn write(value: Self::Value, ports: &mut Submitter<'_>) {
                $($name::write(value.$index, ports);)+
            }

            fn fits(value: &Self::Value, width: usize) -> bool {
                $($name::fits(&value.$index, width))&&+
            }
        }

        impl<$($name: Outputs),+> Outputs for ($($name,)+) {
            type Value = ($($name::Value,)+);

            fn list(&self, out: &mut OutputList) {
                $(self.$index.list(out);)+
            }

            fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault> {
                let all = ($($name::take(collected),)+);
                Ok(($(all.$index?,)+))
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

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
                    let fault = fault_with(from.info, from.execution, Cause::of_panic(payload));
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

/// Reads a result from the leaves of the graph's output.
pub(crate) type Take<Out> = fn(&mut Collected<'_>) -> Result<Out, Fault>;

/// Reads one output value, leaf by leaf.
pub struct Collected<'a> {
    leaves: std::slice::IterMut<'a, Box<dyn AnyLeaf>>,
    /// The channel end of the only leaf, if the value is to be taken directly from there.
    coming: Option<&'a mut dyn AnyValue>,
    taken: bool,
    /// The lengths of the output's `Vec`s, in the order in which they are taken.
    lengths: std::slice::Iter<'a, usize>,
    execution: u64,
}

impl<'a> Collected<'a> {
    pub(crate) fn new(leaves: &'a mut [Box<dyn AnyLeaf>], lengths: &'a [usize], execution: u64) -> Self {
        Collected {
            leaves: leaves.iter_mut(),
            coming: None,
            taken: false,
            lengths: lengths.iter(),
            execution,
        }
    }

    /// Reads the value of the only leaf directly from its channel end, before it is collected into the leaf.
    pub(crate) fn at_once(coming: &'a mut dyn AnyValue, lengths: &'a [usize], execution: u64) -> Self {
        Collected {
            coming: Some(coming),
            ..Collected::new(&mut [], lengths, execution)
        }
    }

    /// Whether a value has been taken from the channel end. If not, the channel end is unchanged.
    pub(crate) fn has_taken(&self) -> bool {
        self.taken
    }

    /// The length of the output's next `Vec`.
    pub(super) fn length(&mut self) -> usize {
        self.lengths.next().copied().unwrap_or_default()
    }

    /// Takes the value of the next leaf.
    ///
    /// # Errors
    /// The fault that arrived instead of the value.
    #[allow(
        clippy::should_implement_trait,
        reason = "each call gives another type, so it is no iterator"
    )]
    #[inline]
    pub fn next<T: Payload>(&mut self) -> Result<T, Fault> {
        if let Some(coming) = &mut self.coming {
            let value = coming.typed_mut::<T>().and_then(Value::try_next);
            self.taken |= value.is_some();
            return value.ok_or_else(Fault::cancelled);
        }
        self.next_leaf()
    }

    #[inline(never)]
    fn next_leaf<T: Payload>(&mut self) -> Result<T, Fault> {
        let leaf = self
            .leaves
            .next()
            .and_then(|leaf| leaf.as_any_mut().downcast_mut::<Leaf<T>>());
        leaf.and_then(|leaf| leaf.take(self.execution))
            .unwrap_or_else(|| Err(Fault::cancelled()))
    }
}

#[cfg(test)]
mod tests;
