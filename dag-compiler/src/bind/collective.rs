//! Collective operations on edges: several actors combine values that they have made.
//!
//! Every function takes one edge per rank, in the order of ranks, and each edge is the result of a task of another
//! actor. It returns one edge per rank, an array for an array and a `Vec` for a `Vec`; [`reduce`] and [`gather`]
//! return only the edge of the root. The ranks of an operation are tasks of those actors. All ranks take part in every
//! execution. If one rank brings a failure, every rank gets that failure as its result, and the graph goes on.

mod adapter;
mod backend;

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use selvedge_channels::{Payload, PayloadType, Wire};
use selvedge_collectives::{Collective, Contribute, ReduceOp};
use selvedge_core::ActorId;

pub(crate) use adapter::find as find_adapter;
pub use adapter::{Adapter, CONTRIBUTORS};
pub use backend::BACKENDS;
pub(crate) use backend::{join, refused};

use crate::api::sealed::Sealed;
use crate::bind::builder::{Builder, current};
use crate::bind::edge::{Edge, Source};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ArgIr, CollectiveId, CollectiveIr, Origin, SourceLocation, TaskId, ValueId};

/// A type that can travel along an edge and be contributed to a collective.
pub trait Contribution: Wire + Contribute {}

impl<T: Wire + Contribute> Contribution for T {}

/// One edge per rank: an array, whose length the compiler knows, or a `Vec`. The trait cannot be implemented outside.
pub trait Ranks<T>: Sealed + Sized {
    /// Returns the edges.
    #[doc(hidden)]
    fn into_edges(self) -> Vec<Edge<T>>;
    /// Returns the edges in this shape. If an array has too few edges, the rest are broken edges with `location` as
    /// their line.
    #[doc(hidden)]
    fn from_edges(edges: Vec<Edge<T>>, location: &SourceLocation) -> Self;
}

impl<T: Payload> Ranks<T> for Vec<Edge<T>> {
    fn into_edges(self) -> Vec<Edge<T>> {
        self
    }

    fn from_edges(edges: Vec<Edge<T>>, _: &SourceLocation) -> Self {
        edges
    }
}

impl<T: Payload, const N: usize> Ranks<T> for [Edge<T>; N] {
    fn into_edges(self) -> Vec<Edge<T>> {
        self.into()
    }

    fn from_edges(edges: Vec<Edge<T>>, location: &SourceLocation) -> Self {
        let mut edges = edges.into_iter();
        std::array::from_fn(|_| edges.next().unwrap_or_else(|| no_rank(location)))
    }
}

/// Reduces the values of all ranks element by element. Every rank gets the whole result, which has the shape of one
/// contribution.
#[track_caller]
pub fn allreduce<T: Contribution, R: Ranks<T>>(op: ReduceOp, edges: R) -> R {
    bind(Collective::AllReduce(op), edges)
}

/// Reduces the values of all ranks element by element. Every rank gets its part of the result along the first
/// dimension.
#[track_caller]
pub fn reduce_scatter<T: Contribution, R: Ranks<T>>(op: ReduceOp, edges: R) -> R {
    bind(Collective::ReduceScatter(op), edges)
}

/// Concatenates the values of all ranks along the first dimension. Every rank gets the whole result.
#[track_caller]
pub fn allgather<T: Contribution, R: Ranks<T>>(edges: R) -> R {
    bind(Collective::AllGather, edges)
}

/// Splits every value into parts along the first dimension. Rank r gets part r of each value, concatenated in the order
/// of ranks.
#[track_caller]
pub fn all_to_all<T: Contribution, R: Ranks<T>>(edges: R) -> R {
    bind(Collective::AllToAll, edges)
}

/// Sends the value of rank `root` to every rank.
#[track_caller]
pub fn broadcast<T: Contribution, R: Ranks<T>>(root: usize, edges: R) -> R {
    bind(Collective::Broadcast { root }, edges)
}

/// Splits the value of rank `root` along the first dimension and gives one part to each rank.
#[track_caller]
pub fn scatter<T: Contribution, R: Ranks<T>>(root: usize, edges: R) -> R {
    bind(Collective::Scatter { root }, edges)
}

/// Reduces the values of all ranks element by element. Rank `root` gets the result.
#[track_caller]
pub fn reduce<T: Contribution, R: Ranks<T>>(op: ReduceOp, root: usize, edges: R) -> Edge<T> {
    at_root(Collective::Reduce { op, root }, root, edges)
}

/// Concatenates the values of all ranks along the first dimension. Rank `root` gets the result. (To pass several edges
/// as one argument, use [`list`](crate::list).)
#[track_caller]
pub fn gather<T: Contribution, R: Ranks<T>>(root: usize, edges: R) -> Edge<T> {
    at_root(Collective::Gather { root }, root, edges)
}

/// Returns every rank's own value once all ranks have arrived.
#[track_caller]
pub fn barrier<T: Contribution, R: Ranks<T>>(edges: R) -> R {
    bind(Collective::Barrier, edges)
}

#[track_caller]
fn at_root<T: Contribution, R: Ranks<T>>(operation: Collective, root: usize, edges: R) -> Edge<T> {
    let location = SourceLocation::from(Location::caller());
    let results = bound(operation, edges.into_edges(), &location);
    results
        .into_iter()
        .nth(root)
        .unwrap_or_else(|| no_rank(&location))
}

#[track_caller]
fn bind<T: Contribution, R: Ranks<T>>(operation: Collective, edges: R) -> R {
    let location = SourceLocation::from(Location::caller());
    R::from_edges(bound(operation, edges.into_edges(), &location), &location)
}

/// Returns a broken edge for a rank that the collective does not have.
fn no_rank<T>(location: &SourceLocation) -> Edge<T> {
    let message = "a rank that the collective does not have";
    Edge::new(Source::Broken(Rc::new(Diagnostic::new(
        Code::BadRanks,
        message,
        location.clone(),
    ))))
}

fn bound<T: Contribution>(
    operation: Collective,
    edges: Vec<Edge<T>>,
    location: &SourceLocation,
) -> Vec<Edge<T>> {
    let broken = |mistake: Rc<Diagnostic>| -> Vec<Edge<T>> {
        let broken = |_: &Edge<T>| Edge::new(Source::Broken(Rc::clone(&mistake)));
        edges.iter().map(broken).collect()
    };
    let own = || edges.iter().find_map(|edge| edge.source.graph());
    let Some(builder) = current().or_else(own) else {
        let message = format!("{operation} is bound outside of a graph");
        return broken(refusal(message, location));
    };
    let sources = edges.iter().map(|edge| &edge.source);
    let values = contributions(operation, sources, &builder, location);
    let mut graph = builder.borrow_mut();
    let tasks = values.and_then(|values| {
        let tasks = graph.collective(operation, &values, location);
        tasks.map_err(|message| refusal(message, location))
    });
    match tasks {
        Ok(tasks) => {
            let edge = |task: TaskId| {
                Edge::new(Source::Value {
                    builder: Rc::clone(&builder),
                    value: graph.result(task, PayloadType::of::<T>()),
                })
            };
            tasks.into_iter().map(edge).collect()
        }
        Err(mistake) => {
            graph.repeat(&mistake);
            broken(mistake)
        }
    }
}

fn refusal(message: String, location: &SourceLocation) -> Rc<Diagnostic> {
    Rc::new(Diagnostic::new(Code::BadRanks, message, location.clone()).labelled("these are the ranks"))
}

/// Returns the value that each rank contributes, or the reason why a rank cannot take part.
fn contributions<'a>(
    operation: Collective,
    sources: impl Iterator<Item = &'a Source>,
    builder: &Rc<RefCell<Builder>>,
    location: &SourceLocation,
) -> Result<Vec<ValueId>, Rc<Diagnostic>> {
    let contribution = |(rank, source): (usize, &Source)| match source {
        Source::Value { builder: own, value } if Rc::ptr_eq(own, builder) => Ok(*value),
        Source::Value { .. } => {
            let message = format!("rank {rank} of {operation} is an edge of another graph");
            Err(Rc::new(Diagnostic::new(
                Code::MixedGraphs,
                message,
                location.clone(),
            )))
        }
        Source::Broken(diagnostic) => Err(Rc::clone(diagnostic)),
        Source::Constant(_) | Source::List(_) => {
            let what = "no result of an actor, so nobody can take part for it";
            Err(refusal(format!("rank {rank} of {operation} is {what}"), location))
        }
    };
    sources.enumerate().map(contribution).collect()
}

impl Builder {
    /// Adds the tasks of a collective, one for each of `values`. If that is not possible, returns the reason as text.
    fn collective(
        &mut self,
        operation: Collective,
        values: &[ValueId],
        location: &SourceLocation,
    ) -> Result<Vec<TaskId>, String> {
        let actors = self.ranks(operation, values)?;
        let id = CollectiveId(self.collectives.len() as u32);
        let mut tasks = Vec::with_capacity(values.len());
        for (actor, value) in actors.into_iter().zip(values) {
            let method = (u16::MAX, operation.to_string().into());
            let args = vec![ArgIr::Value(*value)];
            let task = self.add_task(actor, method, args, location.clone());
            if let Some(task) = self.tasks.get_mut(task.index()) {
                task.collective = Some(id);
            }
            tasks.push(task);
        }
        self.collectives.push(CollectiveIr {
            operation,
            tasks: tasks.clone(),
        });
        Ok(tasks)
    }

    /// Returns the actor of each rank: the actor whose task makes the rank's value.
    fn ranks(&self, operation: Collective, values: &[ValueId]) -> Result<Vec<ActorId>, String> {
        if values.is_empty() {
            return Err(format!("{operation} has no ranks"));
        }
        if let Some(root) = operation.root().filter(|root| *root >= values.len()) {
            return Err(format!("{operation} names rank {root} of {}", values.len()));
        }
        let mut actors = Vec::with_capacity(values.len());
        for (rank, value) in values.iter().enumerate() {
            let maker = match self.origin(*value) {
                Some(Origin::Task(maker)) => self.tasks.get(maker.index()),
                _ => None,
            };
            let actor = maker.map(|maker| maker.actor).ok_or_else(|| {
                let what = "an input of the graph, not the result of an actor";
                format!("rank {rank} of {operation} is {what}")
            })?;
            if let Some(other) = actors.iter().position(|known| *known == actor) {
                let name = self.actor_name(actor);
                return Err(format!(
                    "ranks {other} and {rank} of {operation} are both of actor `{name}`"
                ));
            }
            actors.push(actor);
        }
        Ok(actors)
    }
}
