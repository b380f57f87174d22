//! Collective operations on edges: several actors combine values that they have made.
//!
//! Every function takes one edge per rank, in the order of ranks, and each edge is the result of a task of another
//! actor. It returns one edge per rank, an array for an array and a `Vec` for a `Vec`; [`reduce`] and [`gather_to`]
//! return only the edge of the root. The ranks of an operation are tasks of those actors. All ranks take part in every
//! execution. If one rank brings a failure, every rank gets that failure as its result, and the graph goes on.

mod adapter;
mod backend;

use std::panic::Location;
use std::rc::Rc;

use selvedge_channels::{PayloadType, Wire};
use selvedge_collectives::{Collective, Contribute, ReduceOp};

pub(crate) use adapter::find as find_adapter;
pub use adapter::{Adapter, CONTRIBUTORS};
pub use backend::BACKENDS;
pub(crate) use backend::{join, refused};

use crate::bind::edge::{Edge, Source};
use crate::bind::{Builder, current};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ArgIr, CollectiveId, CollectiveIr, Origin, SourceLocation, TaskId, TaskIr, ValueId};

/// A type that can travel along an edge and be contributed to a collective.
pub trait Contribution: Wire + Contribute {}

impl<T: Wire + Contribute> Contribution for T {}

/// One edge per rank: an array, whose length the compiler knows, or a `Vec`.
pub trait Ranks<T>: Sized {
    /// Returns the edges.
    fn into_edges(self) -> Vec<Edge<T>>;
    /// Returns the edges in this shape. If an array has too few edges, the rest are broken edges with `location` as
    /// their line.
    fn from_edges(edges: Vec<Edge<T>>, location: &SourceLocation) -> Self;
}

impl<T: Wire> Ranks<T> for Vec<Edge<T>> {
    fn into_edges(self) -> Vec<Edge<T>> {
        self
    }

    fn from_edges(edges: Vec<Edge<T>>, _: &SourceLocation) -> Self {
        edges
    }
}

impl<T: Wire, const N: usize> Ranks<T> for [Edge<T>; N] {
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
/// as one argument, use [`gather`](crate::gather).)
#[track_caller]
pub fn gather_to<T: Contribution, R: Ranks<T>>(root: usize, edges: R) -> Edge<T> {
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
fn no_rank<T: Wire>(location: &SourceLocation) -> Edge<T> {
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
    let own = edges.iter().find_map(|edge| match &edge.source {
        Source::Value { builder, .. } => Some(Rc::clone(builder)),
        _ => None,
    });
    let refuse = |message: String| {
        Rc::new(Diagnostic::new(Code::BadRanks, message, location.clone()).labelled("these are the ranks"))
    };
    let broken = |mistake: &Rc<Diagnostic>| -> Vec<Edge<T>> {
        let broken = |_: &Edge<T>| Edge::new(Source::Broken(Rc::clone(mistake)));
        edges.iter().map(broken).collect()
    };
    let Some(builder) = current().or(own) else {
        return broken(&refuse(format!("{operation} is bound outside of a graph")));
    };
    let mut values = Vec::with_capacity(edges.len());
    let mut mistake = None;
    for (rank, edge) in edges.iter().enumerate() {
        match &edge.source {
            Source::Value { builder: own, value } if Rc::ptr_eq(own, &builder) => values.push(*value),
            Source::Value { .. } => {
                let message = format!("rank {rank} of {operation} is an edge of another graph");
                mistake = Some(Rc::new(Diagnostic::new(
                    Code::MixedGraphs,
                    message,
                    location.clone(),
                )));
            }
            Source::Broken(diagnostic) => mistake = Some(Rc::clone(diagnostic)),
            Source::Constant(_) | Source::List(_) => {
                let what = "no result of an actor, so nobody can take part for it";
                mistake = Some(refuse(format!("rank {rank} of {operation} is {what}")));
            }
        }
    }
    let mut graph = builder.borrow_mut();
    let outcome = match mistake {
        Some(mistake) => Err(mistake),
        None if edges.is_empty() => Err(refuse(format!("{operation} has no ranks"))),
        None => graph.collective(operation, &values, location).map_err(refuse),
    };
    match outcome {
        Ok(tasks) => {
            let payload = PayloadType::of::<T>();
            let value = |task: TaskId| graph.result(task, payload);
            let made: Vec<ValueId> = tasks.into_iter().map(value).collect();
            drop(graph);
            let edge = |value| {
                Edge::new(Source::Value {
                    builder: Rc::clone(&builder),
                    value,
                })
            };
            made.into_iter().map(edge).collect()
        }
        Err(mistake) => {
            graph.repeat(&mistake);
            broken(&mistake)
        }
    }
}

impl Builder {
    /// Adds the tasks of a collective, one for each of `values`. If that is not possible, returns the reason as text.
    fn collective(
        &mut self,
        operation: Collective,
        values: &[ValueId],
        location: &SourceLocation,
    ) -> Result<Vec<TaskId>, String> {
        if let Some(root) = operation.root().filter(|root| *root >= values.len()) {
            return Err(format!("{operation} names rank {root} of {}", values.len()));
        }
        let mut actors = Vec::with_capacity(values.len());
        for (rank, value) in values.iter().enumerate() {
            let Some(Origin::Task(maker)) = self.origin(*value) else {
                let what = "an input of the graph, not the result of an actor";
                return Err(format!("rank {rank} of {operation} is {what}"));
            };
            let Some(actor) = self.actor_of(maker) else {
                return Err(format!("rank {rank} of {operation} has no actor"));
            };
            if let Some(other) = actors.iter().position(|known| *known == actor) {
                let name = self.actor_name(actor);
                return Err(format!(
                    "ranks {other} and {rank} of {operation} are both of actor `{name}`"
                ));
            }
            actors.push(actor);
        }
        let id = CollectiveId(self.collectives.len() as u32);
        let mut tasks = Vec::with_capacity(values.len());
        for (actor, value) in actors.into_iter().zip(values) {
            let method_name = operation.to_string();
            let label = self.label(actor, &method_name);
            let bind_index = self.next_bind(actor);
            tasks.push(self.push_task(TaskIr {
                actor,
                method: u16::MAX,
                method_name: method_name.into(),
                label,
                args: vec![ArgIr::Value(*value)],
                groups: Vec::new(),
                meets: Vec::new(),
                collective: Some(id),
                duration_ns: None,
                bound_at: location.clone(),
                bind_index,
            }));
        }
        self.collectives.push(CollectiveIr {
            operation,
            tasks: tasks.clone(),
        });
        Ok(tasks)
    }
}
