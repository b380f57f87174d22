//! A running graph, for any number of threads. `../README.md` explains the protocol.
//!
//! One thread at a time uses the driver. Every wait has a deadline unless the user sets none, except that of the thread
//! that serves `.await`; tear-down ends that wait.

mod awaiter;
mod cancel;
pub(crate) mod failure;
pub(crate) mod open_objects;
pub(crate) mod result;
pub(crate) mod submit;
pub(crate) mod teardown;
pub(crate) mod wait;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_channels::{Doorbell, Segment, SpinBudget};
use selvedge_core::{AsyncDriver, Guarded, Lease, MadeIn, NoEntry};

use crate::api::options::Options;
use crate::bind::RuntimeParts;
use crate::ir::Plan;
use crate::run::clock::ClockReading;
use crate::run::control::Control;
use crate::run::driver::Driver;
use crate::run::driver::books::SharedCounters;
use crate::run::engine::awaiter::Awaiter;
use crate::run::engine::open_objects::OpenObjects;
use crate::run::engine::wait::Turn;
use crate::run::error::ExecError;
use crate::run::hosts::Joint;
use crate::run::layout::Layout;

/// The state of a graph that all of its handles share.
pub(crate) struct Engine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) options: Options,
    pub(crate) control: Control,
    pub(crate) layout: Layout,
    pub(crate) segment: Segment,
    pub(crate) lease: Lease,
    /// The joint with the other hosts of the graph, if it has some.
    pub(crate) joint: Option<Arc<Joint>>,
    pub(crate) recipe: Arc<RuntimeParts>,
    /// The moment when the graph began; `None` if no events are kept.
    pub(crate) began: Option<ClockReading>,
    pub(crate) bell: Doorbell,
    budget: SpinBudget,
    driver: Guarded<Driver>,
    pub(crate) counters: Arc<SharedCounters>,
    turn: Turn,
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
    awaiter: Awaiter,
    pub(crate) objects: OpenObjects,
    made_in: MadeIn,
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
        joint: Option<Arc<Joint>>,
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
            joint,
            recipe,
            began: traced.then(ClockReading::now),
            bell,
            budget,
            counters: Arc::clone(&driver.books.counters),
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
            objects: OpenObjects::default(),
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

    /// Uses the driver as soon as it is free. Afterwards wakes the due wakers, without locks held.
    pub(crate) fn drive<R>(
        &self,
        limit: &TimeLimit,
        act: impl FnOnce(&mut Driver) -> R,
    ) -> Result<R, NoEntry> {
        // An inline actor computes while its thread holds the driver, so even this wait has a deadline.
        let used = self
            .driver
            .with(|| limit.deadline(), |driver| (act(driver), driver.wakers.due()));
        let (result, due) = used?;
        if let Some(due) = due {
            due.settle();
        }
        self.close_missed();
        Ok(result)
    }

    /// Wakes the due wakers after the driver was used without [`drive`](Self::drive).
    pub(crate) fn wake_due(&self) {
        let _ = self.drive_soon(|_| ());
    }

    /// The time limit that `Options::timeout` sets.
    #[inline]
    pub(crate) fn limit(&self) -> TimeLimit {
        TimeLimit::new(self.options.timeout_value(), "Options::timeout")
    }

    /// Uses the driver for a short action, within `Options::timeout` from now.
    pub(crate) fn drive_soon<R>(&self, act: impl FnOnce(&mut Driver) -> R) -> Result<R, ExecError> {
        let limit = self.limit();
        self.drive(&limit, act)
            .map_err(|refused| self.gave_up(None, &limit, refused))
    }
}

/// A time limit whose clock starts when there is something to wait for. Reading the clock costs as much as the rest of
/// an execution whose result has already arrived.
pub(crate) struct TimeLimit {
    timeout: Option<Duration>,
    /// The option that sets the time limit, for the error message.
    pub(crate) option: &'static str,
    started: Cell<Option<Instant>>,
    /// True if the wait has already spun for the whole spin budget.
    spun: Cell<bool>,
}

impl TimeLimit {
    /// A time limit of `timeout`; `None` means no limit.
    #[inline]
    pub(crate) fn new(timeout: Option<Duration>, option: &'static str) -> Self {
        TimeLimit {
            timeout,
            option,
            started: Cell::new(None),
            spun: Cell::new(false),
        }
    }

    /// Records that the spin budget is spent, so that the wait parks next.
    pub(crate) fn spent_spinning(&self) {
        self.spun.set(true);
    }

    /// Whether the wait parks without spinning first.
    pub(crate) fn has_spun(&self) -> bool {
        self.spun.get()
    }

    /// The deadline. The first call starts the clock. `None` if there is no limit, or if the deadline is beyond the
    /// range of the clock.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = self.timeout?;
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        started.checked_add(timeout)
    }

    /// The time since the clock started.
    pub(crate) fn waited(&self) -> Duration {
        self.started
            .get()
            .map_or(Duration::ZERO, |started| started.elapsed())
    }
}
