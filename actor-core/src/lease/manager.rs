//! The lease manager: the lease table behind a lock, waits for leases that are ending, and the announcement of deaths.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use selvedge_channels::dispose;
use selvedge_cluster::id_map::IdSet;

use crate::death::Death;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::lease::table::{EndWatcher, LeaseId, LeaseTable, NotStarted, Obstacle, Unit, Watcher};

/// The lease manager, shared by all leases of a runtime.
#[derive(Default)]
pub(crate) struct LeaseManager {
    table: Mutex<LeaseTable>,
    changed: Condvar,
}

impl LeaseManager {
    /// Takes a lease; waits until the deadline for holders that are ending.
    pub(crate) fn take(
        &self,
        holder: &str,
        units: &IdSet<Unit>,
        actors: &IdSet<ActorId>,
        deadline: Instant,
    ) -> Result<LeaseId, Obstacle> {
        let mut table = self.table.lock();
        loop {
            match table.grant(holder, units, actors.clone()) {
                Err(obstacle @ Obstacle::Ending { .. }) => {
                    if self.changed.wait_until(&mut table, deadline).timed_out() {
                        // One last attempt, because the release and the deadline may have come together.
                        return table.grant(holder, units, actors.clone()).map_err(|_| obstacle);
                    }
                }
                granted_or_refused => return granted_or_refused,
            }
        }
    }

    pub(crate) fn start(&self, lease: LeaseId, lanes: &[LaneId]) -> Result<(), NotStarted> {
        self.table.lock().start(lease, lanes)
    }

    pub(crate) fn reserve(&self, lease: LeaseId, process: ProcessId, lanes: &[LaneId]) -> Vec<LaneId> {
        self.table.lock().reserve(lease, process, lanes)
    }

    pub(crate) fn ended_with(&self, process: ProcessId) {
        self.table.lock().ended_with(process);
        self.changed.notify_all();
    }

    /// A process says that a lane's program has ended. Nothing is noted of a lane that runs no program there.
    pub(crate) fn ended_in(&self, process: ProcessId, lane: LaneId, panic: Option<&str>) {
        if self.table.lock().runs_in(process, lane) {
            self.ended(&[lane], panic);
        }
    }

    pub(crate) fn ended(&self, lanes: &[LaneId], panic: Option<&str>) {
        let mut table = self.table.lock();
        let watchers: Vec<EndWatcher> = lanes
            .iter()
            .flat_map(|lane| table.ended(*lane, panic.map(str::to_owned)))
            .collect();
        drop(table);
        self.changed.notify_all();
        watchers.iter().for_each(|watcher| tell(|| watcher()));
    }

    pub(crate) fn ending(&self, lease: LeaseId) {
        self.table.lock().ending(lease);
        self.changed.notify_all();
    }

    pub(crate) fn release(&self, lease: LeaseId) {
        self.table.lock().release(lease);
        self.changed.notify_all();
    }

    pub(crate) fn lose(&self, lane: LaneId) {
        self.table.lock().lose(lane);
        self.changed.notify_all();
    }

    /// Waits until no program of the lease runs, but for that of one lane; returns the other lanes that still run one at the deadline.
    pub(crate) fn join(&self, lease: LeaseId, but: Option<LaneId>, deadline: Instant) -> Vec<LaneId> {
        let mut table = self.table.lock();
        let mut is_late = false;
        loop {
            let mut running = table.running(lease);
            running.retain(|lane| Some(*lane) != but);
            if running.is_empty() || is_late {
                return running;
            }
            is_late = self.changed.wait_until(&mut table, deadline).timed_out();
        }
    }

    pub(crate) fn panics(&self, lease: LeaseId) -> Vec<(LaneId, String)> {
        self.table.lock().panics(lease)
    }

    /// Adds a watcher, and calls it at once for the deaths that it has missed.
    pub(crate) fn watch(&self, lease: LeaseId, watcher: Watcher) {
        let missed = self.table.lock().watch(lease, watcher.clone());
        for death in &missed {
            tell(|| watcher(death));
        }
    }

    /// Adds a watcher that is called, outside the lock, whenever a program of the lease ends before the lease does.
    pub(crate) fn watch_ends(&self, lease: LeaseId, watcher: EndWatcher) {
        self.table.lock().watch_ends(lease, watcher);
    }

    /// Calls the watchers of every lease that holds one of the dead actors, on this thread and outside the lock.
    pub(crate) fn died(&self, death: &Death) {
        let watchers = self.table.lock().died(death);
        for watcher in watchers {
            tell(|| watcher(death));
        }
    }

    pub(crate) fn held(&self) -> Vec<Vec<ActorId>> {
        self.table.lock().held()
    }

    /// Wakes all threads that wait here, after a change outside the table.
    pub(crate) fn wake(&self) {
        // The lock is taken so that no waiter is missed: a waiter that has just checked its condition either holds the
        // lock until it waits, or waits already and is woken.
        let _table = self.table.lock();
        self.changed.notify_all();
    }

    /// Waits for changes of the table, or calls of `wake`, until `ready` returns `true`. Returns `false` if the
    /// deadline passes first. `ready` is called under the lock, before each wait.
    pub(crate) fn wait(&self, deadline: Instant, mut ready: impl FnMut() -> bool) -> bool {
        let mut table = self.table.lock();
        while !ready() {
            if self.changed.wait_until(&mut table, deadline).timed_out() {
                return ready();
            }
        }
        true
    }
}

/// Calls a watcher. A panic of the watcher is caught, so that it does not end this thread; its message is on stderr.
fn tell(watcher: impl FnOnce()) {
    dispose(catch_unwind(AssertUnwindSafe(watcher)));
}
