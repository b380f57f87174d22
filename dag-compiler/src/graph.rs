//! A compiled graph: what a user executes.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use futures_core::Stream;
use selvedge_channels::AnyOutlet;

use crate::error::CompileError;
use crate::execution::{Execution, Take};
use crate::inspect;
use crate::ir::Plan;
use crate::map::Map;
use crate::options::OnFull;
use crate::ports::{Origin, Submitter};
use crate::profile::Profile;
use crate::run::control::region;
use crate::run::driver::Driver;
use crate::run::engine::{Engine, Through, moment};
use crate::run::error::{ExecError, Refused, Suspect};
use crate::run::layout::Span;
use crate::run::patience::Patience;
use crate::run::stuck::suspects;
use crate::run::teardown::Teardown;
use crate::run::trace::{self, Event};
use crate::start::plan_and_start;
use crate::stream::Streamed;

/// Writes an input value to the outlets of the graph's input.
pub(crate) type Write<In> = fn(In, &mut Submitter<'_>);

/// Whether an input value has as many items as the graph has edges.
pub(crate) type Fits<In> = fn(&In, usize) -> bool;

/// Publishes an input value at once, where that can be done.
pub(crate) type SendNow<In> = fn(In, &mut dyn AnyOutlet) -> Option<In>;

/// A compiled graph over actors, loaded and running.
///
/// Any number of threads may execute it. Dropping it tears it down within `Options::teardown_timeout`; its
/// actors can then be bound into another graph.
pub struct Graph<In, Out> {
    pub(crate) engine: Arc<Engine>,
    write: Write<In>,
    send: SendNow<In>,
    fits: Fits<In>,
    take: Take<Out>,
    leaves: usize,
    types: PhantomData<fn(In) -> Out>,
}

/// Counters of a graph. A submission writes every input once, and an execution is finished when each of its outputs has been read, or
/// has failed; how often each lane reads and writes a value follows from the plan, and single operations are in [`Graph::trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Executions submitted.
    pub submitted: u64,
    /// Executions all of whose outputs have arrived.
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
    pub(crate) fn new(
        engine: Arc<Engine>,
        (write, send, fits): (Write<In>, SendNow<In>, Fits<In>),
        take: Take<Out>,
        leaves: usize,
    ) -> Self {
        Graph {
            engine,
            write,
            send,
            fits,
            take,
            leaves,
            types: PhantomData,
        }
    }

    /// Submits `x` and returns a handle to the result, without waiting for it.
    ///
    /// When `Options::max_inflight` executions are unfinished, `Options::on_full` decides: by default it waits for room, at most
    /// `Options::submit_timeout`. A refusal is the answer of the returned handle; [`try_execute`](Self::try_execute) gives the value
    /// back instead.
    pub fn execute(&self, x: In) -> Execution<Out> {
        let mut value = Some(x);
        match self.submit(&mut value, self.engine.as_asked()) {
            Ok(execution) => execution,
            Err(error) => Execution::refused(Arc::clone(&self.engine), error, self.take),
        }
    }

    /// Executes `x` and waits for the result, as `execute(x).wait()`. Faster where nothing else is under way, lanes spin before
    /// they park, no task is inline, and the graph has one output that comes within the process, or is a number, a vector of
    /// numbers or text: no handle is made then that others could hold.
    ///
    /// # Errors
    /// As [`Execution::wait`], and what [`execute`](Self::execute) would refuse with.
    pub fn run(&self, x: In) -> Result<Out, ExecError> {
        let value = Cell::new(Some(x));
        let mut through = Through::Refused;
        self.through(&value, &mut through);
        match through {
            // Not as a whole: what has just been put together, word by word, could be copied only after a while.
            Through::Done(Ok(found)) => Ok(found),
            Through::Done(Err(error)) => {
                if !self.engine.control.is_running() {
                    self.engine.wake_due();
                }
                Err(error)
            }
            Through::Submitted(number, patience) => self.handle(number).wait_at_most(&patience),
            Through::Refused => self.run_on(value.take()),
        }
    }

    /// As far as [`run`](Self::run) goes in one go.
    #[inline]
    pub(crate) fn through(&self, value: &Cell<Option<In>>, through: &mut Through<Out>) {
        let send = |outlet: &mut dyn AnyOutlet| {
            let back = value.take().and_then(|value| (self.send)(value, outlet));
            let sent = back.is_none();
            value.set(back);
            sent
        };
        let stage = |driver: &mut Driver| self.stage(driver, value.take());
        self.engine.run_through(self.take, through, send, stage);
    }

    /// [`run`](Self::run) where it did not go through at once.
    #[inline(never)]
    fn run_on(&self, mut value: Option<In>) -> Result<Out, ExecError> {
        let mut execution = self.submit(&mut value, self.engine.as_asked())?;
        execution.wait_at_most(&self.engine.patience())
    }

    /// Submits `x` if there is room right now. Another thread that uses the graph at this moment is waited for, at most 50 ms.
    ///
    /// # Errors
    /// [`ExecError::CapacityExceeded`], [`ExecError::InputsUnread`] or [`ExecError::ResultsBuffered`] when there is none,
    /// [`ExecError::Timeout`] when another thread uses the graph for longer than that, whether there is room or not: it computes an
    /// inline actor's method, clones or writes a large input, or has lost its core meanwhile,
    /// [`ExecError::Reentered`] when this thread computes an inline actor's method,
    /// [`ExecError::InputCount`] where a `Vec` has another number of items than the graph has edges, [`ExecError::TornDown`] or
    /// [`ExecError::ActorDied`] when the graph has ended; the value comes back.
    pub fn try_execute(&self, x: In) -> Result<Execution<Out>, Refused<In>> {
        if !(self.fits)(&x, self.engine.options.inputs_value()) {
            let expected = self.engine.plan.ir.inputs.len();
            let error = ExecError::InputCount { expected };
            return Err(Refused { value: x, error });
        }
        let mut slot = Some(x);
        self.submit(&mut slot, (OnFull::Fail, moment()))
            .or_else(|error| match slot {
                Some(value) => Err(Refused { value, error }),
                None => Ok(Execution::refused(Arc::clone(&self.engine), error, self.take)),
            })
    }

    fn submit(&self, value: &mut Option<In>, asked: (OnFull, Patience)) -> Result<Execution<Out>, ExecError> {
        let number = self
            .engine
            .submit(asked, |driver| self.stage(driver, value.take()))?;
        Ok(self.handle(number))
    }

    /// Stages the value in the graph's inputs.
    #[inline]
    fn stage(&self, driver: &mut Driver, value: Option<In>) -> Result<(), ExecError> {
        let from = Origin {
            execution: driver.submitted(),
            info: &driver.input_info,
        };
        let mut submitter = Submitter::new(&mut driver.inputs, self.engine.options.inputs_value(), from);
        if let Some(value) = value {
            (self.write)(value, &mut submitter);
        }
        let expected = self.engine.plan.ir.inputs.len();
        submitter.finish().map_err(|_| ExecError::InputCount { expected })
    }

    fn handle(&self, number: u64) -> Execution<Out> {
        Execution::submitted(Arc::clone(&self.engine), number, 0..self.leaves, self.take)
    }

    /// Executes `n` inputs, several at once, and measures how long every task computes (the median). What is still in the
    /// event rings counts too.
    ///
    /// # Errors
    /// [`ExecError::TraceOff`] unless `Options::trace` keeps events, and whatever an execution ends with.
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

    /// Compiles the same graph again, ordered by measured durations, and starts it in place of this one: critical paths,
    /// lanes and slots are chosen by them. Results do not change; executions that are under way answer
    /// [`ExecError::TornDown`].
    ///
    /// # Errors
    /// As [`Compile::compile`](crate::Compile::compile); this graph has ended then.
    pub fn recompile(self, profile: &Profile) -> Result<Graph<In, Out>, CompileError> {
        let _ = self.teardown();
        let engine = &self.engine;
        let mut ir = engine.plan.ir.clone();
        for actor in &mut ir.actors {
            actor.lane = actor.home;
            // One that has been restarted is in another process.
            let now = engine.recipe.actors.iter().find(|now| now.id() == actor.id);
            if let Some(now) = now {
                actor.placement = now.placement().to_string();
            }
        }
        profile.apply(&mut ir);
        let (options, recipe) = (engine.options.clone(), Arc::clone(&engine.recipe));
        let started = plan_and_start(engine.lease.runtime(), options, ir, recipe)?;
        Ok(Graph::new(
            started,
            (self.write, self.send, self.fits),
            self.take,
            self.leaves,
        ))
    }

    /// Executions that may be under way without a result that finds no place: those that come before the oldest are buffered.
    pub(crate) fn window(&self) -> usize {
        let inflight = self.plan().settings.max_inflight as usize;
        inflight.min(self.engine.options.max_buffered_value())
    }

    /// Executes every item and yields the results in order, keeping at most `max_inflight` and at most `max_buffered` submitted.
    pub fn map<I: IntoIterator<Item = In>>(&self, items: I) -> Map<'_, In, Out, I::IntoIter> {
        Map::new(self, items.into_iter())
    }

    /// Executes every item of a stream and yields the results in order, keeping at most `max_inflight` and at most `max_buffered`
    /// submitted. A poll blocks its thread as one of [`Execution`] does, and where others have filled the graph, as
    /// [`execute`](Self::execute).
    pub fn stream<S: Stream<Item = In>>(&self, items: S) -> Streamed<'_, In, Out, S> {
        Streamed::new(self, items)
    }
}

impl<In, Out> Graph<In, Out> {
    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.engine.plan.graph
    }

    /// Tasks, channels and the schedule of every lane, as text.
    pub fn describe(&self) -> String {
        self.engine.plan.describe()
    }

    /// The compiled plan: plain data.
    pub fn plan(&self) -> &Plan {
        &self.engine.plan
    }

    /// How many executions were submitted and finished.
    pub fn counters(&self) -> Counters {
        let tally = &self.engine.tally;
        // Finished first: there are never more than submitted.
        let finished = tally.finished.load(Ordering::Relaxed);
        Counters {
            submitted: tally.submitted.load(Ordering::Relaxed).max(finished),
            finished,
        }
    }

    /// Who holds up what is submitted, looked up now: what a time-out would name, without one. Empty where nothing is under way, and
    /// once the graph has ended. The same suspect at the same execution again and again is one that makes no progress.
    pub fn suspects(&self) -> Vec<Suspect> {
        let submitted = self.counters().submitted;
        if self.ended().is_some() {
            return Vec::new();
        }
        let engine = &self.engine;
        let mut suspects = suspects(&engine.plan, &engine.control, &engine.recipe.actors);
        // Who waits for what nobody has submitted holds up nothing.
        suspects.retain(|suspect| suspect.execution < submitted);
        suspects
    }

    /// The operations still in the event rings, by start time, and the COMPUTEs that are under way; empty unless
    /// `Options::trace` asked for them.
    pub fn trace(&self) -> Vec<Event> {
        let Some(began) = self.engine.began else {
            return Vec::new();
        };
        let (engine, segment) = (&self.engine, &self.engine.segment);
        let finished = engine.tally.finished.load(Ordering::Relaxed);
        trace::read(&engine.plan, &engine.layout, began, finished, |offset, len| {
            region(segment, Span { offset, len }).ok()
        })
    }

    /// [`trace`](Self::trace) as a file for `ui.perfetto.dev` or `chrome://tracing`, with arrows along edges.
    pub fn trace_json(&self) -> String {
        self.plan().trace_json(&self.trace())
    }

    /// One HTML page that works offline: the planned time line, and what is in the event rings under it.
    pub fn to_html(&self) -> String {
        self.plan().to_html(&self.trace())
    }

    /// [`trace`](Self::trace) as a picture (SVG) of the last `executions`: a row per lane, with what it computed and waited for.
    pub fn trace_svg(&self, executions: usize) -> String {
        self.plan().trace_svg(&self.trace(), executions)
    }

    /// Writes the trace where `--selvedge-trace` says, once: a page for a name that ends in `.html`, a picture for `.svg`, else
    /// a file for Perfetto.
    fn save_trace(&self) {
        let Some(file) = inspect::trace_file() else { return };
        if self.engine.torn_down.load(Ordering::Relaxed) {
            return;
        }
        let text = match file.rsplit('.').next() {
            Some("html") => self.to_html(),
            Some("svg") => self.trace_svg(inspect::PICTURED),
            _ => self.trace_json(),
        };
        if let Err(error) = std::fs::write(&file, text) {
            eprintln!("the trace could not be written to {file}: {error}");
        }
    }

    /// Why the graph has ended, if it has.
    pub fn ended(&self) -> Option<ExecError> {
        self.engine.ended()
    }

    /// As [`ended`](Self::ended); where it has not, `waker` is woken once when an actor dies, a lane fails, the runtime is
    /// shut down or the graph is torn down, also while nothing is executed. It is kept as long as the graph lives: for the few
    /// that watch over a graph, not for one of many requests.
    pub fn watch(&self, waker: &Waker) -> Option<ExecError> {
        self.engine.watch(waker)
    }

    /// Waits until every submitted execution has finished, at most `grace`, then tears the graph down.
    pub fn shutdown(self, grace: Duration) -> Teardown {
        let all = self.counters().submitted;
        let drained = |driver: &mut Driver| (driver.finished() >= all).then_some(Ok(()));
        let patience = Patience::new(Some(grace), "the argument of shutdown");
        let _ = self.engine.wait_for(&patience, drained);
        self.teardown()
    }

    /// Ends the graph within `Options::teardown_timeout`: no further task begins, pending executions answer
    /// [`ExecError::TornDown`], and the actors are free for another graph. Idempotent.
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
