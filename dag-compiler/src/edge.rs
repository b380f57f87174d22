//! What a user holds while binding a graph: a typed edge.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use selvedge_channels::{PayloadType, Wire};

use crate::bind::Builder;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{SourceLocation, ValueId};
use crate::ports::Splitter;
use crate::transport::Transport;

/// A value that will flow when the graph is executed: an input, the result of a task, or a constant.
///
/// Cheap to clone, and meaningful only inside the call of `compile` that made it. A task's edge must be used: as an
/// argument, or as an output of the graph.
#[must_use = "a task whose result nobody uses is refused (D0103)"]
pub struct Edge<T> {
    pub(crate) source: Source,
    /// What was asked for how it crosses; `None` for the graph's default.
    pub(crate) transport: Option<Transport>,
    types: PhantomData<fn() -> T>,
}

/// Where an edge comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Value {
        builder: Rc<RefCell<Builder>>,
        value: ValueId,
    },
    /// Several edges as one list, each with what was asked of it.
    List(Rc<Vec<(Source, Option<Transport>)>>),
    /// An encoded constant.
    Constant(Rc<Vec<u8>>),
    /// The result of a task that could not be bound; reported where it is used.
    Broken(Rc<Diagnostic>),
}

impl<T> Clone for Edge<T> {
    fn clone(&self) -> Self {
        Edge {
            source: self.source.clone(),
            transport: self.transport,
            types: PhantomData,
        }
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
#[track_caller]
pub fn constant<T: Wire>(value: T) -> Edge<T> {
    Edge::new(encoded(&value, SourceLocation::from(Location::caller())))
}

/// Has the task that makes `value` wait for whatever makes `before`, for each member where that is a list.
fn wait_for(builder: &Rc<RefCell<Builder>>, value: ValueId, before: &Source, location: &SourceLocation) {
    match before {
        Source::Value {
            builder: other,
            value: before,
        } if Rc::ptr_eq(builder, other) => builder.borrow_mut().order(value, *before, location),
        Source::Value { .. } => builder.borrow_mut().mistake(
            Code::MixedGraphs,
            "a task is ordered after one of another graph",
            location,
        ),
        Source::List(members) => {
            for (member, _) in members.iter() {
                wait_for(builder, value, member, location);
            }
        }
        // What is there from the begin is before everything.
        Source::Constant(_) => {}
        Source::Broken(diagnostic) => builder.borrow_mut().repeat(diagnostic),
    }
}

/// Several edges as one argument: a task that takes a `Vec<T>` or a `&[T]` gets their values as one list, in this order.
/// Lists of lists are lists too.
///
/// It is an argument and nothing else: a graph returns a `Vec` of edges instead, and a parameter must be written as `Vec` or
/// a slice (D0116).
pub fn gather<T: Wire>(edges: impl IntoIterator<Item = Edge<T>>) -> Edge<Vec<T>>
where
    Vec<T>: Wire,
{
    let members = edges
        .into_iter()
        .map(|edge| (edge.source, edge.transport))
        .collect();
    Edge::new(Source::List(Rc::new(members)))
}

/// A constant as bytes, or the reason why it cannot be one.
pub(crate) fn encoded<T: Wire>(value: &T, location: SourceLocation) -> Source {
    match selvedge_channels::encode(value).map(|encoded| encoded.to_vec()) {
        Ok(bytes) => Source::Constant(Rc::new(bytes)),
        Err(error) => {
            let message = format!(
                "a constant of type `{}` cannot be encoded: {error}",
                std::any::type_name::<T>()
            );
            Source::Broken(Rc::new(Diagnostic::new(Code::BadConstant, message, location)))
        }
    }
}

impl<T> Edge<T> {
    pub(crate) fn new(source: Source) -> Self {
        Edge {
            source,
            transport: None,
            types: PhantomData,
        }
    }

    /// Asks for a way to cross, wherever this edge (not a clone made before) is an argument; else it is
    /// `Options::transport`'s. A rendezvous is ignored where the value stays on one lane; the plan's notes say so.
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Runs the task whose result this is after the task whose result `before` is, in every execution, without handing a
    /// value over. If `before` fails, this task is skipped with its error.
    ///
    /// `before` may also be an input of the graph: it starts a task that takes no edge. It must be bound first (D0115).
    #[track_caller]
    pub fn after<U>(self, before: &Edge<U>) -> Self {
        if let Source::Value { builder, value } = &self.source {
            let location = SourceLocation::from(Location::caller());
            wait_for(builder, *value, &before.source, &location);
        }
        self
    }

    /// Declares how long the task whose result this is computes. Orders and lanes are chosen for it; a profile replaces
    /// it.
    pub fn takes(self, duration: Duration) -> Self {
        if let Source::Value { builder, value } = &self.source {
            let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            builder.borrow_mut().declare(*value, ns);
        }
        self
    }

    /// Names the task whose result this is, in errors, descriptions, traces and profiles. Of several of one name, all but the
    /// first get a number: `layer`, `layer#2`.
    pub fn named(self, name: impl Into<String>) -> Self {
        if let Source::Value { builder, value } = &self.source {
            builder.borrow_mut().name_task(*value, name.into());
        }
        self
    }
}

impl<T: Wire> Edge<T> {
    /// Part number `index` of this edge's tuple.
    fn part<P: Wire>(&self, index: u16, splitter: Splitter, location: &SourceLocation) -> Edge<P> {
        let Source::Value { builder, value } = &self.source else {
            return Edge::new(self.source.clone());
        };
        let part = builder
            .borrow_mut()
            .part(*value, index, PayloadType::of::<P>(), splitter);
        let mut edge = Edge::new(match part {
            Some(value) => Source::Value {
                builder: Rc::clone(builder),
                value,
            },
            None => {
                let message =
                    "a part of a tuple is split again, but channels carry the parts of one tuple only";
                Source::Broken(Rc::new(Diagnostic::new(
                    Code::NestedSplit,
                    message,
                    location.clone(),
                )))
            }
        });
        edge.transport = self.transport;
        edge
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
            /// The parts of a tuple, each an edge and a channel of its own. Parts of parts cannot be split
            /// (D0113); unless the whole is used too, every part must be (D0103).
            #[track_caller]
            pub fn split(&self) -> ($(Edge<$name>,)+) {
                let location = SourceLocation::from(Location::caller());
                if let Some(constants) = self.as_constant() {
                    return ($(Edge::new(encoded(&constants.$index, location.clone())),)+);
                }
                let splitter = crate::ports::splitter::<($($name,)+)>();
                ($(self.part::<$name>($index, splitter, &location),)+)
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
