//! How a graph ends, and the errors that callers get.
//!
//! The first failure counts. A failure rings the driver's doorbell, so the leader sees it and wakes the rest.
//!
//! A time-out names suspects. A suspect is a lane, with its actor, task and phase, and never a channel. A plan is proven
//! to be free of deadlock, so a lane that waits at a channel waits in the end for a lane that computes, is stopped or
//! meets other ranks. That last lane is at fault.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use selvedge_channels::memory::process::is_stopped;
use selvedge_channels::{Fault, FaultKind};
use selvedge_core::{ActorRef, Death, Exit, HostId, IdMap, LaneId, NoEntry, wake};

use crate::ir::{ActorIr, Plan};
use crate::run::clock::coarse_ns;
use crate::run::control::{Control, GraphState, Phase, Progress};
use crate::run::driver::Driver;
use crate::run::engine::{Engine, TimeLimit};
use crate::run::error::{ActorDied, ExecError, Suspect, Timeout};
use crate::run::lane::{LaneError, NEWS_TIMEOUT};
use crate::run::report::TaskError;

impl Engine {
    fn graph(&self) -> Arc<str> {
        self.plan.graph.as_str().into()
    }

    /// The reason why the graph has ended; `None` while it runs.
    #[inline]
    pub(crate) fn ended(&self) -> Option<ExecError> {
        if self.control.is_running() {
            return None;
        }
        self.how_it_ended()
    }

    #[cold]
    fn how_it_ended(&self) -> Option<ExecError> {
        match self.control.state() {
            GraphState::Running => None,
            GraphState::Stopping => Some(ExecError::TornDown { graph: self.graph() }),
            GraphState::Failed => Some(self.true_cause()),
        }
    }

    /// The failure that was recorded first; the report of a lane if no death explains the end.
    fn true_cause(&self) -> ExecError {
        if let Some(error) = &*self.failure.lock() {
            return error.clone();
        }
        let reason = self
            .control
            .failure()
            .map_or_else(|| "a lane failed".to_owned(), |(_, text)| text);
        ExecError::Broken {
            graph: self.graph(),
            reason: reason.into(),
        }
    }

    /// Records the death of a process or thread of the graph. Called on the control thread as soon as the death is
    /// known.
    pub(crate) fn died(&self, death: &Death) {
        if death.exit == Exit::Shutdown {
            let graph = self.graph();
            return self.failed(LaneId::DRIVER, ExecError::Shutdown { graph });
        }
        if let Some((lane, died)) = self.culprit(death) {
            self.failed(lane, ExecError::ActorDied(Arc::new(died)));
        }
    }

    /// Whether a death that the graph knows of is the actor's. What dies later under the actor's name has been started again, and
    /// is none of the graph's.
    fn is_known_dead(&self, actor: &ActorIr) -> bool {
        let failure = self.failure.lock();
        let Some(ExecError::ActorDied(first)) = &*failure else {
            return false;
        };
        let mut known = first.also.iter().chain([first.as_ref()]);
        known.any(|known| known.death.actors.contains(&actor.id))
    }

    /// The actor of the graph that a death concerns, with its lane: the one that computed, if several have died.
    fn culprit(&self, death: &Death) -> Option<(LaneId, ActorDied)> {
        let mine = |actor: &&ActorIr| death.actors.contains(&actor.id) && !self.is_known_dead(actor);
        let actor = self.plan.ir.actors.iter().filter(&mine).max_by_key(|actor| {
            let phase = self.control.progress(actor.lane).map(|progress| progress.phase);
            phase == Some(Phase::Computing)
        })?;
        let progress = self.control.progress(actor.lane);
        let task = progress.and_then(|progress| self.plan.ir.tasks.get(progress.task as usize));
        // Of several actors that share the lane, takes the one whose task the lane was at.
        let at_work = task.and_then(|task| self.plan.ir.actor(task.actor)).filter(&mine);
        let actor = at_work.unwrap_or(actor);
        let died = ActorDied {
            actor: actor.name.clone(),
            placement: actor.placement.clone(),
            task: task.map(|task| (task.label.clone(), task.bound_at.clone())),
            execution: progress.map_or(0, |progress| progress.execution),
            death: death.clone(),
            also: Vec::new(),
        };
        Some((actor.lane, died))
    }

    /// Reacts to a lane's program that may have ended before the graph. Called without locks held, as soon as such an
    /// end is known. A lane that fails writes the reason to the control block; a program that panicked or never began
    /// has written none, so the lease's report of it becomes the reason.
    pub(crate) fn lane_ended(&self) {
        if self.control.is_running()
            && let Some((lane, panic)) = self.lease.panics().first()
        {
            self.control.fail(
                *lane,
                &format!("a lane's program did not come to its end: {panic}"),
            );
        }
        if self.control.state() == GraphState::Failed {
            self.lease.ending();
            self.interrupt();
            self.tell_watchers();
        }
    }

    /// Records a failure and ends the graph. The first failure counts; later deaths are added to a first death.
    fn failed(&self, lane: LaneId, error: ExecError) {
        match (&mut *self.failure.lock(), error) {
            (Some(ExecError::ActorDied(first)), ExecError::ActorDied(later)) => {
                Arc::make_mut(first).also.push(later.as_ref().clone());
            }
            (Some(_), _) => {}
            (none, error) => *none = Some(error),
        }
        self.failed.notify_all();
        self.lease.ending();
        self.control.mark_failed(lane);
        self.interrupt();
        self.tell_watchers();
    }

    /// Ends the graph because a lane on another host, or the edges to it, cannot go on. Called on the thread of the joint.
    pub(crate) fn failed_elsewhere(&self, lane: LaneId, text: String) {
        let (graph, reason) = (self.graph(), text.into());
        self.failed(lane, ExecError::Broken { graph, reason });
    }

    /// Registers `waker` to be woken when the graph ends; returns the reason if the graph has ended already.
    pub(crate) fn watch(&self, waker: &Waker) -> Option<ExecError> {
        let mut watchers = self.watchers.lock();
        if !watchers.iter().any(|known| known.will_wake(waker)) {
            watchers.push(waker.clone());
        }
        drop(watchers);
        // Checked after the push: an end that this check misses finds the waker.
        self.ended()
    }

    /// Wakes the watchers after the state has changed. Called without locks held, because a waker may use the graph.
    pub(crate) fn tell_watchers(&self) {
        let watchers = std::mem::take(&mut *self.watchers.lock());
        watchers.into_iter().for_each(wake);
    }

    /// Ends the graph because a channel of the driver's own lane broke. The watchers are woken after the driver is
    /// released.
    #[cold]
    pub(super) fn broke(&self, driver: &mut Driver, error: impl Into<LaneError>) -> ExecError {
        let error = error.into();
        if let Some(ended) = self.ended() {
            return ended;
        }
        if error.may_be_a_death() {
            let until = Instant::now() + NEWS_TIMEOUT;
            let mut failure = self.failure.lock();
            self.failed
                .wait_while_until(&mut failure, |failure| failure.is_none(), until);
        }
        if let Some(ended) = self.ended() {
            return ended;
        }
        self.lease.ending();
        self.control
            .fail(LaneId::DRIVER, &format!("the driver's lane: {error}"));
        self.interrupt();
        driver
            .wakers
            .wake_also(std::mem::take(&mut *self.watchers.lock()));
        self.true_cause()
    }

    /// The reason why the graph has ended, for a caller that has seen that it has.
    #[cold]
    pub(super) fn true_end(&self) -> ExecError {
        self.ended().unwrap_or_else(|| self.true_cause())
    }

    pub(super) fn reentered(&self) -> ExecError {
        ExecError::Reentered { graph: self.graph() }
    }

    /// The error for a caller whose wait has ended without an answer: for an execution, submitted at a time; `None` if
    /// it did not get the driver and has submitted nothing.
    pub(super) fn gave_up(
        &self,
        submitted: Option<(u64, u64)>,
        limit: &TimeLimit,
        refused: NoEntry,
    ) -> ExecError {
        match refused {
            NoEntry::OutOfTime => {
                let (execution, since) = submitted.unzip();
                let waited = limit.waited().max(since.map_or(Duration::ZERO, elapsed));
                self.timeout(execution, waited, limit.option)
            }
            NoEntry::Reentered => self.reentered(),
        }
    }

    /// The error of a task that has awaited an execution, submitted at `since`, for `Options::timeout`.
    pub(crate) fn late(&self, execution: u64, since: u64) -> ExecError {
        let waited = self.options.timeout_value().unwrap_or_default();
        self.timeout(Some(execution), waited.max(elapsed(since)), "Options::timeout")
    }

    fn timeout(&self, execution: Option<u64>, waited: Duration, option: &'static str) -> ExecError {
        if let Some(ended) = self.ended() {
            return ended;
        }
        ExecError::Timeout(Arc::new(Timeout {
            execution,
            waited,
            suspects: self.suspects(),
            option,
            on_own_thread: self.lease.own_lane().is_some(),
        }))
    }

    /// The lanes at fault, of all hosts. Waits for the other hosts' answers for a moment.
    pub(crate) fn suspects(&self) -> Vec<Suspect> {
        let elsewhere = self
            .joint
            .as_ref()
            .map(|joint| joint.progress_elsewhere(&self.plan));
        let elsewhere = elsewhere.unwrap_or_default();
        suspects(&self.plan, &self.control, &elsewhere, &self.recipe.actors)
    }

    /// Converts a fault of an execution to the error that the user gets.
    pub(crate) fn error_of(&self, execution: u64, fault: &Fault) -> ExecError {
        match fault.kind() {
            // The end of a graph drops async methods where they await, which makes such a fault too.
            FaultKind::Cancelled => self.ended().unwrap_or(ExecError::Cancelled { execution }),
            _ => TaskError::from_fault(fault).map_or_else(
                || ExecError::Internal {
                    message: "a fault without a readable report".into(),
                },
                ExecError::Task,
            ),
        }
    }
}

/// The time that has passed since a moment of the coarse clock.
fn elapsed(since: u64) -> Duration {
    Duration::from_nanos(coarse_ns().saturating_sub(since))
}

/// The lanes at fault: those whose process is stopped or whose host is silent, else those inside a user-defined method,
/// else the one that is furthest behind. A lane that merely waits for one of these is not named. `elsewhere` is the
/// progress of lanes on other hosts, as far as it is known.
pub(crate) fn suspects(
    plan: &Plan,
    control: &Control,
    elsewhere: &IdMap<LaneId, Progress>,
    actors: &[ActorRef],
) -> Vec<Suspect> {
    // The driver's lane has no steps if no actor is inline.
    let lanes = plan.lanes.iter().filter(|lane| !lane.steps.is_empty());
    let mut seen: Vec<(Progress, Suspect)> = lanes
        .filter_map(|lane| {
            let progress = control.progress(lane.address.lane);
            let progress = progress.or_else(|| elsewhere.get(&lane.address.lane).copied())?;
            Some((progress, suspect(plan, actors, lane.address.lane, progress)?))
        })
        .collect();
    let stopped =
        |(progress, suspect): &(Progress, Suspect)| suspect.stopped || progress.phase == Phase::Silent;
    seen.sort_by_key(|seen| (!stopped(seen), seen.0.execution));
    let computing = |(progress, _): &(Progress, Suspect)| progress.phase == Phase::Computing;
    if seen.iter().any(stopped) {
        seen.retain(stopped);
    } else if seen.iter().any(computing) {
        seen.retain(computing);
    } else {
        seen.truncate(1);
    }
    seen.into_iter().map(|(_, suspect)| suspect).collect()
}

fn suspect(plan: &Plan, actors: &[ActorRef], lane: LaneId, progress: Progress) -> Option<Suspect> {
    let task = plan.ir.tasks.get(progress.task as usize).or_else(|| {
        // The lane has not begun: its first task stands for it.
        let first = plan
            .lanes
            .iter()
            .find(|it| it.address.lane == lane)?
            .steps
            .first()?;
        plan.ir.tasks.get(first.task.0 as usize)
    })?;
    let actor = plan.ir.actors.iter().find(|actor| actor.id == task.actor)?;
    let pid = actors
        .iter()
        .find(|it| it.id() == actor.id && actor.home.host == HostId::DRIVER)
        .and_then(ActorRef::pid);
    Some(Suspect {
        task: task.label.clone(),
        actor: actor.name.clone(),
        placement: actor.placement.clone(),
        execution: progress.execution,
        phase: progress.phase,
        stopped: pid.is_some_and(is_stopped),
        bound_at: task.bound_at.clone(),
    })
}
