//! The directory of a runtime: actors and lanes by number, time limits, and the leases whose holders hear of deaths.
//!
//! The threads that spawn and the control thread write to the directory; all threads read it. A running program does
//! not use it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::actor_record::{ActorRecord, Liveness};
use crate::control::messages::NodeMessage;
use crate::death::{Death, Exit};
use crate::home::keep::LaneKeep;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::lane::thread::LaneThread;
use crate::lease::manager::LeaseManager;

#[derive(Default)]
struct Entries {
    /// The actors, each with the shared object that keeps its lane alive.
    records: BTreeMap<ActorId, (Arc<ActorRecord>, Option<Arc<LaneKeep>>)>,
    lanes: BTreeMap<LaneId, Arc<LaneThread>>,
}

/// The time limits of a runtime.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The time limit for a new process to reach its program, and then to say hello.
    pub(crate) hello: Duration,
    /// The time limit for an actor's constructor.
    pub(crate) build: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(5),
            build: Duration::from_secs(60),
        }
    }
}

pub(crate) struct Directory {
    entries: Mutex<Entries>,
    closed: AtomicBool,
    limits: Mutex<Limits>,
    pub(crate) leases: LeaseManager,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::new(Entries::default()),
            closed: AtomicBool::new(false),
            limits: Mutex::new(Limits::default()),
            leases: LeaseManager::default(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        *self.limits.lock()
    }

    pub(crate) fn set_limits(&self, set: impl FnOnce(&mut Limits)) {
        set(&mut self.limits.lock());
    }

    /// Whether the runtime is shut down, or about to be.
    pub(crate) fn is_closed(&self) -> bool {
        // SYNC directory-closed, acquire side: pairs with the swap in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the directory; returns `false` if it was closed before.
    pub(crate) fn close(&self) -> bool {
        // SYNC directory-closed, release side: pairs with the load in `is_closed`.
        let first = !self.closed.swap(true, Ordering::AcqRel);
        self.leases.wake();
        first
    }

    pub(crate) fn add_record(&self, record: &Arc<ActorRecord>, keep: Option<Arc<LaneKeep>>) {
        let entry = (Arc::clone(record), keep);
        self.entries.lock().records.insert(record.id(), entry);
    }

    /// Returns the shared object that keeps an actor's lane alive; `None` if the actor is no longer listed, or has no
    /// lane.
    pub(crate) fn keep_of(&self, id: ActorId) -> Option<Weak<LaneKeep>> {
        let entries = self.entries.lock();
        let (_, keep) = entries.records.get(&id)?;
        keep.as_ref().map(Arc::downgrade)
    }

    pub(crate) fn remove_record(&self, id: ActorId) {
        let removed = self.entries.lock().records.remove(&id);
        // Dropped outside the lock, because the lane may end with it.
        drop(removed);
    }

    /// Adds a lane, and removes lanes whose thread is gone.
    pub(crate) fn add_lane(&self, lane: &Arc<LaneThread>) {
        let mut entries = self.entries.lock();
        // Nothing waits for a thread under this lock, because a thread that ends may use the directory.
        entries.lanes.retain(|_, old| !old.is_gone());
        entries.lanes.insert(lane.id(), Arc::clone(lane));
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<LaneThread>> {
        self.entries.lock().lanes.values().cloned().collect()
    }

    pub(crate) fn lane(&self, id: LaneId) -> Option<Arc<LaneThread>> {
        self.entries.lock().lanes.get(&id).cloned()
    }

    /// All actors, ordered by number.
    pub(crate) fn records(&self) -> Vec<Arc<ActorRecord>> {
        self.records_where(|_| true)
    }

    pub(crate) fn records_in(&self, process: ProcessId) -> Vec<Arc<ActorRecord>> {
        self.records_where(|record| record.process() == process)
    }

    pub(crate) fn records_on(&self, lane: LaneId) -> Vec<Arc<ActorRecord>> {
        self.records_where(|record| record.lane() == lane)
    }

    fn records_where(&self, is_meant: impl Fn(&ActorRecord) -> bool) -> Vec<Arc<ActorRecord>> {
        let entries = self.entries.lock();
        let records = entries.records.values().map(|(record, _)| record);
        records.filter(|record| is_meant(record)).cloned().collect()
    }

    /// Handles the death of a worker process, as far as it must happen at once on the calling thread: updates the
    /// actors' state, calls the watchers, and ends the programs. The worker's node does the rest (restart, messages to
    /// the actors' nodes). While the runtime shuts down, workers end because they were told to, so no death is
    /// recorded.
    pub(crate) fn process_died(&self, process: ProcessId, death: &Death) {
        let records = self.records_in(process);
        if !self.is_closed() {
            for record in &records {
                record.note_death(death, true);
            }
            self.leases.died(death);
        }
        // By process, not by actor, because the actors of a worker that was ended are no longer listed.
        self.leases.ended_with(process);
    }

    /// Ends actors for good: updates their state, calls the watchers, and tells their nodes. `why` is the reason in
    /// words.
    pub(crate) fn end_actors(&self, records: &[Arc<ActorRecord>], why: &str) {
        self.note_deaths(records, why, false);
        self.tell_nodes(records);
        self.forget_dead(records);
    }

    /// Records a death of actors that no death of a process explains, and calls the watchers. `why` is the reason in
    /// words.
    pub(crate) fn note_deaths(&self, records: &[Arc<ActorRecord>], why: &str, may_restart: bool) {
        let alive: Vec<_> = records
            .iter()
            .filter(|record| !matches!(record.liveness(), Liveness::Dead(_)))
            .collect();
        let Some(first) = alive.first() else { return };
        let death = Death {
            actor: first.name().to_owned(),
            actors: alive.iter().map(|record| record.id()).collect(),
            process: first.process(),
            pid: None,
            exit: Exit::Ended(why.to_owned()),
            stderr_tail: Vec::new(),
        };
        for record in &alive {
            record.note_death(&death, may_restart);
        }
        // The watchers of actors that still restart were called when the process died.
        if alive
            .iter()
            .any(|record| matches!(record.liveness(), Liveness::Dead(_)))
        {
            self.leases.died(&death);
        }
    }

    /// Makes the nodes of the actors check the actors' state again.
    pub(crate) fn tell_nodes(&self, records: &[Arc<ActorRecord>]) {
        for record in records {
            if let Some(node) = record.node.get() {
                // A node that has stopped has nothing to check.
                let _ = node.send_message(NodeMessage::Changed);
            }
        }
        self.leases.wake();
    }

    /// Removes the entries of dead actors; a lane ends with its last entry. References to an actor keep the actor's
    /// record alive.
    pub(crate) fn forget_dead(&self, records: &[Arc<ActorRecord>]) {
        for record in records {
            if matches!(record.liveness(), Liveness::Dead(_)) {
                record.leave();
                self.remove_record(record.id());
            }
        }
    }

    /// Tells every holder of a lease that the runtime shuts down, so that its programs can end.
    pub(crate) fn announce_shutdown(&self) {
        let records = self.records();
        for actors in self.leases.held() {
            let named = records.iter().find(|record| actors.contains(&record.id()));
            self.leases.died(&Death {
                actor: named.map_or_else(String::new, |record| record.name().to_owned()),
                actors,
                process: named.map_or(ProcessId::DRIVER, |record| record.process()),
                pid: None,
                exit: Exit::Shutdown,
                stderr_tail: Vec::new(),
            });
        }
    }
}
