//! What a user holds while binding a graph: a typed edge.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use selvedge_channels::{PayloadType, Wire};

use crate::bind::Builder;
use crate::diagnostic::Diagnostic;
use crate::ir::ValueId;
use crate::ports::Splitter;

/// A value that will flow when the graph is executed: an input, the result of a task, or a constant.
///
/// Cheap to clone, and meaningful only inside the call of `compile` that made it.
pub struct Edge<T> {
    pub(crate) source: Source,
    types: PhantomData<fn() -> T>,
}

/// Where an edge comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Value {
        builder: Rc<RefCell<Builder>>,
        value: ValueId,
    },
    /// An encoded constant.
    Constant(Rc<Vec<u8>>),
    /// The result of a task that could not be bound; reported where it is used.
    Broken(Rc<Diagnostic>),
}

impl<T> Clone for Edge<T> {
    fn clone(&self) -> Self {
        Edge::new(self.source.clone())
    }
}

impl<T> std::fmt::Debug for Edge<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edge<{}>", std::any::type_name::<T>())
    }
}

/// An edge with the same value in every execution.
///
/// A task needs at least one edge that is not constant.
pub fn constant<T: Wire>(value: T) -> Edge<T> {
    let bytes = selvedge_channels::encode(&value)
        .map(|encoded| encoded.to_vec())
        .unwrap_or_default();
    Edge::new(Source::Constant(Rc::new(bytes)))
}

impl<T> Edge<T> {
    pub(crate) fn new(source: Source) -> Self {
        Edge {
            source,
            types: PhantomData,
        }
    }

    /// Names the task whose result this is, in errors, descriptions and traces.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        if let Source::Value { builder, value } = &self.source {
            builder.borrow_mut().name_task(*value, name.into());
        }
        self
    }
}

impl<T: Wire> Edge<T> {
    /// Part number `index` of this edge's tuple.
    fn part<P: Wire>(&self, index: u16, splitter: Splitter) -> Edge<P> {
        match &self.source {
            Source::Value { builder, value } => {
                let part = builder
                    .borrow_mut()
                    .part(*value, index, PayloadType::of::<P>(), splitter);
                Edge::new(Source::Value {
                    builder: Rc::clone(builder),
                    value: part,
                })
            }
            other => Edge::new(other.clone()),
        }
    }

    /// The constant of this edge, if it is one.
    fn as_constant(&self) -> Option<T> {
        match &self.source {
            Source::Constant(bytes) => selvedge_channels::decode(bytes).ok(),
            _ => None,
        }
    }
}

macro_rules! split {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Wire),+> Edge<($($name,)+)> {
            /// The parts of a tuple, each an edge and a channel of its own (DAG-10).
            pub fn split(&self) -> ($(Edge<$name>,)+) {
                if let Some(constants) = self.as_constant() {
                    return ($(constant(constants.$index),)+);
                }
                let splitter = crate::ports::splitter::<($($name,)+)>();
                ($(self.part::<$name>($index, splitter),)+)
            }
        }
    };
}

split!(A 0, B 1);
split!(A 0, B 1, C 2);
split!(A 0, B 1, C 2, D 3);
split!(A 0, B 1, C 2, D 3, E 4);
split!(A 0, B 1, C 2, D 3, E 4, F 5);
split!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
split!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
