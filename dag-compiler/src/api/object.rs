//! Results of graphs as objects: references that other processes fetch and functions take.

use std::sync::Arc;

use selvedge_channels::Wire;
use selvedge_core::{Failure, Lost, Ref, deadline_after};

use crate::api::execution::Execution;
use crate::api::graph::Graph;
use crate::api::options::OnFull;
use crate::run::engine::open_objects::OpenObject;
use crate::run::error::ExecError;

impl<In: 'static, Out> Graph<In, Out> {
    /// Submits `x` and returns a reference to the result, without waiting for the result: [`execute`](Self::execute), and
    /// [`Execution::into_ref`].
    ///
    /// While `Options::max_inflight` executions are unfinished the call waits for room or is refused, as `execute` is. If
    /// `Options::max_buffered` results have not been taken, the call waits until one of a reference is, unless the graph has
    /// `OnFull::Fail`: nobody else takes it. Either wait ends at `Options::submit_timeout`. A refusal is the failure of the reference.
    ///
    /// For a graph with several outputs the result is one object, a tuple. `execute(x).split()` has one execution for each, and
    /// each of them an [`into_ref`](Execution::into_ref).
    pub fn submit(&self, x: In) -> Ref<Out>
    where
        Out: Wire,
    {
        let (mut input, objects) = (self.value(x), &self.engine.objects);
        let deadline = self.engine.options.submit_timeout_value().map(deadline_after);
        loop {
            let taken = objects.taken();
            let (on_full, limit) = self.engine.submit_options();
            let waits = on_full != OnFull::Fail;
            let execution = match self.enter(&mut input, (on_full, limit)) {
                Ok(execution) => execution,
                Err(ExecError::ResultsBuffered { .. })
                    if waits && input.value.is_some() && objects.wait_for_one(taken, deadline) =>
                {
                    continue;
                }
                Err(error) => Execution::refused(Arc::clone(&self.engine), error, self.take),
            };
            return execution.into_ref();
        }
    }
}

impl<Out> Execution<Out> {
    /// Makes the result an object of this process, and returns a reference to it at once. Remote functions take the reference in the
    /// place of the value, other processes fetch it, and a result of more than 16 KiB lies in the object store of this host, as with
    /// [`Runtime::put`](selvedge_core::Runtime::put).
    ///
    /// The execution goes on without a handle: the drop of the reference cancels nothing, as with a submitted call. The result is
    /// taken soon after it has arrived; until then it is one of those that `Options::max_buffered` counts. It must arrive within
    /// `Options::timeout`, as for [`wait`](Self::wait).
    ///
    /// A failure of the execution is the failure of every fetch: `downcast_ref::<ExecError>()` has it in this process, and
    /// `downcast_ref` the user's own error. If the graph ends before the result has arrived, the object is [`Lost::GraphEnded`]: the input is
    /// not executed again, since the state that it has left in the actors is not known.
    ///
    /// The executions of all graphs are awaited on one thread, which computes the tasks of inline actors too, one after the other. A
    /// long inline task keeps the results of other graphs waiting; give such an actor a thread.
    pub fn into_ref(self) -> Ref<Out>
    where
        Out: Wire,
    {
        let engine = self.engine();
        let (graph, runtime) = (engine.plan.graph.clone(), engine.lease.runtime().clone());
        let open = OpenObject::new(engine);
        runtime.object_of(async move {
            let result = self.await;
            // The result is taken, or will never be.
            drop(open);
            result.map_err(|error| failure(error, &graph))
        })
    }
}

/// The failure of an object whose execution gave no value.
fn failure(error: ExecError, graph: &str) -> Failure {
    match error.graph_goes_on() {
        true => {
            let original = error.as_task().and_then(|task| task.original().cloned());
            Failure::made_of(error, original)
        }
        false => Failure::from(Lost::GraphEnded {
            graph: graph.to_owned(),
            reason: error.to_string(),
        }),
    }
}
