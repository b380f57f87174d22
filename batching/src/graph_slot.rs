//! The graph of a batcher, which the owner may replace.
//!
//! The lock of the graph is taken before the lock of the [shared state](crate::shared), so that the state names the
//! cause of this graph's end, and never that of another one. Neither is held while user code runs.

use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_compiler::{ExecError, Graph};

use crate::shared::{Shared, tell};

/// A graph of the batcher, which knows how many of its owners are in the batcher.
pub(crate) struct OwnGraph<In, Out> {
    graph: Arc<Graph<In, Out>>,
    /// Has one owner for each owner of the graph in the batcher.
    inside: Arc<()>,
}

impl<In, Out> OwnGraph<In, Out> {
    fn new(graph: Graph<In, Out>) -> Self {
        OwnGraph {
            graph: Arc::new(graph),
            inside: Arc::default(),
        }
    }

    /// Tears the graph down, unless somebody outside the batcher owns it. The batcher's thread may still use it.
    pub(crate) fn let_go(self) {
        if Arc::strong_count(&self.graph) <= Arc::strong_count(&self.inside) {
            let _ = self.graph.teardown();
        }
    }
}

impl<In, Out> Clone for OwnGraph<In, Out> {
    fn clone(&self) -> Self {
        // Counted first, so that this owner never counts as one outside.
        let inside = Arc::clone(&self.inside);
        OwnGraph {
            graph: Arc::clone(&self.graph),
            inside,
        }
    }
}

impl<In, Out> Deref for OwnGraph<In, Out> {
    type Target = Graph<In, Out>;

    fn deref(&self) -> &Graph<In, Out> {
        &self.graph
    }
}

/// A graph that has not ended.
pub(crate) struct Running<In, Out> {
    pub(crate) graph: OwnGraph<In, Out>,
    /// The number of the graph, unique within the batcher.
    pub(crate) generation: u64,
}

struct Current<In, Out> {
    graph: Option<OwnGraph<In, Out>>,
    /// The number of graphs before this one.
    generation: u64,
    /// Whether the end of this graph wakes the thread.
    is_watched: bool,
}

pub(crate) struct GraphSlot<In, Out>(Mutex<Current<In, Out>>);

impl<In, Out> GraphSlot<In, Out> {
    pub(crate) fn new(graph: Graph<In, Out>) -> Self {
        GraphSlot(Mutex::new(Current {
            graph: Some(OwnGraph::new(graph)),
            generation: 0,
            is_watched: false,
        }))
    }

    /// Returns the graph, ended or not.
    pub(crate) fn graph(&self) -> Option<Arc<Graph<In, Out>>> {
        self.0.lock().graph.as_ref().map(|graph| Arc::clone(&graph.graph))
    }

    /// Returns the graph, if it has not ended.
    pub(crate) fn running<I, O>(&self, shared: &Shared<I, O>) -> Option<Running<In, Out>> {
        let current = self.0.lock();
        let graph = current.graph.clone().filter(|_| shared.broken().is_none())?;
        let generation = current.generation;
        Some(Running { graph, generation })
    }

    /// Checks whether the graph has ended. If it has, answers the items and the tickets that depend on it.
    pub(crate) fn check<I, O>(&self, shared: &Shared<I, O>) {
        let mut current = self.0.lock();
        let is_watched = std::mem::replace(&mut current.is_watched, true);
        let ended = current.graph.as_ref().and_then(|graph| match is_watched {
            false => graph.watch(&Arc::clone(shared.sleeper()).into()),
            true => graph.ended(),
        });
        let affected = ended.and_then(|cause| shared.record_end(cause));
        drop(current);
        if let Some(affected) = affected {
            shared.tell_end(affected);
        }
    }

    /// Reports the numbers of items and of overdue executions that the thread holds, and whether an execution is overdue on
    /// the present graph, whose number `overdue_on` is given. What is overdue on an earlier graph says nothing about this one.
    pub(crate) fn report<I, O>(
        &self,
        shared: &Shared<I, O>,
        held: (usize, usize),
        overdue_on: impl FnOnce(u64) -> Option<ExecError>,
    ) {
        let current = self.0.lock();
        let watchers = shared.record_held(held, overdue_on(current.generation));
        drop(current);
        if let Some((error, watchers)) = watchers {
            tell(watchers, &error);
        }
    }

    /// Replaces the graph. Returns the old one.
    pub(crate) fn replace<I, O>(
        &self,
        graph: Graph<In, Out>,
        shared: &Shared<I, O>,
    ) -> Option<OwnGraph<In, Out>> {
        let mut current = self.0.lock();
        let old = current.graph.replace(OwnGraph::new(graph));
        current.generation += 1;
        current.is_watched = false;
        shared.record_replacement(old.as_ref().map(|old| ExecError::TornDown {
            graph: old.name().into(),
        }));
        old
    }

    /// Takes the graph out permanently.
    pub(crate) fn release(&self) -> Option<OwnGraph<In, Out>> {
        self.0.lock().graph.take()
    }
}
