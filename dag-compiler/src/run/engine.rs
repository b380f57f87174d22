//! A running graph, whoever looks at it: submission, waiting, failure and tear-down.
//!
//! Waiting: one of the waiting threads *leads*. It alone sleeps on the driver's doorbell and pumps the driver;
//! the others *follow*: they sleep on a condition variable that the leader notifies whenever something moved,
//! and one of them takes over when the leader has what it wanted. A failure rings the doorbell, so the leader
//! sees it and wakes the rest. No wait is unbounded but that of the thread that serves `.await`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use selvedge_channels::{ChannelError, Doorbell, Fault, FaultKind, Segment, Waiting};
use selvedge_core::{ActorRef, Death, LaneId, Lease, ProcessId};

use crate::ir::Plan;
use crate::options::{OnFull, Options};
use crate::ports::InputPort;
use crate::run::control::{Control, Phase, State};
use crate::run::driver::{Driver, NoRoom};
use crate::run::error::{ActorDied, ExecError, Timeout};
use crate::run::layout::Layout;
use crate::run::report::TaskError;
use crate::run::stuck::suspects;

/// Everything of a graph that its handles share.
pub(crate) struct Engine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) options: Options,
    pub(crate) control: Control,
    pub(crate) layout: Layout,
    pub(crate) segment: Segment,
    pub(crate) lease: Lease,
    pub(crate) actors: Vec<ActorRef>,
    /// Lengths of the `Vec`s in the graph's output.
    pub(crate) lengths: Vec<usize>,
    pub(crate) bell: Doorbell,
    pub(crate) waiting: Waiting,
    driver: Mutex<Driver>,
    changed: Condvar,
    failure: Mutex<Option<ExecError>>,
    discarded: Mutex<Vec<(u64, Range<usize>)>>,
    torn_down: AtomicBool,
    awaiter: Mutex<Option<JoinHandle<()>>>,
}

/// Nobody came in time.
struct OutOfTime;

impl Engine {
    #[allow(clippy::too_many_arguments)] // built in one place, from parts that have no other name in common
    pub(crate) fn new(
        plan: Arc<Plan>,
        options: Options,
        control: Control,
        layout: Layout,
        segment: Segment,
        lease: Lease,
        (actors, lengths): (Vec<ActorRef>, Vec<usize>),
        (bell, waiting): (Doorbell, Waiting),
        driver: Driver,
    ) -> Arc<Self> {
        Arc::new(Engine {
            plan,
            options,
            control,
            layout,
            segment,
            lease,
            actors,
            lengths,
            bell,
            waiting,
            driver: Mutex::new(driver),
            changed: Condvar::new(),
            failure: Mutex::new(None),
            discarded: Mutex::new(Vec::new()),
            torn_down: AtomicBool::new(false),
            awaiter: Mutex::new(None),
        })
    }

    fn graph(&self) -> String {
        self.plan.graph.clone()
    }

    /// Why the graph does not run any more, if so.
    pub(crate) fn ended(&self) -> Option<ExecError> {
        match self.control.state() {
            State::Running => None,
            State::Stopping => Some(ExecError::TornDown { graph: self.graph() }),
            State::Failed => Some(self.true_cause()),
        }
    }

    /// The failure that came first; a lane's own report when no death explains it.
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
            reason,
        }
    }

    /// Called on the control thread as soon as a process or thread of the graph is known to be dead.
    pub(crate) fn died(&self, death: &Death) {
        let mine = |actor: &&crate::ir::ActorIr| death.actors.contains(&actor.id);
        let actor = self.plan.ir.actors.iter().filter(mine).max_by_key(|actor| {
            let phase = self.control.progress(actor.lane).map(|progress| progress.phase);
            phase == Some(Phase::Computing)
        });
        let Some(actor) = actor else { return };
        let progress = self.control.progress(actor.lane);
        let task = progress.and_then(|progress| self.plan.ir.tasks.get(progress.task as usize));
        let died = ActorDied {
            actor: actor.name.clone(),
            placement: actor.placement.clone(),
            task: task.map(|task| (task.label.clone(), task.bound_at.clone())),
            execution: progress.map_or(0, |progress| progress.execution),
            death: death.clone(),
        };
        let lane = actor.lane;
        self.failure
            .lock()
            .get_or_insert(ExecError::ActorDied(Arc::new(died)));
        self.lease.ending();
        self.control.fail(lane, "an actor died");
    }

    /// A channel of the driver's own lane broke.
    fn broke(&self, error: &ChannelError) -> ExecError {
        if let Some(ended) = self.ended() {
            return ended;
        }
        self.lease.ending();
        self.control
            .fail(LaneId(0), &format!("the driver's lane: {error}"));
        self.true_cause()
    }

    fn lock(&self, deadline: Option<Instant>) -> Result<MutexGuard<'_, Driver>, OutOfTime> {
        match deadline {
            // An inline actor computes under this lock, so even locking has a deadline.
            Some(deadline) => self.driver.try_lock_until(deadline).ok_or(OutOfTime),
            None => Ok(self.driver.lock()),
        }
    }

    /// A handle was dropped without its result. Never blocks: when somebody else has the lock, the next one to
    /// pump does the rest.
    pub(crate) fn discard(&self, execution: u64, leaves: Range<usize>) {
        self.discarded.lock().push((execution, leaves));
        if let Some(mut driver) = self.driver.try_lock() {
            self.close_discarded(&mut driver);
        }
    }

    fn close_discarded(&self, driver: &mut Driver) {
        while let Some((execution, leaves)) = self.pop_discarded() {
            if driver.close(execution, &leaves) {
                self.control.cancel(execution);
            }
        }
    }

    fn pop_discarded(&self) -> Option<(u64, Range<usize>)> {
        self.discarded.lock().pop()
    }

    /// Locks the driver for something short.
    pub(crate) fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock()
    }

    fn pump(&self, driver: &mut Driver) -> Result<bool, ExecError> {
        self.close_discarded(driver);
        driver.pump().map_err(|error| self.broke(&error))
    }

    /// Waits until `check` has an answer, pumping meanwhile. The true cause comes before a time-out.
    fn wait_for<R>(
        &self,
        deadline: Option<Instant>,
        mut check: impl FnMut(&mut Driver) -> Option<Result<R, ExecError>>,
    ) -> Result<Result<R, ExecError>, OutOfTime> {
        let mut look = |driver: &mut Driver| -> (bool, Option<Result<R, ExecError>>) {
            let moved = match self.pump(driver) {
                Ok(moved) => moved,
                Err(error) => return (true, check(driver).or(Some(Err(error)))),
            };
            (moved, check(driver).or_else(|| self.ended().map(Err)))
        };
        let mut driver = self.lock(deadline)?;
        loop {
            let (moved, found) = look(&mut driver);
            if moved {
                self.changed.notify_all();
            }
            if let Some(found) = found {
                return Ok(found);
            }
            if driver.led {
                if self.follow(&mut driver, deadline).is_err() {
                    return look(&mut driver).1.ok_or(OutOfTime);
                }
                continue;
            }
            driver.led = true;
            drop(driver);
            let found = self.lead(deadline, &mut look);
            driver = self.driver.lock();
            driver.led = false;
            self.changed.notify_all();
            return found.ok_or(OutOfTime);
        }
    }

    fn follow(
        &self,
        driver: &mut MutexGuard<'_, Driver>,
        deadline: Option<Instant>,
    ) -> Result<(), OutOfTime> {
        match deadline {
            None => self.changed.wait(driver),
            Some(deadline) if self.changed.wait_until(driver, deadline).timed_out() => return Err(OutOfTime),
            Some(_) => {}
        }
        Ok(())
    }

    fn lead<R>(
        &self,
        deadline: Option<Instant>,
        look: &mut impl FnMut(&mut Driver) -> (bool, Option<Result<R, ExecError>>),
    ) -> Option<Result<R, ExecError>> {
        let mut found = None;
        self.bell.wait(&self.waiting, deadline, || {
            let Ok(mut driver) = self.lock(deadline) else {
                return true;
            };
            let (moved, answer) = look(&mut driver);
            if moved {
                self.changed.notify_all();
            }
            found = answer;
            found.is_some()
        });
        found
    }

    /// Waits for room, stages the input with `stage`, and submits. `stage` runs once, and only if accepted.
    pub(crate) fn submit(
        &self,
        on_full: OnFull,
        stage: &mut dyn FnMut(&mut Driver) -> Result<(), ExecError>,
    ) -> Result<u64, ExecError> {
        let started = Instant::now();
        let deadline = self
            .options
            .submit_timeout_value()
            .map(|timeout| started + timeout);
        let mut displaced = false;
        let outcome = self.wait_for(deadline, |driver| {
            if let Some(ended) = self.ended() {
                return Some(Err(ended));
            }
            match driver.room() {
                Err(error) => Some(Err(self.broke(&error))),
                Ok(Ok(())) => {
                    let staged = stage(driver);
                    Some(staged.and_then(|()| driver.submit(1).map_err(|error| self.broke(&error))))
                }
                Ok(Err(no_room)) => self.full(driver, no_room, on_full, &mut displaced).map(Err),
            }
        });
        outcome
            .unwrap_or_else(|OutOfTime| Err(self.timeout(None, started.elapsed(), "Options::submit_timeout")))
    }

    /// What to do when there is no room: an error, or `None` to wait.
    fn full(
        &self,
        driver: &mut Driver,
        no_room: NoRoom,
        on_full: OnFull,
        displaced: &mut bool,
    ) -> Option<ExecError> {
        match (no_room, on_full) {
            (NoRoom::Buffered(buffered), _) => Some(ExecError::ResultsBuffered {
                buffered,
                max_buffered: driver.max_buffered,
            }),
            (NoRoom::Inflight(inflight), OnFull::Fail) => Some(ExecError::CapacityExceeded {
                inflight,
                max_inflight: driver.max_inflight,
            }),
            (NoRoom::Inflight(_), OnFull::DropOldest) if !*displaced => {
                *displaced = true;
                if let Some(oldest) = driver.oldest_wanted() {
                    self.control.cancel(oldest);
                }
                None
            }
            _ => None,
        }
    }

    /// Waits for `check`, at most `timeout`.
    pub(crate) fn wait<R>(
        &self,
        execution: u64,
        (timeout, option): (Option<Duration>, &'static str),
        check: impl FnMut(&mut Driver) -> Option<Result<R, ExecError>>,
    ) -> Result<R, ExecError> {
        let started = Instant::now();
        let deadline = timeout.and_then(|timeout| started.checked_add(timeout));
        let outcome = self.wait_for(deadline, check);
        outcome.unwrap_or_else(|OutOfTime| Err(self.timeout(Some(execution), started.elapsed(), option)))
    }

    fn timeout(&self, execution: Option<u64>, waited: Duration, option: &'static str) -> ExecError {
        if let Some(ended) = self.ended() {
            return ended;
        }
        let suspects = suspects(&self.plan, &self.control, &self.actors);
        ExecError::Timeout(Arc::new(Timeout {
            execution,
            waited,
            suspects,
            option,
        }))
    }

    /// Looks once, without waiting for anything but the lock; an inline method may compute under it.
    pub(crate) fn poll<R>(
        &self,
        check: impl FnOnce(&mut Driver) -> Option<Result<R, ExecError>>,
    ) -> Option<Result<R, ExecError>> {
        let started = Instant::now();
        let deadline = self
            .options
            .timeout_value()
            .and_then(|timeout| started.checked_add(timeout));
        let Ok(mut driver) = self.lock(deadline) else {
            return Some(Err(self.timeout(None, started.elapsed(), "Options::timeout")));
        };
        let pumped = self.pump(&mut driver);
        if matches!(pumped, Ok(true)) {
            self.changed.notify_all();
        }
        check(&mut driver)
            .or_else(|| pumped.err().map(Err))
            .or_else(|| self.ended().map(Err))
    }

    /// Makes sure that somebody pumps while tasks await results.
    pub(crate) fn serve_awaits(self: &Arc<Self>) -> Result<(), ExecError> {
        let mut awaiter = self.awaiter.lock();
        if awaiter.is_none() {
            let engine = Arc::clone(self);
            let thread = std::thread::Builder::new().name("selvedge-await".into());
            let spawned = thread.spawn(move || engine.pump_for_awaits());
            *awaiter = Some(spawned.map_err(|error| ExecError::Internal {
                message: error.to_string(),
            })?);
        }
        drop(awaiter);
        self.changed.notify_all();
        Ok(())
    }

    fn pump_for_awaits(&self) {
        loop {
            let mut driver = self.driver.lock();
            while driver.wakers == 0 && self.ended().is_none() {
                self.changed.wait(&mut driver);
            }
            drop(driver);
            let none_left = |driver: &mut Driver| (driver.wakers == 0).then_some(Ok(()));
            let ended = matches!(self.wait_for(None, none_left), Ok(Err(_)) | Err(OutOfTime));
            if ended || self.ended().is_some() {
                return self.driver.lock().wake();
            }
        }
    }

    /// What a fault says to the user.
    pub(crate) fn error_of(execution: u64, fault: &Fault) -> ExecError {
        match fault.kind() {
            FaultKind::Cancelled => ExecError::Cancelled { execution },
            _ => TaskError::from_fault(fault).map_or_else(
                || ExecError::Internal {
                    message: "a fault without a readable report".into(),
                },
                ExecError::Task,
            ),
        }
    }

    /// Whether this is the first to tear the graph down.
    fn first_to_end(&self) -> bool {
        !self.torn_down.swap(true, Ordering::AcqRel)
    }

    /// Ends every program within the deadline; kills the worker processes of lanes that do not end.
    pub(crate) fn teardown(&self, timeout: Duration) -> Teardown {
        if !self.first_to_end() {
            return Teardown::default();
        }
        let deadline = Instant::now() + timeout;
        self.lease.ending();
        self.control.stop();
        {
            // Taken so that no follower is between its look and its sleep.
            let driver = self.driver.try_lock_until(deadline);
            self.changed.notify_all();
            drop(driver);
        }
        let late = self.lease.join(deadline);
        let stuck: Vec<StuckLane> = late.iter().filter_map(|lane| self.stuck_lane(*lane)).collect();
        if !late.is_empty() {
            self.lease.kill(&late);
        }
        let Some(mut driver) = self.driver.try_lock_until(deadline) else {
            // An inline method still computes; the thread that runs it sees the state when it returns.
            return Teardown { stuck };
        };
        driver.lane.release();
        driver
            .inputs
            .iter_mut()
            .flat_map(InputPort::outlets)
            .for_each(|outlet| outlet.close());
        driver.wake();
        drop(driver);
        self.changed.notify_all();
        if let Some(thread) = self.awaiter.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        Teardown { stuck }
    }

    fn stuck_lane(&self, lane: LaneId) -> Option<StuckLane> {
        let actor = self.plan.ir.actors.iter().find(|actor| actor.lane == lane)?;
        let progress = self.control.progress(lane);
        let task = progress.and_then(|progress| self.plan.ir.tasks.get(progress.task as usize));
        Some(StuckLane {
            actor: actor.name.clone(),
            placement: actor.placement.clone(),
            task: task.map(|task| task.label.clone()),
            killed: actor.process != ProcessId(0),
        })
    }
}

/// What tear-down met.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Teardown {
    /// Lanes whose program did not end in time.
    pub stuck: Vec<StuckLane>,
}

/// A lane that did not give its thread back in time.
#[derive(Clone, Debug)]
pub struct StuckLane {
    /// An actor of that lane.
    pub actor: String,
    /// Where it lives.
    pub placement: String,
    /// The task it was last seen at.
    pub task: Option<String>,
    /// Its worker process was killed. A thread cannot be: it is given up, with its actors.
    pub killed: bool,
}
