//! A running graph: submission, waiting and failure, from any thread.
//!
//! One thread at a time uses the driver; `turn.rs` decides which of the waiting threads pumps it. A failure rings the
//! driver's doorbell, so the leader sees the failure and wakes the rest. Every wait has a deadline unless the user sets
//! none, except that of the thread that serves `.await`; tear-down ends that wait.

pub(crate) mod awaiter;
pub(crate) mod stuck;
pub(crate) mod teardown;
mod through;
pub(crate) mod time_limit;
pub(crate) mod turn;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_channels::{Doorbell, Fault, FaultKind, Segment, SpinBudget, Waiting};
use selvedge_core::{AsyncDriver, Death, Exit, Guarded, LaneId, Lease, MadeIn, NoEntry, wake};

use crate::api::options::{OnFull, Options};
use crate::bind::RuntimeParts;
use crate::ir::Plan;
use crate::run::clock::{ClockReading, coarse_ns};
use crate::run::control::{Control, GraphState, Phase};
use crate::run::driver::{Driver, NoRoom, SharedCounters};
use crate::run::engine::awaiter::Awaiter;
use crate::run::engine::stuck::suspects;
use crate::run::engine::time_limit::TimeLimit;
use crate::run::engine::turn::{Role, Turn};
use crate::run::error::{ActorDied, ExecError, Timeout};
use crate::run::lane::{LaneError, NEWS_TIMEOUT};
use crate::run::layout::Layout;
use crate::run::report::TaskError;

pub(crate) use self::through::Through;

/// The state of a graph that all of its handles share.
pub(crate) struct Engine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) options: Options,
    pub(crate) control: Control,
    pub(crate) layout: Layout,
    pub(crate) segment: Segment,
    pub(crate) lease: Lease,
    pub(crate) recipe: Arc<RuntimeParts>,
    /// The moment when the graph began; `None` if no events are kept.
    pub(crate) began: Option<ClockReading>,
    pub(crate) bell: Doorbell,
    budget: SpinBudget,
    driver: Guarded<Driver>,
    pub(crate) tally: Arc<SharedCounters>,
    pub(crate) turn: Turn,
    failure: Mutex<Option<ExecError>>,
    /// Notified when a failure is recorded.
    failed: Condvar,
    /// Wakers to wake once, when the graph ends.
    watchers: Mutex<Vec<Waker>>,
    discarded: Mutex<Vec<(u64, Range<usize>)>>,
    any_discarded: AtomicBool,
    /// The driver of the async methods of inline actors.
    inline: AsyncDriver,
    pub(crate) torn_down: AtomicBool,
    pub(crate) awaiter: Awaiter,
    made_in: MadeIn,
}

/// A waiter: looks for an answer and keeps it. Passing the answer through all the code that waits would cost more than
/// everything else on that path.
pub(crate) trait Sight {
    /// Whether the waiter looks even if nothing has moved.
    const ALWAYS: bool = false;
    /// Looks for an answer that is available before anything is pumped.
    fn at_once(&mut self, _: &mut Driver) -> bool {
        false
    }
    /// Looks for the answer; `true` if the waiter has one.
    fn look(&mut self, driver: &mut Driver) -> bool;
    /// Takes an error as the answer.
    fn fail(&mut self, error: ExecError);
}

/// A waiter whose answer comes from `check`.
struct Until<R, F> {
    check: F,
    found: Option<Result<R, ExecError>>,
}

impl<R, F: FnMut(&mut Driver) -> Option<Result<R, ExecError>>> Sight for Until<R, F> {
    // A lane makes room in an input by releasing a slot, and no pump reports that as a move.
    const ALWAYS: bool = true;

    fn look(&mut self, driver: &mut Driver) -> bool {
        self.found = (self.check)(driver);
        self.found.is_some()
    }

    fn fail(&mut self, error: ExecError) {
        self.found = Some(Err(error));
    }
}

/// The outcome of spinning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    /// The waiter has an answer.
    Found,
    /// Spinning stopped early: another thread wants the driver, or wakers are due.
    Interrupted,
    /// The spin budget is spent; the waiter parks next.
    Out,
}

/// The reasons why an execution was not submitted.
enum Denied {
    Full(NoRoom),
    Ended(Box<ExecError>),
}

impl Denied {
    #[cold]
    fn ended(error: ExecError) -> Self {
        Denied::Ended(Box::new(error))
    }
}

impl Engine {
    #[allow(clippy::too_many_arguments)] // called in one place, with parts that form no group of their own
    pub(crate) fn new(
        plan: Arc<Plan>,
        options: Options,
        control: Control,
        layout: Layout,
        segment: Segment,
        lease: Lease,
        recipe: Arc<RuntimeParts>,
        (bell, budget): (Doorbell, SpinBudget),
        driver: Driver,
    ) -> Arc<Self> {
        let traced = plan.settings.trace_events > 0;
        Arc::new(Engine {
            plan,
            options,
            control,
            layout,
            segment,
            lease,
            recipe,
            began: traced.then(ClockReading::now),
            bell,
            budget,
            tally: Arc::clone(&driver.tally),
            inline: driver.lane.driver.clone(),
            driver: Guarded::new(driver),
            turn: Turn::default(),
            failure: Mutex::new(None),
            failed: Condvar::new(),
            watchers: Mutex::new(Vec::new()),
            discarded: Mutex::new(Vec::new()),
            any_discarded: AtomicBool::new(false),
            torn_down: AtomicBool::new(false),
            awaiter: Awaiter::default(),
            made_in: MadeIn::here(),
        })
    }

    /// Whether this engine is a forked child's copy of a graph that the parent still uses.
    #[inline]
    pub(crate) fn is_a_copy(&self) -> bool {
        !self.made_in.is_here()
    }

    /// Leaks a forked child's copy of the engine, because dropping it would close the parent's channels; returns
    /// `false` in the parent.
    #[inline]
    pub(crate) fn let_be(engine: &Arc<Self>) -> bool {
        let copy = engine.is_a_copy();
        if copy {
            std::mem::forget(Arc::clone(engine));
        }
        copy
    }

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
            return self.failed(
                LaneId::DRIVER,
                ExecError::Shutdown { graph },
                "the runtime was shut down",
            );
        }
        let mine = |actor: &&crate::ir::ActorIr| death.actors.contains(&actor.id);
        let actor = self.plan.ir.actors.iter().filter(&mine).max_by_key(|actor| {
            let phase = self.control.progress(actor.lane).map(|progress| progress.phase);
            phase == Some(Phase::Computing)
        });
        let Some(actor) = actor else { return };
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
        self.failed(actor.lane, ExecError::ActorDied(Arc::new(died)), "an actor died");
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
    fn failed(&self, lane: LaneId, error: ExecError, why: &str) {
        match (&mut *self.failure.lock(), error) {
            (Some(ExecError::ActorDied(first)), ExecError::ActorDied(later)) => {
                Arc::make_mut(first).also.push(later.as_ref().clone());
            }
            (Some(_), _) => {}
            (none, error) => *none = Some(error),
        }
        self.failed.notify_all();
        self.lease.ending();
        self.control.fail(lane, why);
        self.interrupt();
        self.tell_watchers();
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
    fn broke(&self, driver: &mut Driver, error: impl Into<LaneError>) -> ExecError {
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
        driver.wake_also(std::mem::take(&mut *self.watchers.lock()));
        self.true_cause()
    }

    /// Uses the driver as soon as it is free. Afterwards wakes the due wakers, without locks held.
    pub(crate) fn drive<R>(
        &self,
        patience: &TimeLimit,
        act: impl FnOnce(&mut Driver) -> R,
    ) -> Result<R, NoEntry> {
        // An inline actor computes while its thread holds the driver, so even this wait has a deadline.
        let used = self
            .driver
            .with(|| patience.deadline(), |driver| (act(driver), driver.due()));
        let (result, due) = used?;
        due.into_iter().flatten().for_each(wake);
        Ok(result)
    }

    /// Wakes the due wakers after the driver was used without [`drive`](Self::drive).
    pub(crate) fn wake_due(&self) {
        let _ = self.drive_soon(|_| ());
    }

    /// The time limit that `Options::timeout` sets.
    #[inline]
    pub(crate) fn patience(&self) -> TimeLimit {
        TimeLimit::new(self.options.timeout_value(), "Options::timeout")
    }

    /// Uses the driver for a short action, within `Options::timeout` from now.
    pub(crate) fn drive_soon<R>(&self, act: impl FnOnce(&mut Driver) -> R) -> Result<R, ExecError> {
        let patience = self.patience();
        self.drive(&patience, act)
            .map_err(|refused| self.refusal(refused, &patience))
    }

    /// The error for a caller that did not get the driver and has submitted nothing.
    fn refusal(&self, refused: NoEntry, patience: &TimeLimit) -> ExecError {
        match refused {
            NoEntry::OutOfTime => self.timeout(None, patience.waited(), patience.option),
            NoEntry::Reentered => self.reentered(),
        }
    }

    fn reentered(&self) -> ExecError {
        ExecError::Reentered { graph: self.graph() }
    }

    /// Closes a handle that was dropped without its result. Never blocks: if another thread holds the driver, the next
    /// pump closes the handle, and the doorbell makes a waiting thread pump at once.
    pub(crate) fn discard(&self, execution: u64, leaves: Range<usize>) {
        self.discarded.lock().push((execution, leaves));
        // Relaxed: the lock orders the pushed entries; a pump that sees the flag late comes again.
        self.any_discarded.store(true, Ordering::Relaxed);
        if self
            .driver
            .try_with(|driver| self.close_discarded(driver))
            .is_err()
        {
            self.bell.ring();
        }
    }

    /// Closes the dropped handles; `true` if there were any.
    #[inline]
    fn close_discarded(&self, driver: &mut Driver) -> bool {
        if !self.any_discarded.load(Ordering::Relaxed) {
            return false;
        }
        // Cleared before the entries are taken: a later push sets the flag again.
        self.any_discarded.swap(false, Ordering::AcqRel);
        while let Some((execution, leaves)) = self.pop_discarded() {
            if driver.close(execution, &leaves) {
                self.cancel(execution);
            }
        }
        true
    }

    /// Cancels the tasks of an execution that have not started, and drops its async methods where they await.
    pub(crate) fn cancel(&self, execution: u64) {
        self.control.cancel(execution);
        self.interrupt();
    }

    /// Makes awaiting async methods check again whether they are still wanted.
    pub(crate) fn interrupt(&self) {
        if self.control.is_awaiting() {
            self.inline.look_again();
            self.lease.wake_async();
        }
    }

    fn pop_discarded(&self) -> Option<(u64, Range<usize>)> {
        self.discarded.lock().pop()
    }

    /// Closes dropped handles and moves all messages that can move; `true` if anything changed.
    fn pump(&self, driver: &mut Driver) -> Result<bool, ExecError> {
        let closed = self.close_discarded(driver);
        let moved = driver.pump().map_err(|error| self.broke(driver, error))?;
        Ok(closed || moved)
    }

    /// Pumps the driver, then lets `sight` look. If the graph has ended and `sight` finds nothing, `sight` gets the
    /// true cause instead of a time-out. `true` if `sight` has an answer.
    fn look(&self, driver: &mut Driver, sight: &mut impl Sight) -> bool {
        self.look_again(driver, sight, &mut true)
    }

    /// Does the same as [`look`](Self::look), but skips the look if nothing has changed since the caller's last one.
    /// The caller has held the driver since then.
    #[inline]
    fn look_again<S: Sight>(&self, driver: &mut Driver, sight: &mut S, changed: &mut bool) -> bool {
        if sight.at_once(driver) {
            self.turn.moved();
            return true;
        }
        let pumped = self.pump(driver);
        let moved = !matches!(pumped, Ok(false));
        if moved {
            self.turn.moved();
        }
        if (S::ALWAYS || std::mem::take(changed) || moved) && sight.look(driver) {
            return true;
        }
        match pumped.err().or_else(|| self.ended()) {
            Some(error) => {
                sight.fail(error);
                true
            }
            None => false,
        }
    }

    /// Waits until `sight` has an answer, and pumps meanwhile.
    fn wait_on(&self, patience: &TimeLimit, sight: &mut impl Sight) -> Result<(), NoEntry> {
        loop {
            let looked = self.drive(patience, |driver| {
                // Most results come soon: a thread that holds the driver already, while no other thread leads, spins
                // for a while without releasing it.
                let led = self.turn.is_led();
                let spun = if !led && !patience.has_spun() {
                    self.spin(driver, patience, sight)
                } else if self.look(driver, sight) {
                    Spun::Found
                } else if !led {
                    Spun::Out
                } else {
                    Spun::Interrupted
                };
                match spun {
                    Spun::Found => None,
                    _ => Some((self.turn.enter(), spun)),
                }
            })?;
            match looked {
                None => return Ok(()),
                Some((Role::Lead(_lead), spun)) => return self.lead(patience, sight, spun),
                Some((Role::Follow(following), _)) => {
                    if !following.wait(patience.deadline()) {
                        let last = self.drive(patience, |driver| self.look(driver, sight))?;
                        return last.then_some(()).ok_or(NoEntry::OutOfTime);
                    }
                }
            }
        }
    }

    fn lead(&self, patience: &TimeLimit, sight: &mut impl Sight, mut spun: Spun) -> Result<(), NoEntry> {
        while spun == Spun::Interrupted {
            spun = self.drive(patience, |driver| self.spin(driver, patience, sight))?;
        }
        if spun == Spun::Found {
            return Ok(());
        }
        let mut answer = Err(NoEntry::OutOfTime);
        self.budget.park(&self.bell, patience.deadline(), || {
            match self.drive(patience, |driver| self.look(driver, sight)) {
                Ok(false) => return false,
                Ok(true) => answer = Ok(()),
                Err(refused) => answer = Err(refused),
            }
            true
        });
        answer
    }

    /// Looks, then spins while the driver is held.
    #[inline]
    fn spin(&self, driver: &mut Driver, patience: &TimeLimit, sight: &mut impl Sight) -> Spun {
        if self.look(driver, sight) {
            return Spun::Found;
        }
        let waiting = self.budget.waiting();
        if waiting == Waiting::Park {
            return Spun::Out;
        }
        let (mut found, mut changed) = (false, false);
        let spun = waiting.spin_on(
            patience.deadline(),
            driver,
            |driver| driver.stirs(),
            |driver, _| {
                found = self.look_again(driver, sight, &mut changed);
                found || self.driver.is_wanted() || driver.is_due()
            },
        );
        match (found, spun) {
            (true, _) => Spun::Found,
            (false, true) => Spun::Interrupted,
            (false, false) => Spun::Out,
        }
    }

    /// Waits until `check` returns an answer.
    pub(crate) fn wait_for<R>(
        &self,
        patience: &TimeLimit,
        check: impl FnMut(&mut Driver) -> Option<Result<R, ExecError>>,
    ) -> Result<Result<R, ExecError>, NoEntry> {
        let mut until = Until { check, found: None };
        self.wait_on(patience, &mut until)?;
        until.found.ok_or(NoEntry::OutOfTime)
    }

    /// The behaviour on a full graph and the time limit of submissions, from `Options::on_full` and
    /// `Options::submit_timeout`.
    #[inline]
    pub(crate) fn as_asked(&self) -> (OnFull, TimeLimit) {
        let patience = TimeLimit::new(self.options.submit_timeout_value(), "Options::submit_timeout");
        (self.options.on_full_value(), patience)
    }

    /// Waits for room, stages the input with `stage`, and submits. `stage` runs at most once, and only if there is
    /// room.
    #[inline]
    pub(crate) fn submit(
        &self,
        (on_full, patience): (OnFull, TimeLimit),
        mut stage: impl FnMut(&mut Driver) -> Result<(), ExecError>,
    ) -> Result<u64, ExecError> {
        // There usually is room, and then nothing has to be pumped first.
        let entered = self.drive(&patience, |driver| self.enter(driver, &mut stage));
        match entered {
            Ok(Ok(execution)) => Ok(execution),
            Ok(Err(Denied::Ended(error))) => Err(*error),
            Ok(Err(Denied::Full(_))) => self.submit_later(on_full, &patience, &mut stage),
            Err(refused) => Err(self.refusal(refused, &patience)),
        }
    }

    /// Continues [`submit`](Self::submit) after its first attempt found no room.
    #[inline(never)]
    fn submit_later(
        &self,
        on_full: OnFull,
        patience: &TimeLimit,
        stage: &mut dyn FnMut(&mut Driver) -> Result<(), ExecError>,
    ) -> Result<u64, ExecError> {
        let mut displaced = false;
        let outcome = self.wait_for(patience, |driver: &mut Driver| {
            match self.enter(driver, &mut *stage) {
                Ok(execution) => Some(Ok(execution)),
                Err(Denied::Ended(error)) => Some(Err(*error)),
                Err(Denied::Full(no_room)) => self.full(driver, no_room, on_full, &mut displaced).map(Err),
            }
        });
        outcome.unwrap_or_else(|refused| Err(self.refusal(refused, patience)))
    }

    /// Stages and submits the input if there is room.
    #[inline]
    fn enter(
        &self,
        driver: &mut Driver,
        mut stage: impl FnMut(&mut Driver) -> Result<(), ExecError>,
    ) -> Result<u64, Denied> {
        if !self.control.is_running() {
            return Err(Denied::ended(self.true_end()));
        }
        if !driver.has_room() {
            match driver.room() {
                Ok(Ok(())) => {}
                Ok(Err(no_room)) => return Err(Denied::Full(no_room)),
                Err(error) => return Err(Denied::ended(self.broke(driver, error))),
            }
        }
        stage(driver).map_err(Denied::ended)?;
        driver
            .submit(1)
            .map_err(|error| Denied::ended(self.broke(driver, error)))
    }

    /// The reason why the graph has ended, for a caller that has seen that it has.
    #[cold]
    fn true_end(&self) -> ExecError {
        self.ended().unwrap_or_else(|| self.true_cause())
    }

    /// The reaction to a graph without room: an error, or `None` to wait.
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
            (NoRoom::Unread(_), OnFull::Fail) => Some(ExecError::InputsUnread {
                behind: suspects(&self.plan, &self.control, &self.recipe.actors).into(),
            }),
            (NoRoom::Inflight(_) | NoRoom::Unread(_), OnFull::DropOldest) if !*displaced => {
                *displaced = true;
                if let Some(oldest) = driver.oldest_wanted() {
                    self.cancel(oldest);
                }
                None
            }
            _ => None,
        }
    }

    /// Waits until `sight` has an answer and returns `None`; returns the error if the wait ends without an answer. The
    /// execution was submitted at `since`.
    #[inline]
    pub(crate) fn wait(
        &self,
        execution: u64,
        since: u64,
        patience: &TimeLimit,
        sight: &mut impl Sight,
    ) -> Option<ExecError> {
        match self.wait_on(patience, sight) {
            Ok(()) => None,
            Err(NoEntry::OutOfTime) => {
                let waited = patience.waited().max(elapsed(since));
                Some(self.timeout(Some(execution), waited, patience.option))
            }
            Err(NoEntry::Reentered) => Some(self.reentered()),
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
            suspects: suspects(&self.plan, &self.control, &self.recipe.actors),
            option,
        }))
    }

    /// Looks once, and waits only for the driver, whose holder may compute an inline method. `true` if `sight` has an
    /// answer; if it has none, calls `otherwise` while the driver is still held.
    pub(crate) fn poll(&self, sight: &mut impl Sight, otherwise: impl FnOnce(&mut Driver)) -> bool {
        let looked = self.drive_soon(|driver| {
            let found = self.look(driver, sight);
            if !found {
                otherwise(driver);
            }
            found
        });
        looked.unwrap_or_else(|error| {
            sight.fail(error);
            true
        })
    }

    /// Does the same as [`poll`](Self::poll), but waits for the driver only for a [`moment`], and leaves `sight`
    /// without an answer if another thread holds the driver for longer.
    pub(crate) fn glance(&self, sight: &mut impl Sight) {
        match self.drive(&moment(), |driver| self.look(driver, sight)) {
            Ok(_) | Err(NoEntry::OutOfTime) => {}
            Err(NoEntry::Reentered) => sight.fail(self.reentered()),
        }
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

/// The time limit with which a call that must not block waits for the driver. It is longer than another thread needs to
/// release the driver with every core busy; a thread that computes an inline actor's method may hold the driver for
/// ever.
pub(crate) fn moment() -> TimeLimit {
    TimeLimit::new(
        Some(Duration::from_millis(50)),
        "`execute`, which waits, and `Options::submit_timeout`",
    )
}

/// The time that has passed since a moment of the coarse clock.
fn elapsed(since: u64) -> Duration {
    Duration::from_nanos(coarse_ns().saturating_sub(since))
}
