//! A running graph, whoever looks at it: submission, waiting and failure.
//!
//! The driver is used by one thread at a time; who of the waiting threads pumps it, `turn.rs` decides. A failure rings
//! the driver's doorbell, so the leader sees it and rouses the rest. No wait is unbounded but that of the thread that
//! serves `.await`, which tear-down ends.

mod through;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_channels::{Doorbell, Fault, FaultKind, Segment, SpinBudget, Waiting};
use selvedge_core::{AsyncDriver, Death, Exit, Guarded, LaneId, Lease, MadeIn, NoEntry, wake};

use crate::bind::Recipe;
use crate::ir::Plan;
use crate::options::{OnFull, Options};
use crate::run::awaiter::Awaiter;
use crate::run::clock::{Moment, coarse_ns};
use crate::run::control::{Control, Phase, State};
use crate::run::driver::{Driver, NoRoom, Tally};
use crate::run::error::{ActorDied, ExecError, Timeout};
use crate::run::lane::{LaneError, NEWS_TIMEOUT};
use crate::run::layout::Layout;
use crate::run::patience::Patience;
use crate::run::report::TaskError;
use crate::run::stuck::suspects;
use crate::run::turn::{Role, Turn};

pub(crate) use self::through::Through;

/// Everything of a graph that its handles share.
pub(crate) struct Engine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) options: Options,
    pub(crate) control: Control,
    pub(crate) layout: Layout,
    pub(crate) segment: Segment,
    pub(crate) lease: Lease,
    pub(crate) recipe: Arc<Recipe>,
    /// When the graph began, where events are kept.
    pub(crate) began: Option<Moment>,
    pub(crate) bell: Doorbell,
    budget: SpinBudget,
    driver: Guarded<Driver>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) turn: Turn,
    failure: Mutex<Option<ExecError>>,
    /// Rung when the first failure is there.
    failed: Condvar,
    /// Woken once, when the graph ends.
    watchers: Mutex<Vec<Waker>>,
    discarded: Mutex<Vec<(u64, Range<usize>)>>,
    any_discarded: AtomicBool,
    /// What drives async methods of inline actors.
    inline: AsyncDriver,
    pub(crate) torn_down: AtomicBool,
    pub(crate) awaiter: Awaiter,
    made_in: MadeIn,
}

/// What somebody waits for. It keeps its own answer: handing it through all that waits costs more than all else on the way.
pub(crate) trait Sight {
    /// Whether it is to look also where nothing has moved.
    const ALWAYS: bool = false;
    /// Looks for the answer where it is to be had before anything is pumped.
    fn at_once(&mut self, _: &mut Driver) -> bool {
        false
    }
    /// Looks for the answer; `true` when it has one.
    fn look(&mut self, driver: &mut Driver) -> bool;
    /// Takes an error for an answer.
    fn fail(&mut self, error: ExecError);
}

/// Waits for whatever `check` says.
struct Until<R, F> {
    check: F,
    found: Option<Result<R, ExecError>>,
}

impl<R, F: FnMut(&mut Driver) -> Option<Result<R, ExecError>>> Sight for Until<R, F> {
    // Room in an input comes from a lane that gives it back: nothing moves here for it.
    const ALWAYS: bool = true;

    fn look(&mut self, driver: &mut Driver) -> bool {
        self.found = (self.check)(driver);
        self.found.is_some()
    }

    fn fail(&mut self, error: ExecError) {
        self.found = Some(Err(error));
    }
}

/// How spinning ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    /// With an answer.
    Found,
    /// To let others have the driver or be woken.
    Interrupted,
    /// It is time to park.
    Out,
}

/// Why an execution was not submitted.
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
    #[allow(clippy::too_many_arguments)] // built in one place, from parts that have no other name in common
    pub(crate) fn new(
        plan: Arc<Plan>,
        options: Options,
        control: Control,
        layout: Layout,
        segment: Segment,
        lease: Lease,
        recipe: Arc<Recipe>,
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
            began: traced.then(Moment::now),
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

    /// Whether this is a forked child's copy of a graph that its parent goes on with.
    #[inline]
    pub(crate) fn is_a_copy(&self) -> bool {
        !self.made_in.is_here()
    }

    /// Keeps a forked child's copy from being dropped, which would close the parent's channels; `false` in the parent.
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

    /// Why the graph does not run any more, if so.
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
            reason: reason.into(),
        }
    }

    /// Called on the control thread as soon as a process or thread of the graph is known to be dead.
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
        // Of several actors that shared the lane, the one whose method it was at.
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

    /// A lane's program may have ended before the graph: called as soon as that is heard of, by who has nothing in hand. A lane
    /// that fails says why in the control block; one whose program panicked, or never began, has said nothing.
    pub(crate) fn lane_ended(&self) {
        if self.control.is_running()
            && let Some((lane, panic)) = self.lease.panics().first()
        {
            self.control.fail(
                *lane,
                &format!("a lane's program did not come to its end: {panic}"),
            );
        }
        if self.control.state() == State::Failed {
            self.lease.ending();
            self.interrupt();
            self.tell_watchers();
        }
    }

    /// The first failure counts; of deaths, all.
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

    /// Has `waker` woken when the graph ends, unless it has.
    pub(crate) fn watch(&self, waker: &Waker) -> Option<ExecError> {
        let mut watchers = self.watchers.lock();
        if !watchers.iter().any(|known| known.will_wake(waker)) {
            watchers.push(waker.clone());
        }
        drop(watchers);
        // After the push: an end that this look does not see finds the waker.
        self.ended()
    }

    /// After the state has changed, by who has nothing in hand: a waker may use the graph.
    pub(crate) fn tell_watchers(&self) {
        let watchers = std::mem::take(&mut *self.watchers.lock());
        watchers.into_iter().for_each(wake);
    }

    /// A channel of the driver's own lane broke. Watchers are woken by who lets go of the driver.
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
            .fail(LaneId(0), &format!("the driver's lane: {error}"));
        self.interrupt();
        driver.wake_also(std::mem::take(&mut *self.watchers.lock()));
        self.true_cause()
    }

    /// Uses the driver as soon as it is free. Wakers that are due are woken afterwards, with nothing in hand.
    pub(crate) fn drive<R>(
        &self,
        patience: &Patience,
        act: impl FnOnce(&mut Driver) -> R,
    ) -> Result<R, NoEntry> {
        // An inline actor computes while its thread has the driver, so even this has a deadline.
        let used = self
            .driver
            .with(|| patience.deadline(), |driver| (act(driver), driver.due()));
        let (result, due) = used?;
        due.into_iter().flatten().for_each(wake);
        Ok(result)
    }

    /// Wakes who is due, after what used the driver without [`drive`](Self::drive).
    pub(crate) fn wake_due(&self) {
        let _ = self.drive_soon(|_| ());
    }

    /// To wait at most `Options::timeout`.
    #[inline]
    pub(crate) fn patience(&self) -> Patience {
        Patience::new(self.options.timeout_value(), "Options::timeout")
    }

    /// Uses the driver for something short, at most `Options::timeout` from now.
    pub(crate) fn drive_soon<R>(&self, act: impl FnOnce(&mut Driver) -> R) -> Result<R, ExecError> {
        let patience = self.patience();
        self.drive(&patience, act)
            .map_err(|refused| self.refusal(refused, &patience))
    }

    /// Why somebody who has submitted nothing did not get in.
    fn refusal(&self, refused: NoEntry, patience: &Patience) -> ExecError {
        match refused {
            NoEntry::OutOfTime => self.timeout(None, patience.waited(), patience.option),
            NoEntry::Reentered => self.reentered(),
        }
    }

    fn reentered(&self) -> ExecError {
        ExecError::Reentered { graph: self.graph() }
    }

    /// A handle was dropped without its result. Never blocks: when somebody else has the driver, the next one to
    /// pump does the rest, at once if somebody waits.
    pub(crate) fn discard(&self, execution: u64, leaves: Range<usize>) {
        self.discarded.lock().push((execution, leaves));
        // Relaxed: the lock orders what was pushed; a pump that sees the flag late comes again.
        self.any_discarded.store(true, Ordering::Relaxed);
        if self
            .driver
            .try_with(|driver| self.close_discarded(driver))
            .is_err()
        {
            self.bell.ring();
        }
    }

    /// Closes what was dropped; `true` when there was something.
    #[inline]
    fn close_discarded(&self, driver: &mut Driver) -> bool {
        if !self.any_discarded.load(Ordering::Relaxed) {
            return false;
        }
        // Before the look: who pushes later sets it again.
        self.any_discarded.swap(false, Ordering::AcqRel);
        while let Some((execution, leaves)) = self.pop_discarded() {
            if driver.close(execution, &leaves) {
                self.cancel(execution);
            }
        }
        true
    }

    /// Cancels what has not started of an execution, and drops its async methods where they await.
    pub(crate) fn cancel(&self, execution: u64) {
        self.control.cancel(execution);
        self.interrupt();
    }

    /// Has async methods that await look again whether they are wanted.
    pub(crate) fn interrupt(&self) {
        if self.control.is_awaiting() {
            self.inline.look_again();
            self.lease.rouse();
        }
    }

    fn pop_discarded(&self) -> Option<(u64, Range<usize>)> {
        self.discarded.lock().pop()
    }

    /// Moves what can move; `true` when something has changed.
    fn pump(&self, driver: &mut Driver) -> Result<bool, ExecError> {
        let closed = self.close_discarded(driver);
        let moved = driver.pump().map_err(|error| self.broke(driver, error))?;
        Ok(closed || moved)
    }

    /// Pumps and looks; the true cause comes before `sight` has to give up. `true` when there is an answer.
    fn look(&self, driver: &mut Driver, sight: &mut impl Sight) -> bool {
        self.look_again(driver, sight, &mut true)
    }

    /// The same for who has kept the driver since the last look: looks where something has changed since.
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

    /// Waits until `sight` has an answer, pumping meanwhile.
    fn wait_on(&self, patience: &Patience, sight: &mut impl Sight) -> Result<(), NoEntry> {
        loop {
            let looked = self.drive(patience, |driver| {
                // Most results come soon: who has the driver already, and is the only one, waits a while with it in hand.
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

    fn lead(&self, patience: &Patience, sight: &mut impl Sight, mut spun: Spun) -> Result<(), NoEntry> {
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

    /// Looks, and spins with the driver in hand.
    #[inline]
    fn spin(&self, driver: &mut Driver, patience: &Patience, sight: &mut impl Sight) -> Spun {
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

    /// Waits until `check` has an answer.
    pub(crate) fn wait_for<R>(
        &self,
        patience: &Patience,
        check: impl FnMut(&mut Driver) -> Option<Result<R, ExecError>>,
    ) -> Result<Result<R, ExecError>, NoEntry> {
        let mut until = Until { check, found: None };
        self.wait_on(patience, &mut until)?;
        until.found.ok_or(NoEntry::OutOfTime)
    }

    /// What `Options::on_full` and `Options::submit_timeout` say of who submits.
    #[inline]
    pub(crate) fn as_asked(&self) -> (OnFull, Patience) {
        let patience = Patience::new(self.options.submit_timeout_value(), "Options::submit_timeout");
        (self.options.on_full_value(), patience)
    }

    /// Waits for room, stages the input with `stage`, and submits. `stage` runs once, and only if accepted.
    #[inline]
    pub(crate) fn submit(
        &self,
        (on_full, patience): (OnFull, Patience),
        mut stage: impl FnMut(&mut Driver) -> Result<(), ExecError>,
    ) -> Result<u64, ExecError> {
        // There mostly is room, and then nothing has to move for it.
        let entered = self.drive(&patience, |driver| self.enter(driver, &mut stage));
        match entered {
            Ok(Ok(execution)) => Ok(execution),
            Ok(Err(Denied::Ended(error))) => Err(*error),
            Ok(Err(Denied::Full(_))) => self.submit_later(on_full, &patience, &mut stage),
            Err(refused) => Err(self.refusal(refused, &patience)),
        }
    }

    /// The same, where there was no room.
    #[inline(never)]
    fn submit_later(
        &self,
        on_full: OnFull,
        patience: &Patience,
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

    /// Stages and submits, if there is room.
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

    /// Why it does not run any more, by who has seen that it does not.
    #[cold]
    fn true_end(&self) -> ExecError {
        self.ended().unwrap_or_else(|| self.true_cause())
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

    /// Waits until `sight` has an answer; it has one where this is nothing. The execution was submitted at `since`.
    #[inline]
    pub(crate) fn wait(
        &self,
        execution: u64,
        since: u64,
        patience: &Patience,
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

    /// A task that awaits an execution, submitted at `since`, has waited for `Options::timeout`.
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

    /// Looks once, without waiting for anything but the driver, with which an inline method may compute; `true` when `sight` has an
    /// answer. `otherwise` is done with the driver in hand, where it has none.
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

    /// As [`poll`](Self::poll), and finds nothing where another thread computes with the driver in hand.
    pub(crate) fn glance(&self, sight: &mut impl Sight) {
        match self.drive(&moment(), |driver| self.look(driver, sight)) {
            Ok(_) | Err(NoEntry::OutOfTime) => {}
            Err(NoEntry::Reentered) => sight.fail(self.reentered()),
        }
    }

    /// What a fault says to the user.
    pub(crate) fn error_of(&self, execution: u64, fault: &Fault) -> ExecError {
        match fault.kind() {
            // The end of a graph drops async methods where they await.
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

/// What who does not wait gives another thread that has the driver: more than it needs to let go of it, with every core busy. One
/// that computes an inline actor's method may take for ever.
pub(crate) fn moment() -> Patience {
    Patience::new(
        Some(Duration::from_millis(50)),
        "`execute`, which waits, and `Options::submit_timeout`",
    )
}

/// How long ago a moment of the coarse clock was.
fn elapsed(since: u64) -> Duration {
    Duration::from_nanos(coarse_ns().saturating_sub(since))
}
