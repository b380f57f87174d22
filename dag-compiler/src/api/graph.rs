//! A compiled graph: the handle through which a user executes it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use selvedge_channels::AnyOutlet;

use crate::api::execution::Execution;
use crate::api::options::OnFull;
use crate::api::start::plan_and_start;
use crate::bind::ports::{FailureOrigin, Submitter, Take};
use crate::error::CompileError;
use crate::ir::Plan;
use crate::plan::profile::Profile;
use crate::run::driver::Driver;
use crate::run::engine::submit::{Outcome, Submission};
use crate::run::engine::teardown::Teardown;
use crate::run::engine::wait::moment;
use crate::run::engine::{Engine, TimeLimit};
use crate::run::error::{ExecError, Refused, Suspect};

/// The functions of an input type: `Inputs::write`, `Inputs::send` and `Inputs::fits`.
pub(crate) type InputType<In> = (
    fn(In, &mut Submitter<'_>),
    fn(In, &mut dyn AnyOutlet) -> Option<In>,
    fn(&In, usize) -> bool,
);

/// A compiled graph over actors, loaded and running.
///
/// Any number of threads may execute the graph. Dropping the graph tears it down within `Options::teardown_timeout`;
/// its actors can then be bound into another graph.
pub struct Graph<In, Out> {
    pub(crate) engine: Arc<Engine>,
    input: InputType<In>,
    pub(crate) take: Take<Out>,
    leaves: usize,
    types: PhantomData<fn(In) -> Out>,
}

/// Counters of a graph. A submission writes every input once; an execution is finished when each of its outputs has
/// been read or has failed. The plan determines how often each lane reads and writes a value; single operations are in
/// [`Graph::trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The number of executions submitted.
    pub submitted: u64,
    /// The number of executions whose outputs have all arrived.
    pub finished: u64,
}

impl<In, Out> std::fmt::Debug for Graph<In, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph")
            .field("name", &self.engine.plan.graph)
            .finish_non_exhaustive()
    }
}

impl<In: 'static, Out> Graph<In, Out> {
    pub(crate) fn new(engine: Arc<Engine>, input: InputType<In>, take: Take<Out>, leaves: usize) -> Self {
        Graph {
            engine,
            input,
            take,
            leaves,
            types: PhantomData,
        }
    }

    /// Submits `x` and returns a handle to the result, without waiting for the result.
    ///
    /// If `Options::max_inflight` executions are unfinished, `Options::on_full` decides: by default the call waits for
    /// room, at most `Options::submit_timeout`. The returned handle answers with the error if the submission is
    /// refused; [`try_execute`](Self::try_execute) returns the value instead.
    pub fn execute(&self, x: In) -> Execution<Out> {
        match self.enter(&mut self.value(x), self.engine.submit_options()) {
            Ok(execution) => execution,
            Err(error) => Execution::refused(Arc::clone(&self.engine), error, self.take),
        }
    }

    /// Executes `x` and waits for the result, like `execute(x).wait()`. Faster if no other execution is in flight,
    /// lanes spin before they park, no task is inline, and the graph has one output that stays within the process or is
    /// a number, a vector of numbers or text: such an execution needs no handle that could be shared.
    ///
    /// # Errors
    /// The errors of [`Execution::wait`], and the errors with which [`execute`](Self::execute) refuses a submission.
    pub fn run(&self, x: In) -> Result<Out, ExecError> {
        let mut input = self.value(x);
        let mut ran = Outcome::Refused;
        self.engine.run(&mut input, self.take, &mut ran);
        match ran {
            // Rebuilds the `Result` from `found` instead of returning it whole: a copy of the whole enum, which has
            // just been written field by field, would wait for those stores.
            Outcome::Done(Ok(found)) => Ok(found),
            Outcome::Done(Err(error)) => {
                if !self.engine.control.is_running() {
                    self.engine.wake_due();
                }
                Err(error)
            }
            Outcome::Pending { number, limit } => self.handle(number).wait_at_most(&limit),
            Outcome::Refused => self.run_in_turn(input),
        }
    }

    /// Executes the input while others use the graph.
    #[inline(never)]
    fn run_in_turn(&self, mut input: GraphInput<'_, In, Out>) -> Result<Out, ExecError> {
        let mut execution = self.enter(&mut input, self.engine.submit_options())?;
        execution.wait_at_most(&self.engine.limit())
    }

    /// Submits `x` if there is room right now. If another thread uses the graph at this moment, waits for that thread,
    /// at most 50 ms.
    ///
    /// # Errors
    /// [`ExecError::CapacityExceeded`], [`ExecError::InputsUnread`] or [`ExecError::ResultsBuffered`] if there is no
    /// room. [`ExecError::Timeout`] if another thread uses the graph for longer than 50 ms, whether or not there is
    /// room: that thread computes an inline actor's method, clones or writes a large input, or has lost its core.
    /// [`ExecError::Reentered`] if this thread computes an inline actor's method. [`ExecError::InputCount`] if a `Vec`
    /// has another number of items than the graph has edges. [`ExecError::TornDown`] or [`ExecError::ActorDied`] if the
    /// graph has ended. Every [`Refused`] contains the value.
    pub fn try_execute(&self, x: In) -> Result<Execution<Out>, Refused<In>> {
        let (_, _, fits) = self.input;
        if !fits(&x, self.engine.options.inputs_value()) {
            let expected = self.engine.plan.ir.inputs.len();
            let error = ExecError::InputCount { expected };
            return Err(Refused { value: x, error });
        }
        let mut input = self.value(x);
        self.enter(&mut input, (OnFull::Fail, moment()))
            .or_else(|error| match input.value {
                Some(value) => Err(Refused { value, error }),
                None => Ok(Execution::refused(Arc::clone(&self.engine), error, self.take)),
            })
    }

    pub(super) fn enter(
        &self,
        input: &mut GraphInput<'_, In, Out>,
        asked: (OnFull, TimeLimit),
    ) -> Result<Execution<Out>, ExecError> {
        let number = self.engine.submit(asked, input)?;
        Ok(self.handle(number))
    }

    #[inline]
    pub(crate) fn value(&self, x: In) -> GraphInput<'_, In, Out> {
        GraphInput {
            graph: self,
            value: Some(x),
        }
    }

    fn handle(&self, number: u64) -> Execution<Out> {
        Execution::submitted(Arc::clone(&self.engine), number, 0..self.leaves, self.take)
    }

    /// Executes `n` inputs, several concurrently, and measures the median duration of each task's COMPUTE. Earlier
    /// events that are still in the event rings count too.
    ///
    /// # Errors
    /// [`ExecError::TraceOff`] unless `Options::trace` keeps events, and the error of any execution that fails.
    pub fn profile(&self, n: usize, input: impl FnMut(usize) -> In) -> Result<Profile, ExecError> {
        if self.plan().settings.trace_events == 0 {
            return Err(ExecError::TraceOff {
                graph: self.name().into(),
            });
        }
        for result in self.map((0..n).map(input)) {
            result?;
        }
        Ok(Profile::of(&self.trace()))
    }

    /// Compiles the same graph again with measured durations and starts it in place of this one: critical paths, lanes
    /// and slots follow from those durations. Results do not change; executions in flight answer
    /// [`ExecError::TornDown`].
    ///
    /// # Errors
    /// The errors of [`Compile::compile`](crate::Compile::compile); this graph has ended in that case too.
    pub fn recompile(self, profile: &Profile) -> Result<Graph<In, Out>, CompileError> {
        let _ = self.teardown();
        let engine = &self.engine;
        let mut ir = engine.plan.ir.clone();
        for actor in &mut ir.actors {
            actor.lane = actor.home.lane;
            // An actor that was restarted lives in another process.
            let now = engine.recipe.actors.iter().find(|now| now.id() == actor.id);
            if let Some(now) = now {
                actor.placement = now.placement().to_string();
            }
        }
        profile.apply(&mut ir);
        let (options, recipe) = (engine.options.clone(), Arc::clone(&engine.recipe));
        let started = plan_and_start(engine.lease.runtime(), options, ir, recipe)?;
        Ok(Graph::new(started, self.input, self.take, self.leaves))
    }
}

/// One input value of a graph, until it is published or staged.
pub(crate) struct GraphInput<'g, In, Out> {
    graph: &'g Graph<In, Out>,
    pub(super) value: Option<In>,
}

impl<In, Out> Submission for GraphInput<'_, In, Out> {
    #[inline]
    fn send(&mut self, outlet: &mut dyn AnyOutlet) -> bool {
        let (_, send, _) = self.graph.input;
        self.value = self.value.take().and_then(|value| send(value, outlet));
        self.value.is_none()
    }

    #[inline]
    fn stage(&mut self, driver: &mut Driver) -> Result<(), ExecError> {
        let from = FailureOrigin {
            execution: driver.books.submitted(),
            info: &driver.input_info,
        };
        let engine = &self.graph.engine;
        let mut submitter = Submitter::new(&mut driver.inputs, engine.options.inputs_value(), from);
        let (write, ..) = self.graph.input;
        if let Some(value) = self.value.take() {
            write(value, &mut submitter);
        }
        let expected = engine.plan.ir.inputs.len();
        submitter.finish().map_err(|_| ExecError::InputCount { expected })
    }
}

impl<In, Out> Graph<In, Out> {
    /// The name of the graph.
    pub fn name(&self) -> &str {
        &self.engine.plan.graph
    }

    /// The tasks, the channels and the schedule of every lane, as text.
    pub fn describe(&self) -> String {
        self.engine.plan.describe()
    }

    /// The compiled plan: plain data.
    pub fn plan(&self) -> &Plan {
        &self.engine.plan
    }

    /// The numbers of executions submitted and finished.
    pub fn counters(&self) -> Counters {
        let counters = &self.engine.counters;
        // Reads `finished` first, because it is never larger than `submitted`. Relaxed: a counter orders nothing.
        let finished = counters.finished.load(Ordering::Relaxed);
        Counters {
            // Relaxed: a counter orders nothing; `max` keeps the two consistent.
            submitted: counters.submitted.load(Ordering::Relaxed).max(finished),
            finished,
        }
    }

    /// The lanes that hold up the submitted executions at this moment: the suspects that a time-out would name. Empty
    /// if no execution is in flight or the graph has ended. A suspect that stays at the same execution from call to
    /// call makes no progress. A graph over several hosts asks the others, and waits for at most 0.2 s for their answers.
    pub fn suspects(&self) -> Vec<Suspect> {
        let submitted = self.counters().submitted;
        if self.ended().is_some() {
            return Vec::new();
        }
        let mut suspects = self.engine.suspects();
        // A lane that waits for an execution that was not submitted holds up nothing.
        suspects.retain(|suspect| suspect.execution < submitted);
        suspects
    }

    /// The reason why the graph has ended; `None` while it runs.
    pub fn ended(&self) -> Option<ExecError> {
        self.engine.ended()
    }

    /// Returns the same as [`ended`](Self::ended). If the graph still runs, `waker` is woken once when an actor dies, a
    /// lane fails, the runtime is shut down or the graph is torn down, even while no execution is in flight. The graph
    /// keeps the waker for as long as it lives: for the few tasks that watch a graph, not for one of many requests.
    pub fn watch(&self, waker: &Waker) -> Option<ExecError> {
        self.engine.watch(waker)
    }

    /// Waits until every submitted execution has finished, at most `grace`, then tears the graph down.
    pub fn shutdown(self, grace: Duration) -> Teardown {
        let all = self.counters().submitted;
        let drained = |driver: &mut Driver| (driver.books.finished() >= all).then_some(Ok(()));
        let limit = TimeLimit::new(Some(grace), "the argument of shutdown");
        let _ = self.engine.wait_for(&limit, drained);
        self.teardown()
    }

    /// Ends the graph within `Options::teardown_timeout`: no further task begins, pending executions answer
    /// [`ExecError::TornDown`], and the actors become free for another graph. Idempotent.
    pub fn teardown(&self) -> Teardown {
        self.save_trace();
        self.engine.teardown(self.engine.options.teardown_timeout_value())
    }
}

impl<In, Out> Drop for Graph<In, Out> {
    fn drop(&mut self) {
        if Engine::let_be(&self.engine) {
            return;
        }
        self.save_trace();
        let _ = self.engine.teardown(self.engine.options.teardown_timeout_value());
    }
}
