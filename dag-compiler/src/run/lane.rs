//! The loop: one lane's program, run execution after execution.
//!
//! A program is a straight list of steps. `step` tries one step, or a stretch of hops, and says whether it moved. So
//! the same machine runs on a borrowed thread, which spins and then parks on its doorbell, and on a thread that holds
//! the driver.
//!
//! Invariants:
//! - `LOOP-1` every task publishes exactly one message per execution on every output: a value, its error, or a
//!   tombstone. So a message's number is the number of its execution, and executions never mix (RW-05).
//! - `LOOP-2` a task whose input failed does not run; the same fault travels on and is not wrapped again (TASK-08).
//! - `LOOP-3` inputs that fail-fast left unread are released as they arrive, even while the lane waits for something
//!   else, so a writer is never blocked by an input that no task will read.
//! - `LOOP-4` a step that returns `Blocked` has changed nothing.
//! - `LOOP-5` the inputs of a task are released before its result can be seen: a thread that has all results of an
//!   execution finds the slots of its inputs free.

mod bring;
mod hop;
mod plain;
mod work;

use std::time::{Duration, Instant};

use selvedge_channels::{
    AnyOutlet, AnyValue, Arrival, ChannelError, Doorbell, Fault, Mover, Readiness, SpinBudget, Waiting,
};
use selvedge_collectives::CommError;
use selvedge_core::{ActorId, AsyncDriver, Compute, Failure, Gather, LaneHost, LaneId, Program};

use crate::ir::{OpKind, TaskId};
use crate::run::actor_set::ActorSet;
use crate::run::control::{Control, GraphState, Phase, ProgressLine};
use crate::run::leaf::AnyLeaf;
use crate::run::ranks::{CollectiveRun, Part, RankRun};
use crate::run::report::{TaskInfo, fault_of};
use crate::run::trace::Recorder;

pub(crate) use self::bring::BringRun;
pub(crate) use self::hop::HopRun;
use self::plain::Ran;
pub(crate) use self::work::publish;
use self::work::{invoke, invoke_prepared};

/// A task as its lane runs it.
pub(crate) struct TaskRun {
    pub(crate) id: TaskId,
    pub(crate) actor: ActorId,
    /// The position at which the crew last found the actor.
    pub(crate) seat: usize,
    /// The method. A rank of a collective has none.
    pub(crate) compute: Compute,
    pub(crate) info: TaskInfo,
    /// Indices into the lane's values, one per argument.
    pub(crate) args: Vec<usize>,
    /// Indices into the lane's values, one per parameter: a list of arguments is one value.
    pub(crate) params: Vec<usize>,
    /// Lists to assemble, inner lists first.
    pub(crate) gathers: Vec<GatherRun>,
    /// Arguments whose tensors are needed on the actor's device.
    pub(crate) brings: Vec<BringRun>,
    /// The outlets of the whole result, then of each part, then of the signal that the task is done; `None` if the
    /// value has no reader.
    pub(crate) outlets: Vec<Option<Box<dyn AnyOutlet>>>,
    /// The number of outlets before the signal's.
    pub(crate) results: usize,
    /// The index of the only outlet, if there is only one and publishing to it runs no user code.
    pub(crate) sole: Option<usize>,
    /// Set if the task is a hop, with one argument and one result; such a task runs through the fast path of hops.
    pub(crate) hop: Option<HopRun>,
    /// The fault that `Await` found: the task does not run in this execution.
    pub(crate) fault: Option<Fault>,
    /// True if the task gave up before all of its inputs had arrived.
    pub(crate) gave_up: bool,
    /// The task's part as a rank of a collective, in place of a method.
    pub(crate) collective: Option<CollectiveRun>,
}

impl TaskRun {
    /// Stages the signal that tells other tasks only that this task is done.
    pub(crate) fn say_done(&mut self) {
        for signal in self.outlets.iter_mut().skip(self.results).flatten() {
            if let Some(signal) = signal.typed_mut::<()>() {
                signal.stage(());
            }
        }
    }
}

/// A list that is assembled before its task computes.
pub(crate) struct GatherRun {
    pub(crate) gather: Gather,
    /// Indices of the elements' values.
    pub(crate) members: Vec<usize>,
    /// Index of the list's own value.
    pub(crate) into: usize,
}

/// The number of steps of a task that runs in one go: READ, COMPUTE and WRITE.
pub(crate) const STEPS: usize = 3;

/// One step of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneStep {
    /// All READs of a task: one wait for inputs that arrive in any order (RW-03).
    Await(usize),
    /// A plain task: its READs and, on the fast path, also its COMPUTE and WRITE, which are the next two steps. For a
    /// hop, the fast path also includes the hops that follow.
    Run(usize),
    /// The task's method.
    Compute(usize),
    /// The task's part in a collective, which is over when the task's WRITE is done.
    Post(usize),
    /// The task's WRITE: to all its outputs or to none (RW-13).
    Write(usize),
    /// An output of the graph that is the value of an inline task: moves the value to its leaves.
    Collect(usize),
}

/// An output of the graph: the lane value and the leaves it goes to.
pub(crate) struct OutputPort {
    /// The task that made the value, for a result that cannot be decoded.
    pub(crate) info: TaskInfo,
    pub(crate) value: usize,
    pub(crate) leaves: Vec<usize>,
    /// True if the value comes from another lane, has no other reader, and taking it runs no user code.
    pub(crate) moves: bool,
    /// The number of executions collected so far.
    pub(crate) collected: u64,
}

/// Reads that fail-fast gave up before the value had arrived.
struct Forgone {
    value: usize,
    execution: u64,
    reads: u32,
}

/// The reasons why a lane, and with it the graph, cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Group(#[from] CommError),
}

/// The time limit for waiting for the report of a death that may explain an error. The report takes a moment to reach
/// the process that runs the graph.
pub(crate) const NEWS_TIMEOUT: Duration = Duration::from_secs(3);

impl LaneError {
    /// Whether the error may be the first sign of a process's death.
    pub(crate) fn may_be_a_death(&self) -> bool {
        match self {
            LaneError::Channel(ChannelError::Segment(error))
            | LaneError::Group(CommError::Segment(error)) => error.may_be_a_death(),
            LaneError::Channel(ChannelError::Closed) => true,
            _ => false,
        }
    }
}

/// A [`LaneError`] with the task at which it was found. Boxed, because every step returns it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) task: TaskId,
    pub(crate) error: LaneError,
}

#[cold]
fn broken(task: TaskId, error: impl Into<LaneError>) -> Box<Broken> {
    let error = error.into();
    Box::new(Broken { task, error })
}

/// An error that belongs to no task.
#[cold]
fn nowhere(error: ChannelError) -> Box<Broken> {
    broken(TaskId(u32::MAX), error)
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Advanced,
    Blocked,
    Ended,
}

/// One lane's program with the ends of its channels.
pub(crate) struct LaneLoop {
    pub(crate) lane: LaneId,
    pub(crate) values: Vec<Box<dyn AnyValue>>,
    pub(crate) tasks: Vec<TaskRun>,
    /// The lane's ranks in collectives.
    pub(crate) ranks: Vec<RankRun>,
    pub(crate) steps: Vec<LaneStep>,
    pub(crate) ports: Vec<OutputPort>,
    pub(crate) leaves: Vec<Box<dyn AnyLeaf>>,
    pub(crate) control: Control,
    pub(crate) bell: Doorbell,
    pub(crate) progress: ProgressLine,
    pub(crate) waiting: Waiting,
    /// True if the lane spins for its next input at present.
    pub(crate) spins: bool,
    pub(crate) recorder: Recorder,
    pub(crate) driver: AsyncDriver,
    pub(crate) state: LaneCursor,
}

/// The position of a lane in its program.
#[derive(Default)]
pub(crate) struct LaneCursor {
    pub(crate) execution: u64,
    step: usize,
    waiting: bool,
    forgone: Vec<Forgone>,
}

impl LaneCursor {
    /// Advances by `steps` steps in a program of `len` steps.
    #[inline]
    fn pass(&mut self, steps: usize, len: usize) {
        self.waiting = false;
        self.step += steps;
        if self.step >= len {
            self.step = 0;
            self.execution += 1;
        }
    }
}

impl LaneLoop {
    /// The number of the execution that the lane is at.
    pub(crate) fn execution(&self) -> u64 {
        self.state.execution
    }

    /// All the state that decides the lane's next action, for the models.
    #[cfg(test)]
    pub(crate) fn seen(&self) -> impl Iterator<Item = u64> {
        let state = &self.state;
        let gave_up = self.tasks.iter().map(|task| task.gave_up);
        let gave_up = gave_up.fold(1u64, |all, one| all << 1 | u64::from(one));
        let forgone = state.forgone.iter().map(|it| it.execution << 8 | it.value as u64);
        let faults = self
            .tasks
            .iter()
            .fold(1u64, |all, task| all << 1 | u64::from(task.fault.is_some()));
        [
            state.execution,
            state.step as u64,
            u64::from(state.waiting),
            gave_up,
            faults,
        ]
        .into_iter()
        .chain(forgone)
    }

    /// Whether an input of the next step may have arrived: a quick poll while the lane waits.
    #[inline]
    fn stirs(&mut self) -> bool {
        self.recorder.looks();
        let Some(LaneStep::Await(task) | LaneStep::Run(task)) = self.steps.get(self.state.step) else {
            return true;
        };
        let awaits = |task: &TaskRun| {
            let mut args = task.args.iter();
            args.any(|value| self.values.get(*value).is_none_or(|value| value.stirs()))
        };
        !self.ranks.is_empty() || !self.state.forgone.is_empty() || self.tasks.get(*task).is_none_or(awaits)
    }

    /// Tries the next step (`LOOP-4`).
    #[inline]
    pub(crate) fn step<C: ActorSet + ?Sized>(&mut self, crew: &mut C) -> Result<Moved, Box<Broken>> {
        let Some(step) = self.steps.get(self.state.step).copied() else {
            return Ok(Moved::Blocked);
        };
        if !self.ranks.is_empty()
            && let Err(error) = self.advance_ranks()
        {
            // A neighbour that ends leaves its group, and this rank gets an error.
            let running = self.control.state() == GraphState::Running;
            return if running { Err(error) } else { Ok(Moved::Ended) };
        }
        let moved = match step {
            LaneStep::Await(task) => self.await_inputs(task),
            LaneStep::Run(task) => match self.run(crew, task) {
                Ran::Done => return Ok(Moved::Advanced),
                Ran::Computed => {
                    self.pass(2);
                    return Ok(Moved::Advanced);
                }
                Ran::Blocked => Ok(Moved::Blocked),
                Ran::Otherwise => self.await_inputs(task),
                Ran::Broken(broken) => Err(broken),
            },
            LaneStep::Compute(task) => self.compute(task, crew),
            LaneStep::Post(task) => self.post(task),
            LaneStep::Write(task) => self.write(task),
            LaneStep::Collect(port) => self.collect(port).map_err(nowhere),
        };
        if let Ok(Moved::Advanced) = moved {
            self.pass(1);
            return moved;
        }
        self.halted(moved)
    }

    /// Handles a step that has not moved; decides whether the graph has ended.
    fn halted(&mut self, moved: Result<Moved, Box<Broken>>) -> Result<Moved, Box<Broken>> {
        match moved {
            Ok(Moved::Blocked) => {
                self.recorder.blocked();
                if self.control.state() != GraphState::Running {
                    return Ok(Moved::Ended);
                }
                self.drain_forgone().map_err(nowhere)?;
            }
            // A neighbour that ends closes its channel (TASK-10).
            Err(broken) if matches!(broken.error, LaneError::Channel(ChannelError::Closed)) => {
                return Ok(Moved::Ended);
            }
            _ => {}
        }
        moved
    }

    /// Advances the posted parts in collectives.
    fn advance_ranks(&mut self) -> Result<(), Box<Broken>> {
        for rank in self.ranks.iter_mut().filter(|rank| !rank.is_idle()) {
            let advanced = rank.advance(&mut self.tasks, &mut self.values);
            advanced.map_err(|(task, error)| broken(task, error))?;
        }
        Ok(())
    }

    /// Leaves the task's part in a collective to the lane's rank, which begins it as soon as the earlier parts are
    /// over.
    fn post(&mut self, index: usize) -> Result<Moved, Box<Broken>> {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        if task.fault.is_none() && self.control.is_cancelled(execution) {
            task.fault = Some(Fault::cancelled());
        }
        let id = task.id;
        let rank = task.collective.as_mut().and_then(|collective| {
            collective.part = Part::Posted;
            self.ranks.get_mut(collective.rank)
        });
        let Some(rank) = rank else {
            return Ok(Moved::Ended);
        };
        rank.post(index, execution);
        let advanced = rank.advance(&mut self.tasks, &mut self.values);
        advanced.map_err(|(task, error)| broken(task, error))?;
        self.recorder
            .record(id, std::iter::once(OpKind::Collective), execution);
        Ok(Moved::Advanced)
    }

    /// Whether a task's part in a collective is over; if so, releases the task's input.
    fn is_over(&mut self, index: usize) -> Result<bool, ChannelError> {
        let Some(collective) = self
            .tasks
            .get_mut(index)
            .and_then(|task| task.collective.as_mut())
        else {
            return Ok(true);
        };
        match collective.part {
            Part::Posted => return Ok(false),
            Part::GivenBack => return Ok(true),
            Part::Over => collective.part = Part::GivenBack,
        }
        self.release_inputs(index)?;
        Ok(true)
    }

    /// Advances by `steps` steps.
    #[inline]
    fn pass(&mut self, steps: usize) {
        self.state.pass(steps, self.steps.len());
    }

    fn await_inputs(&mut self, index: usize) -> Result<Moved, Box<Broken>> {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        if !self.state.waiting {
            task.fault = None;
            task.gave_up = false;
        }
        if !self.state.forgone.is_empty() {
            // This read skips the messages that earlier executions left unread.
            let args = &task.args;
            self.state
                .forgone
                .retain(|it| it.execution == execution || !args.contains(&it.value));
        }
        let mut missing = false;
        for value in &task.args {
            let Some(value) = self.values.get_mut(*value) else {
                continue;
            };
            match value.fill(execution) {
                Ok(Arrival::Value) => {}
                Ok(Arrival::Nothing) => missing = true,
                Ok(Arrival::Fault) if task.fault.is_some() => {}
                Ok(Arrival::Fault) => task.fault = value.fault(),
                Err(error) => return Err(broken(task.id, error)),
            }
        }
        if missing {
            if task.fault.is_none() {
                // A cancelled task does not wait for its inputs.
                if !self.control.is_cancelled(execution) {
                    self.state.waiting = true;
                    self.progress.at(execution).set(task.id.0, Phase::Reading);
                    return Ok(Moved::Blocked);
                }
                task.fault = Some(Fault::cancelled());
            }
            task.gave_up = true;
        }
        if self.recorder.is_on() {
            let reads = (0..task.args.len() as u32).map(|arg| OpKind::Read { arg });
            self.recorder.record(task.id, reads, execution);
        }
        Ok(Moved::Advanced)
    }

    fn compute<C: ActorSet + ?Sized>(&mut self, index: usize, crew: &mut C) -> Result<Moved, Box<Broken>> {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        if task.fault.is_none() && self.control.is_cancelled(execution) {
            task.fault = Some(Fault::cancelled());
        }
        if task.fault.is_none() {
            self.progress.at(execution).set(task.id.0, Phase::Computing);
            let invoked = if task.gathers.is_empty() && task.brings.is_empty() {
                invoke(task, &mut self.values, &self.driver, crew, execution)
            } else {
                invoke_prepared(task, &mut self.values, &self.driver, crew, execution)
            };
            if let Err(failure) = invoked {
                task.fault = Some(fault_of(&task.info, execution, *failure));
            }
        }
        if let Some(fault) = task.fault.take() {
            task.outlets
                .iter_mut()
                .flatten()
                .for_each(|outlet| outlet.stage_fault(fault.clone()));
        }
        let id = task.id;
        self.release_inputs(index).map_err(|error| broken(id, error))?;
        self.recorder
            .record(id, std::iter::once(OpKind::Compute), execution);
        Ok(Moved::Advanced)
    }

    /// Marks this task's reads as done; reads whose value has not arrived are forgone (`LOOP-3`).
    #[inline]
    fn release_inputs(&mut self, index: usize) -> Result<(), ChannelError> {
        let Some(task) = self.tasks.get(index) else {
            return Ok(());
        };
        if task.gave_up {
            return self.forgo_inputs(index);
        }
        for value in &task.args {
            if let Some(value) = self.values.get_mut(*value) {
                value.read_done()?;
            }
        }
        Ok(())
    }

    #[cold]
    fn forgo_inputs(&mut self, index: usize) -> Result<(), ChannelError> {
        let execution = self.state.execution;
        let forgone = &mut self.state.forgone;
        for value in self.tasks.get(index).map_or(&[][..], |task| &task.args) {
            let known = forgone
                .iter_mut()
                .find(|it| it.value == *value && it.execution == execution);
            match known {
                Some(forgone) => forgone.reads += 1,
                None => forgone.push(Forgone {
                    value: *value,
                    execution,
                    reads: 1,
                }),
            }
        }
        self.drain_forgone()
    }

    /// Releases the inputs that fail-fast left unread, as far as they have arrived.
    fn drain_forgone(&mut self) -> Result<(), ChannelError> {
        let mut position = 0;
        while let Some(forgone) = self.state.forgone.get(position) {
            let Some(value) = self.values.get_mut(forgone.value) else {
                break;
            };
            if value.fill(forgone.execution)? == Arrival::Nothing {
                position += 1;
                continue;
            }
            for _ in 0..forgone.reads {
                value.read_done()?;
            }
            self.state.forgone.remove(position);
        }
        Ok(())
    }

    fn write(&mut self, index: usize) -> Result<Moved, Box<Broken>> {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        if let (Some(sole), None, false) = (task.sole, &task.collective, self.recorder.is_on())
            && let Some(Some(outlet)) = task.outlets.get_mut(sole)
        {
            // A single outlet publishes all or nothing by itself, and no event has to be recorded.
            match outlet.publish(execution, &mut self.values) {
                Ok(Readiness::Ready) => return Ok(Moved::Advanced),
                Ok(Readiness::Blocked) => {
                    self.progress.at(execution).set(task.id.0, Phase::Writing);
                    self.state.waiting = true;
                    return Ok(Moved::Blocked);
                }
                Err(ChannelError::NoValue) => {}
                Err(error) if error.refuses_value() => {}
                Err(error) => return Err(broken(task.id, error)),
            }
        }
        self.write_all(index)
    }

    fn write_all(&mut self, index: usize) -> Result<Moved, Box<Broken>> {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        let id = task.id;
        if task.collective.is_some() && !self.is_over(index).map_err(|error| broken(id, error))? {
            self.progress.at(execution).set(id.0, Phase::Meeting);
            return Ok(Moved::Blocked);
        }
        let Some(task) = self.tasks.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        for outlet in task.outlets.iter_mut().flatten() {
            if !outlet.is_staged() {
                let failure = Failure::Internal("the method left an output without a value".into());
                outlet.stage_fault(fault_of(&task.info, execution, failure));
            }
            if !outlet.has_space().map_err(|error| broken(id, error))? {
                self.state.waiting = true;
                self.progress.at(execution).set(id.0, Phase::Writing);
                return Ok(Moved::Blocked);
            }
        }
        // Recorded before the result can be seen, so that a thread that has the result finds the event too.
        if self.state.waiting {
            self.recorder
                .record(id, std::iter::once(OpKind::Write), execution);
        } else {
            self.recorder.record_at_once(id, OpKind::Write, execution);
        }
        for outlet in task.outlets.iter_mut().flatten() {
            publish(outlet.as_mut(), &task.info, execution, &mut self.values)
                .map_err(|error| broken(id, error))?;
        }
        Ok(Moved::Advanced)
    }

    /// Moves one output of the graph to its leaves, in the order of executions.
    pub(crate) fn collect(&mut self, index: usize) -> Result<Moved, ChannelError> {
        let Some(port) = self.ports.get_mut(index) else {
            return Ok(Moved::Ended);
        };
        let Some(value) = self.values.get_mut(port.value) else {
            return Ok(Moved::Ended);
        };
        if value.fill(port.collected)? == Arrival::Nothing {
            return Ok(Moved::Blocked);
        }
        for leaf in &port.leaves {
            if let Some(leaf) = self.leaves.get_mut(*leaf) {
                leaf.collect(value.as_mut(), port.collected, &port.info)?;
            }
        }
        port.collected += 1;
        Ok(Moved::Advanced)
    }

    /// Steps until nothing moves, or until the next execution begins. `true` if something moved or the program has
    /// ended.
    fn run_until_blocked<C: ActorSet + ?Sized>(&mut self, crew: &mut C, ended: &mut bool) -> bool {
        let mut moved = false;
        let execution = self.state.execution;
        loop {
            match self.step(crew) {
                Ok(Moved::Advanced) => moved = true,
                Ok(Moved::Blocked) => return moved,
                Ok(Moved::Ended) => *ended = true,
                Err(broken) => {
                    self.fail(broken.task, &broken.error);
                    *ended = true;
                }
            }
            // Between executions the lane checks its mailbox and the state, however busy it is.
            if *ended || self.state.execution != execution {
                return true;
            }
        }
    }

    /// Fails the graph because the lane's channels were closed while the graph runs. Neighbours close their channels
    /// when the graph has ended, or if one of them has died or writes invalid data.
    pub(crate) fn cut_off(&mut self) {
        let task = match self.steps.get(self.state.step) {
            Some(
                LaneStep::Await(task)
                | LaneStep::Run(task)
                | LaneStep::Compute(task)
                | LaneStep::Post(task)
                | LaneStep::Write(task),
            ) => self.tasks.get(*task),
            Some(LaneStep::Collect(_)) | None => None,
        };
        let task = task.map_or(TaskId(u32::MAX), |task| task.id);
        self.fail(task, &LaneError::Channel(ChannelError::Closed));
    }

    fn fail(&mut self, task: TaskId, error: &LaneError) {
        if error.may_be_a_death() {
            // The thread that learns of the death fails the graph first, with its true cause.
            let (control, until) = (&self.control, Instant::now() + NEWS_TIMEOUT);
            let told = || control.state() != GraphState::Running;
            self.bell.wait(&Waiting::Park, Some(until), told);
        }
        let label = self
            .tasks
            .iter()
            .find(|it| it.id == task)
            .map_or("the lane", |it| it.info.task.as_str());
        self.control.fail(self.lane, &format!("`{label}`: {error}"));
    }

    /// Releases everything that the lane holds, so that neighbours do not wait for this lane.
    pub(crate) fn release(&mut self) {
        for value in &mut self.values {
            let _ = value.abandon();
        }
        for outlet in self
            .tasks
            .iter_mut()
            .flat_map(|task| task.outlets.iter_mut().flatten())
        {
            outlet.close();
        }
        self.idles();
    }

    /// Marks the lane as idle in its progress line.
    pub(crate) fn idles(&self) {
        self.progress.at(self.state.execution).set(u32::MAX, Phase::Idle);
    }
}

impl Program for LaneLoop {
    fn run(&mut self, lane: &mut LaneHost<'_>) {
        let (bell, budget) = (self.bell.clone(), SpinBudget::new(self.waiting));
        lane.set_bell(Some(bell.clone()));
        let (mut ended, mut mover) = (false, Mover::default());
        lane.set_driver(self.driver.clone());
        while !ended && self.control.state() == GraphState::Running {
            self.spins = budget.waiting().spins();
            let mut at_work = (&mut *self, &mut *lane, &mut ended);
            budget.wait_on(
                &bell,
                None,
                &mut at_work,
                |(program, ..)| program.stirs(),
                |(program, lane, ended)| {
                    program.run_until_blocked(*lane, ended) || **ended || lane.mailbox_pending()
                },
            );
            mover.waited(&budget);
            if lane.mailbox_pending() {
                lane.serve_mailbox();
            }
        }
        lane.set_bell(None);
        if self.control.state() == GraphState::Running {
            self.cut_off();
        }
        self.release();
    }
}
