//! Edges: the typed values that a user connects while binding a graph.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use selvedge_channels::{Payload, PayloadType};

use crate::bind::builder::{Builder, current};
use crate::bind::constant::{Constant, PartOf};
use crate::bind::ports::Splitter;
use crate::bind::transport::Transport;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Origin, SourceLocation, ValueId};

/// A value that flows through the graph in every execution: an input, the result of a task, or a constant.
///
/// An edge is cheap to clone, and valid only inside the call of `compile` that made it. The edge of a task must be
/// used, as an argument or as an output of the graph.
#[must_use = "a task whose result nobody uses is refused (D0103)"]
pub struct Edge<T> {
    pub(crate) source: Source,
    /// The transport that was asked for; `None` for the graph's default.
    pub(crate) transport: Option<Transport>,
    types: PhantomData<fn() -> T>,
}

/// The origin of an edge.
#[derive(Clone)]
pub(crate) enum Source {
    Value {
        builder: Rc<RefCell<Builder>>,
        value: ValueId,
    },
    /// Several edges as one list, each with the transport that was asked for.
    List(Rc<Vec<(Source, Option<Transport>)>>),
    Constant(Constant),
    /// The result of a task that could not be bound. The mistake is reported where the edge is used.
    Broken(Rc<Diagnostic>),
}

impl Source {
    /// Returns the number of list levels; 0 for a source that is not a list.
    pub(super) fn depth(&self) -> usize {
        match self {
            Source::List(members) => {
                let depths = members.iter().map(|(member, _)| member.depth());
                1 + depths.max().unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// Returns the graph of the first edge in the source.
    pub(super) fn graph(&self) -> Option<Rc<RefCell<Builder>>> {
        match self {
            Source::Value { builder, .. } => Some(Rc::clone(builder)),
            Source::List(members) => members.iter().find_map(|(member, _)| member.graph()),
            Source::Constant(_) | Source::Broken(_) => None,
        }
    }
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

/// Returns an edge with the same value in every execution.
///
/// A task needs at least one edge that is not constant. If the task runs in this process, the type must be `Clone`; if it runs in
/// another one, serde must know the type, since the value is encoded (D0114).
pub fn constant<T: Payload>(value: T) -> Edge<T> {
    Edge::new(Source::Constant(Constant::new(value)))
}

/// Makes the tasks of `later` wait for the makers of `before`. What no task makes has nothing that could wait (D0125).
fn order(later: &Source, before: &Source, location: &SourceLocation) {
    let unordered = |builder: &Rc<RefCell<Builder>>, what: &str| {
        let message = format!("{what} is ordered after a task, but no task makes it");
        let mut builder = builder.borrow_mut();
        builder.mistake(Code::NothingToOrder, &message, location);
    };
    match later {
        Source::Value { builder, value } => {
            let origin = builder.borrow().origin(*value);
            match origin {
                Some(Origin::Input(_)) => unordered(builder, "an input of the graph"),
                _ => wait_for(builder, *value, before, location),
            }
        }
        Source::List(members) => members
            .iter()
            .for_each(|(member, _)| order(member, before, location)),
        Source::Constant(_) => {
            if let Some(builder) = current().or_else(|| before.graph()) {
                unordered(&builder, "a constant");
            }
        }
        // A broken edge is reported where it is used.
        Source::Broken(_) => {}
    }
}

/// Makes the task of `value` wait for the maker of `before`. If `before` is a list, the task waits for the makers of
/// all members.
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
        // A constant is present from the start, so there is nothing to wait for.
        Source::Constant(_) => {}
        Source::Broken(diagnostic) => builder.borrow_mut().repeat(diagnostic),
    }
}

/// Combines several edges into one argument: a task that takes a `Vec<T>` or a `&[T]` gets their values as one list, in
/// this order. The members of a list may be lists.
///
/// The result can only be an argument. A graph returns a `Vec` of edges instead. The type of the parameter must be
/// written as `Vec` or as a slice (D0116).
pub fn list<T: Payload>(edges: impl IntoIterator<Item = Edge<T>>) -> Edge<Vec<T>> {
    let members = edges
        .into_iter()
        .map(|edge| (edge.source, edge.transport))
        .collect();
    Edge::new(Source::List(Rc::new(members)))
}

impl<T> Edge<T> {
    pub(crate) fn new(source: Source) -> Self {
        Edge {
            source,
            transport: None,
            types: PhantomData,
        }
    }

    /// Asks for a transport wherever this edge is an argument; clones made before are not affected. Without this call,
    /// the edge uses `Options::transport`. A rendezvous is ignored if the value stays on one lane; the plan's notes say
    /// so.
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Runs the task of this edge after the task of `before` in every execution, without passing a value. If `before`
    /// fails, the task of this edge is skipped with its error.
    ///
    /// `before` may also be an input of the graph: the input then starts a task that takes no edge. `before` must be
    /// bound first (D0115). The task of every member of a list waits. A constant or an input has no task that could
    /// wait (D0125).
    #[track_caller]
    pub fn after<U>(self, before: &Edge<U>) -> Self {
        order(&self.source, &before.source, &Location::caller().into());
        self
    }

    /// Declares the duration of the task of this edge. The compiler chooses orders and lanes by the duration; a profile
    /// replaces it.
    pub fn takes(self, duration: Duration) -> Self {
        if let Source::Value { builder, value } = &self.source {
            let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            builder.borrow_mut().declare(*value, ns);
        }
        self
    }

    /// Names the task of this edge in errors, descriptions, traces and profiles. If several tasks have one name, all
    /// but the first get a number: `layer`, `layer#2`.
    pub fn named(self, name: impl Into<String>) -> Self {
        if let Source::Value { builder, value } = &self.source {
            builder.borrow_mut().name_task(*value, name.into());
        }
        self
    }
}

impl<T: Payload> Edge<T> {
    /// Returns part number `index` of this edge's tuple.
    fn part<P: Payload>(
        &self,
        index: u16,
        of: PartOf,
        splitter: Splitter,
        location: &SourceLocation,
    ) -> Edge<P> {
        let (builder, value) = match &self.source {
            Source::Value { builder, value } => (builder, value),
            Source::Constant(constant) => return Edge::new(Source::Constant(constant.part(of))),
            Source::List(_) | Source::Broken(_) => return Edge::new(self.source.clone()),
        };
        let part = builder
            .borrow_mut()
            .part(*value, index, PayloadType::of_moved::<P>(), splitter);
        let mut edge = Edge::new(match part {
            Ok(value) => Source::Value {
                builder: Rc::clone(builder),
                value,
            },
            Err((code, message)) => Source::Broken(Rc::new(Diagnostic::new(code, message, location.clone()))),
        });
        edge.transport = self.transport;
        edge
    }
}

macro_rules! split {
    ($tuple:ty: $($name:ident $index:tt),+) => {
        impl<$($name: Payload),+> Edge<$tuple> {
            /// Splits a tuple into its parts. Each part is an edge with a channel of its own. A part cannot be split
            /// again (D0113), and neither can a tuple that a generic actor only knows as its `T` (D0124). Every part must be used, unless the whole is used too (D0103).
            #[track_caller]
            pub fn split(&self) -> ($(Edge<$name>,)+) {
                let location = SourceLocation::from(Location::caller());
                let splitter = crate::bind::ports::splitter::<$tuple>();
                ($({
                    let of: PartOf = |whole| Some(&whole.downcast_ref::<$tuple>()?.$index);
                    self.part::<$name>($index, of, splitter, &location)
                },)+)
            }
        }
    };
}

split!((A, B): A 0, B 1);
split!((A, B, C): A 0, B 1, C 2);
split!((A, B, C, D): A 0, B 1, C 2, D 3);
split!((A, B, C, D, E): A 0, B 1, C 2, D 3, E 4);
split!((A, B, C, D, E, F): A 0, B 1, C 2, D 3, E 4, F 5);
split!((A, B, C, D, E, F, G): A 0, B 1, C 2, D 3, E 4, F 5, G 6);
split!((A, B, C, D, E, F, G, H): A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
