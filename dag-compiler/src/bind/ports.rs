//! Ports: the ends of the channels of a graph's input and output. This file is bind time: the types that a graph takes
//! and returns. `submit` and `collect` are the ways of one value in and out.

pub(crate) mod collect;
mod shapes;
pub(crate) mod submit;

use selvedge_channels::{AnyOutlet, Fault, Payload, PayloadType};

use crate::bind::builder::Builder;
use crate::bind::edge::{Edge, Source};
use crate::bind::ports::collect::Collected;
use crate::bind::ports::submit::Submitter;
use crate::run::driver::leaf::AnyLeaf;

/// Makes the edges of a graph's input.
pub struct InputPorts {
    pub(crate) builder: std::rc::Rc<std::cell::RefCell<Builder>>,
    pub(crate) width: usize,
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

/// A type that a graph can take as input: an edge, or a tuple, array or `Vec` of inputs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a graph",
    note = "take an `Edge<T>`, a tuple, array or `Vec` of edges, or `()`"
)]
pub trait Inputs: Sized {
    /// The type that `execute` takes.
    type Value: 'static;
    /// Makes the edges of the input.
    fn open(ports: &mut InputPorts) -> Self;
    /// Stages a value.
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

/// A type that a graph can return as output: an edge, or a tuple, array or `Vec` of outputs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a graph",
    note = "return an `Edge<T>`, or a tuple, array or `Vec` of edges"
)]
pub trait Outputs: Sized {
    /// The type that an execution returns.
    type Value: 'static;
    /// Lists the edges of the output.
    fn list(&self, out: &mut OutputList);
    /// Takes a value, leaf by leaf in the order of `list`.
    ///
    /// # Errors
    /// The first fault among the leaves.
    fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault>;
}

#[cfg(test)]
mod tests;
