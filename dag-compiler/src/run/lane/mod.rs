//! The loop: one lane's program, run execution after execution.
//!
//! A program is a list of steps, and most steps are stretches: tasks that the lane does one after the other. `step`
//! goes on with one step as far as it can, and says whether it has moved. So the same machine runs on a borrowed thread,
//! which spins and then parks on its doorbell, and on a thread that holds the driver.
//!
//! # How a task advances
//!
//! In each execution a task is a small state machine ([`TaskState`], in `task.rs`):
//!
//! ```text
//!            READs            COMPUTE               WRITE
//!   Begun ─┬────────┬─> Ready ────────┬─> Computed ─┬──────────┬─> Done
//!          └Waiting─┤                 │             ├─Writing──┤
//!                   └─> GaveUp ───────┘             └─Meeting──┘
//! ```
//!
//! - `advance.rs` makes one transition of any task: it waits for inputs that arrive in any order, runs the method or
//!   posts the part in a collective, and writes to several outlets. `Waiting`, `Queued`, `Meeting` and `Writing` are
//!   blocked: the lane tries their transition again when a doorbell rings.
//! - `straight.rs` goes the straight line of the usual case, from `Begun` to `Done`, in one function, without states in
//!   between. It stops in the state that the task has reached, and `advance` goes on from there.
//! - `stretch.rs` is the loop over the straight lines of a stretch, and of the executions that follow.
//! - `posted.rs` posts methods that overlap, and writes their results later; `beside.rs` keeps their records.
//! - `work.rs` calls methods whose arguments are prepared (`bring.rs`: copied to a device; or assembled into lists), and
//!   publishes results that may run user code.
//!
//! The lane holds the state of one task at a time, in its cursor. What a task keeps between its COMPUTE and its WRITE
//! lies staged in its outlets; a part in a collective keeps its progress itself (`run/ranks.rs`).
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

mod advance;
mod beside;
mod bring;
mod error;
mod forgone;
mod posted;
mod straight;
mod stretch;
mod task;
mod work;

use std::sync::Arc;
use std::time::Instant;

use selvedge_channels::{AnyValue, Arrival, ChannelError, Doorbell, Mover, SpinBudget, Waiting};
use selvedge_core::{AsyncDriver, Executions, LaneHost, LaneId, Program, Scope, ValueIx, within};

pub(crate) use self::beside::Beside;
pub(crate) use self::bring::BringRun;
pub(crate) use self::error::{Broken, LaneError, NEWS_TIMEOUT};
use self::forgone::ForgoneReads;
pub(crate) use self::straight::Straight;
pub(crate) use self::stretch::Stretch;
pub(crate) use self::task::{GatherRun, TaskRun, TaskState};
pub(crate) use self::work::publish;
use crate::ir::TaskId;
use crate::run::actor_set::ActorSet;
use crate::run::control::{Control, GraphState, LaneWants, Phase, ProgressLine};
use crate::run::driver::leaf::AnyLeaf;
use crate::run::ranks::RankRun;
use crate::run::report::TaskInfo;
use crate::run::table::{NoSuchItem, RankIx, Table, TaskIx};
use crate::run::trace::Recorder;

/// The values that a lane reads.
pub(crate) type LaneValues = Table<ValueIx, Box<dyn AnyValue>>;

/// One step of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneStep {
    /// Tasks one after the other, each from its READs to its WRITE.
    Run(Stretch),
    /// A task up to [`TaskState::Computed`]. Its WRITE is a later step.
    Begin(TaskIx),
    /// A task from [`TaskState::Computed`] on.
    Finish(TaskIx),
    /// An output of the graph that is the value of an inline task: moves the value to its leaves.
    Collect(usize),
}

/// An output of the graph: the lane value and the leaves it goes to.
pub(crate) struct OutputPort {
    /// The task that made the value, for a result that cannot be decoded.
    pub(crate) info: TaskInfo,
    pub(crate) value: ValueIx,
    pub(crate) leaves: Vec<usize>,
    /// True if the value comes from another lane, has no other reader, and taking it runs no user code.
    pub(crate) moves: bool,
    /// The number of executions collected so far.
    pub(crate) collected: u64,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Advanced,
    Blocked,
    Ended,
}

/// One lane's program with the ends of its channels. Aligned so that it shares no cache line with memory that another
/// thread writes.
#[repr(align(128))]
pub(crate) struct LaneLoop {
    pub(crate) lane: LaneId,
    pub(crate) values: LaneValues,
    pub(crate) tasks: Table<TaskIx, TaskRun>,
    /// The lane's ranks in collectives.
    pub(crate) ranks: Table<RankIx, RankRun>,
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
    /// Whether the results of the lane's executions are still wanted.
    pub(crate) wants: Arc<LaneWants>,
    /// The tasks whose methods overlap.
    pub(crate) posters: Vec<TaskIx>,
    /// The number of their executions whose results are not written.
    pub(crate) posted: usize,
    pub(crate) state: LaneCursor,
}

/// The position of a lane in its program.
#[derive(Default)]
pub(crate) struct LaneCursor {
    pub(crate) execution: u64,
    step: usize,
    /// The number of the task in the stretch of the step.
    place: usize,
    /// The state of the task.
    task: TaskState,
    forgone: ForgoneReads,
}

impl LaneCursor {
    /// Advances by `tasks` tasks in a step of `len` tasks, which is one of `steps` steps.
    #[inline]
    fn pass(&mut self, tasks: usize, len: usize, steps: usize) {
        self.task = TaskState::Begun;
        self.place += tasks;
        if self.place >= len {
            self.place = 0;
            self.step += 1;
        }
        if self.step >= steps {
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
        let faults = self
            .tasks
            .iter()
            .fold(1u64, |all, task| all << 1 | u64::from(task.fault.is_some()));
        [
            state.execution,
            (state.step as u64) << 32 | state.place as u64,
            state.task as u64,
            faults,
        ]
        .into_iter()
        .chain(state.forgone.seen())
    }

    /// The task that the lane is at.
    #[inline]
    fn task(&self) -> Option<&TaskRun> {
        let index = match *self.steps.get(self.state.step)? {
            LaneStep::Run(stretch) => stretch.task(self.state.place),
            LaneStep::Begin(task) | LaneStep::Finish(task) => task,
            LaneStep::Collect(_) => return None,
        };
        self.tasks.get(index)
    }

    /// Whether an input of the next step may have arrived: a quick poll while the lane waits.
    #[inline]
    fn stirs(&mut self) -> bool {
        self.recorder.looks();
        if self.state.task > TaskState::Waiting
            || !self.ranks.is_empty()
            || self.posted > 0
            || !self.state.forgone.is_empty()
        {
            return true;
        }
        let stirs = |value: &ValueIx| self.values.get(*value).is_none_or(|value| value.peek());
        self.task().is_none_or(|task| task.args.iter().any(stirs))
    }

    /// Tries the next step (`LOOP-4`).
    #[inline]
    pub(crate) fn step<C: ActorSet + ?Sized>(&mut self, actors: &mut C) -> Result<Moved, Box<Broken>> {
        let step = match self.steps.get(self.state.step) {
            Some(step) => *step,
            // The program has no steps.
            None => return Ok(Moved::Blocked),
        };
        if !self.ranks.is_empty()
            && let Err(error) = self.advance_ranks()
        {
            return self.cut_short(error);
        }
        if self.posted > 0
            && let Err(error) = self.advance_posted(actors)
        {
            return self.cut_short(error);
        }
        let moved = match step {
            LaneStep::Run(stretch) => self.run(actors, stretch),
            LaneStep::Begin(task) => self.advance(actors, task, TaskState::Computed, 1),
            LaneStep::Finish(task) => {
                self.state.task = self.state.task.max(TaskState::Computed);
                self.advance(actors, task, TaskState::Done, 1)
            }
            LaneStep::Collect(port) => self.collect_step(port),
        };
        match moved {
            Ok(Moved::Advanced) => moved,
            moved => self.halted(moved),
        }
    }

    /// Handles an error of a posted operation. A neighbour that ends leaves its group or closes its channel, and this lane
    /// gets an error.
    #[cold]
    fn cut_short(&self, error: Box<Broken>) -> Result<Moved, Box<Broken>> {
        let running = self.control.state() == GraphState::Running;
        if running { Err(error) } else { Ok(Moved::Ended) }
    }

    /// Does the tasks that are left of a stretch in straight lines, else makes one transition of the next task.
    #[inline]
    fn run<C: ActorSet + ?Sized>(&mut self, actors: &mut C, stretch: Stretch) -> Result<Moved, Box<Broken>> {
        if self.state.task <= TaskState::Waiting && self.state.forgone.is_empty() {
            match self.go_straight(actors, stretch)? {
                TaskState::Done => return Ok(Moved::Advanced),
                TaskState::Waiting => {
                    self.begin_to_wait();
                    return Ok(Moved::Blocked);
                }
                _ => {}
            }
        }
        let task = stretch.task(self.state.place);
        self.advance(actors, task, TaskState::Done, stretch.len)
    }

    /// Records that the task waits for its inputs.
    #[inline]
    fn begin_to_wait(&mut self) {
        if self.state.task == TaskState::Waiting {
            return;
        }
        self.state.task = TaskState::Waiting;
        if let Some(task) = self.task() {
            let progress = self.progress.at(self.state.execution);
            progress.set(task.id.0, Phase::Reading);
        }
    }

    /// Handles a step that has not moved; decides whether the graph has ended.
    fn halted(&mut self, moved: Result<Moved, Box<Broken>>) -> Result<Moved, Box<Broken>> {
        match moved {
            Ok(Moved::Blocked) => {
                self.recorder.blocked();
                if self.control.state() != GraphState::Running {
                    return Ok(Moved::Ended);
                }
                self.state.forgone.drain(&mut self.values)?;
                if self.posted > 0 {
                    self.shows_posted();
                }
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
        let mut busy = self.ranks.iter_mut().filter(|rank| !rank.is_idle());
        busy.try_for_each(|rank| rank.advance(&mut self.tasks, &mut self.values))
    }

    /// Moves one output of the graph to its leaves, in the order of executions.
    pub(crate) fn collect(&mut self, index: usize) -> Result<Moved, LaneError> {
        let port = self.ports.get_mut(index);
        let port = port.ok_or_else(|| NoSuchItem::new("output", index))?;
        let value = self.values.at_mut(port.value)?;
        if value.receive(port.collected)? == Arrival::Nothing {
            return Ok(Moved::Blocked);
        }
        for leaf in &port.leaves {
            let of_output = self.leaves.get_mut(*leaf);
            let leaf = of_output.ok_or_else(|| NoSuchItem::new("leaf", *leaf))?;
            leaf.collect(value.as_mut(), port.collected, &port.info)?;
        }
        port.collected += 1;
        Ok(Moved::Advanced)
    }

    fn collect_step(&mut self, port: usize) -> Result<Moved, Box<Broken>> {
        let moved = self.collect(port)?;
        if moved == Moved::Advanced {
            self.state.pass(1, 1, self.steps.len());
        }
        Ok(moved)
    }

    /// Steps until nothing moves, or until the next execution begins. `true` if something moved or the program has
    /// ended.
    fn run_until_blocked<C: ActorSet + ?Sized>(&mut self, actors: &mut C, ended: &mut bool) -> bool {
        let mut moved = false;
        let execution = self.state.execution;
        loop {
            match self.step(actors) {
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
        let task = self.task().map_or(TaskId(u32::MAX), |task| task.id);
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
        for value in self.values.iter_mut() {
            let _ = value.release();
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
        let scope = Scope::Lane(Arc::clone(&self.wants) as Arc<dyn Executions>);
        within(&scope, || self.run_on(lane));
    }
}

impl LaneLoop {
    fn run_on(&mut self, lane: &mut LaneHost<'_>) {
        let (bell, budget) = (self.bell.clone(), SpinBudget::new(self.waiting));
        lane.set_bell(Some(bell.clone()));
        let (mut ended, mut mover) = (false, Mover::default());
        // A socket that an async constructor has made is served where methods await.
        self.driver = self.driver.clone().sharing(&lane.driver());
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
