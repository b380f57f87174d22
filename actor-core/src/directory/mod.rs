//! The directory of a runtime: actors and lanes by number, time limits, and the leases.
//!
//! The threads that spawn and the control thread write to the directory; all threads read it. A running program does
//! not use it.
//!
//! `deaths` is the announcement of deaths, to actors' records, watchers and nodes.

mod deaths;

#[cfg(feature = "hosts")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
#[cfg(feature = "hosts")]
use std::time::Instant;

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::{Incarnation, Peer};

use crate::actor_record::ActorRecord;
use crate::cell::async_driver::AsyncDriver;
#[cfg(feature = "hosts")]
use crate::head_log::{HeadLog, HeadRecord};
use crate::home::keep::LaneKeep;
use crate::home::worker::WorkerKeep;
#[cfg(feature = "hosts")]
use crate::hosts::agreement::Agreement;
#[cfg(feature = "hosts")]
use crate::hosts::managing::Managing;
#[cfg(feature = "hosts")]
use crate::hosts::rejoin_terms::RejoinTerms;
use crate::hub::{Hub, LinkSettings};
use crate::id::{ActorId, LaneId, ProcessId};
use crate::lane::thread::LaneThread;
use crate::lease::manager::LeaseManager;
use crate::process_end::ProcessEnd;
#[cfg(feature = "hosts")]
use crate::worker::letters::WordsOfWorkers;
use crate::worker::record::WorkerRecord;

/// The log of a head, and the terms on which guests outlive it.
#[cfg(feature = "hosts")]
pub(crate) struct Keeping {
    pub(crate) log: Arc<HeadLog>,
    pub(crate) terms: RejoinTerms,
}

#[derive(Default)]
struct Entries {
    /// The actors, each with the shared object that keeps its lane alive.
    records: IdMap<ActorId, (Arc<ActorRecord>, Option<Arc<LaneKeep>>)>,
    lanes: IdMap<LaneId, Arc<LaneThread>>,
    workers: IdMap<ProcessId, Weak<WorkerKeep>>,
}

pub(crate) struct Directory {
    entries: Mutex<Entries>,
    closed: AtomicBool,
    limits: Mutex<TimeLimits>,
    pub(crate) leases: LeaseManager,
    pub(crate) hub: Arc<Hub>,
    /// The words of workers on other hosts.
    #[cfg(feature = "hosts")]
    pub(crate) words: Arc<WordsOfWorkers>,
    /// The agreement of all managers of workers.
    #[cfg(feature = "hosts")]
    pub(crate) agreement: Agreement,
    /// The managers of workers.
    #[cfg(feature = "hosts")]
    managers: Mutex<Vec<Weak<Managing>>>,
    /// The processes that the doors have let in.
    #[cfg(feature = "hosts")]
    let_in: Mutex<IdMap<ProcessId, Weak<WorkerRecord>>>,
    /// The log of a process that is only a head.
    #[cfg(feature = "hosts")]
    pub(crate) keeping: OnceLock<Keeping>,
    inline: AsyncDriver,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self::of_life(Incarnation(1))
    }

    /// The directory of a driver in this life of it.
    pub(crate) fn of_life(incarnation: Incarnation) -> Self {
        let hub = Hub::of_life(incarnation, LinkSettings::default());
        #[cfg(feature = "hosts")]
        let words = WordsOfWorkers::register(&hub);
        Self {
            entries: Mutex::new(Entries::default()),
            closed: AtomicBool::new(false),
            limits: Mutex::new(TimeLimits::default()),
            leases: LeaseManager::default(),
            hub,
            #[cfg(feature = "hosts")]
            words,
            #[cfg(feature = "hosts")]
            agreement: Agreement::default(),
            #[cfg(feature = "hosts")]
            managers: Mutex::default(),
            #[cfg(feature = "hosts")]
            let_in: Mutex::default(),
            #[cfg(feature = "hosts")]
            keeping: OnceLock::new(),
            inline: AsyncDriver::new(),
        }
    }

    /// The driver of the inline actors.
    pub(crate) fn inline_driver(&self) -> AsyncDriver {
        self.inline.clone()
    }

    pub(crate) fn limits(&self) -> TimeLimits {
        *self.limits.lock()
    }

    pub(crate) fn set_limits(&self, set: impl FnOnce(&mut TimeLimits)) {
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

    /// Notes a manager, and forgets those whose workers have all ended.
    #[cfg(feature = "hosts")]
    pub(crate) fn note_manager(&self, managing: &Arc<Managing>) {
        let mut managers = self.managers.lock();
        managers.retain(|manager| manager.strong_count() > 0);
        managers.push(Arc::downgrade(managing));
    }

    /// Waits until the managers were told everything.
    #[cfg(feature = "hosts")]
    pub(crate) fn wait_for_managers(&self, deadline: Instant) {
        let managers = self.managers.lock().clone();
        let managers = managers.iter().filter_map(Weak::upgrade);
        managers.for_each(|manager| manager.wait(deadline));
    }

    /// Notes a process that a door lets in, and forgets those that have ended.
    #[cfg(feature = "hosts")]
    pub(crate) fn note_let_in(&self, record: &Arc<WorkerRecord>) {
        let mut let_in = self.let_in.lock();
        let_in.retain(|_, record| record.strong_count() > 0);
        let_in.insert(record.id(), Arc::downgrade(record));
    }

    /// The processes that doors have let in and that have not ended, in the order of their numbers.
    pub(crate) fn let_in(&self) -> Vec<Arc<WorkerRecord>> {
        #[cfg(feature = "hosts")]
        return self.let_in.lock().values().filter_map(Weak::upgrade).collect();
        #[cfg(not(feature = "hosts"))]
        Vec::new()
    }

    /// A process has ended: all are told. A head with a log logs that before.
    #[cfg_attr(
        not(feature = "hosts"),
        expect(clippy::unused_async, reason = "only heads have a log")
    )]
    pub(crate) async fn bury(&self, peer: Peer, end: ProcessEnd) {
        #[cfg(feature = "hosts")]
        self.log_death(peer).await;
        self.hub.buried(peer, end);
    }

    /// Logs that a member is dead, before anybody is told, if this is a head with a log.
    #[cfg(feature = "hosts")]
    pub(crate) async fn log_death(&self, peer: Peer) {
        if let Some(keeping) = self.keeping.get() {
            // A head whose log cannot be written ends, and all of its members with it.
            let _ = keeping.log.note(HeadRecord::Died(peer)).await;
        }
    }

    /// Adds a worker, and forgets those that nobody keeps.
    pub(crate) fn add_worker(&self, worker: &Arc<WorkerKeep>) {
        let mut entries = self.entries.lock();
        entries.workers.retain(|_, worker| worker.strong_count() > 0);
        entries.workers.insert(worker.record.id(), Arc::downgrade(worker));
    }

    /// All workers that somebody keeps, ordered by number.
    pub(crate) fn workers(&self) -> Vec<Arc<WorkerKeep>> {
        let entries = self.entries.lock();
        entries.workers.values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<LaneThread>> {
        self.entries.lock().lanes.values().cloned().collect()
    }

    pub(crate) fn lane(&self, id: LaneId) -> Option<Arc<LaneThread>> {
        self.entries.lock().lanes.get(&id).cloned()
    }

    /// The actor with this number.
    pub(crate) fn record(&self, id: ActorId) -> Option<Arc<ActorRecord>> {
        let entries = self.entries.lock();
        entries.records.get(&id).map(|(record, _)| Arc::clone(record))
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
}

/// The time limits of a runtime.
#[derive(Clone, Copy)]
pub(crate) struct TimeLimits {
    /// The time limit for a new process to reach its program, and then to say hello.
    pub(crate) hello: Duration,
    /// The time limit for an actor's constructor.
    pub(crate) build: Duration,
    /// The time after which a process without a sign of life is killed.
    pub(crate) silence: Duration,
    /// The time for which a thread looks for bytes of a process before it sleeps; `None` lets the number of cores decide.
    pub(crate) spin: Option<Duration>,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(5),
            build: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            spin: None,
        }
    }
}
