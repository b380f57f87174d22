//! The graph of a batcher, which the owner may replace.
//!
//! The lock of the graph is taken before the lock of the [shared state](crate::shared), so that the state names the
//! cause of this graph's end, and never that of another one. Neither is held while user code runs.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_compiler::{ExecError, Graph};

use crate::shared::Shared;

/// A graph that has not ended.
pub(crate) struct Running<In, Out> {
    pub(crate) graph: Arc<Graph<In, Out>>,
    /// The number of the graph, unique within the batcher.
    pub(crate) generation: u64,
}

struct Current<In, Out> {
    graph: Option<Arc<Graph<In, Out>>>,
    /// The number of graphs before this one.
    generation: u64,
    /// Whether the end of this graph wakes the thread.
    is_watched: bool,
}

pub(crate) struct GraphSlot<In, Out>(Mutex<Current<In, Out>>);

impl<In, Out> GraphSlot<In, Out> {
    pub(crate) fn new(graph: Graph<In, Out>) -> Self {
        GraphSlot(Mutex::new(Current {
            graph: Some(Arc::new(graph)),
            generation: 0,
            is_watched: false,
        }))
    }

    /// Returns the graph, ended or not.
    pub(crate) fn graph(&self) -> Option<Arc<Graph<In, Out>>> {
        self.0.lock().graph.clone()
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

    /// Replaces the graph. Returns the old one.
    pub(crate) fn replace<I, O>(
        &self,
        graph: Arc<Graph<In, Out>>,
        shared: &Shared<I, O>,
    ) -> Option<Arc<Graph<In, Out>>> {
        let mut current = self.0.lock();
        let old = current.graph.replace(graph);
        current.generation += 1;
        current.is_watched = false;
        shared.record_replacement(old.as_ref().map(|old| ExecError::TornDown {
            graph: old.name().into(),
        }));
        old
    }

    /// Takes the graph out permanently.
    pub(crate) fn release(&self) -> Option<Arc<Graph<In, Out>>> {
        self.0.lock().graph.take()
    }
}
