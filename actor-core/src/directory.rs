//! Who exists in a runtime: actors, lanes, workers, by number; and who must hear when one of them dies.
//!
//! Written by the threads that spawn and by the control thread, read by all. Nothing here is on the path of a
//! running program.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::control::actor_node::NodeMessage;
use crate::death::{Death, Exit};
use crate::id::{ActorId, LaneId, ProcessId};
use crate::lane::thread::LaneThread;
use crate::lease::desk::LeaseDesk;
use crate::places::LaneKeep;
use crate::resident::{Resident, Vital};

#[derive(Default)]
struct Entries {
    /// Each with what keeps its lane.
    residents: BTreeMap<ActorId, (Arc<Resident>, Option<Arc<LaneKeep>>)>,
    lanes: BTreeMap<LaneId, Arc<LaneThread>>,
}

/// How long things may take in a runtime.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// A new process until it speaks.
    pub(crate) hello: Duration,
    /// An actor's constructor.
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
    pub(crate) leases: LeaseDesk,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::new(Entries::default()),
            closed: AtomicBool::new(false),
            limits: Mutex::new(Limits::default()),
            leases: LeaseDesk::default(),
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
        // SYNC directory-closed, acquire side.
        self.closed.load(Ordering::Acquire)
    }

    /// Closes; `false` when it was closed before.
    pub(crate) fn close(&self) -> bool {
        // SYNC directory-closed, release side.
        let first = !self.closed.swap(true, Ordering::AcqRel);
        self.leases.wake();
        first
    }

    pub(crate) fn add_resident(&self, resident: &Arc<Resident>, keep: Option<Arc<LaneKeep>>) {
        let entry = (Arc::clone(resident), keep);
        self.entries.lock().residents.insert(resident.id(), entry);
    }

    /// What keeps an actor's lane; `None` where the actor is not known any more, or has no lane.
    pub(crate) fn keep_of(&self, id: ActorId) -> Option<Weak<LaneKeep>> {
        let entries = self.entries.lock();
        let (_, keep) = entries.residents.get(&id)?;
        keep.as_ref().map(Arc::downgrade)
    }

    pub(crate) fn remove_resident(&self, id: ActorId) {
        let removed = self.entries.lock().residents.remove(&id);
        // Outside the lock: the lane may end with it.
        drop(removed);
    }

    /// Adds a lane; lanes whose thread is gone meanwhile are forgotten.
    pub(crate) fn add_lane(&self, lane: &Arc<LaneThread>) {
        let mut entries = self.entries.lock();
        // Nothing is waited for under the lock: a thread that ends may look something up here.
        entries.lanes.retain(|_, old| !old.is_gone());
        entries.lanes.insert(lane.id(), Arc::clone(lane));
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<LaneThread>> {
        self.entries.lock().lanes.values().cloned().collect()
    }

    pub(crate) fn lane(&self, id: LaneId) -> Option<Arc<LaneThread>> {
        self.entries.lock().lanes.get(&id).cloned()
    }

    /// All actors, by number.
    pub(crate) fn residents(&self) -> Vec<Arc<Resident>> {
        self.residents_where(|_| true)
    }

    pub(crate) fn residents_in(&self, process: ProcessId) -> Vec<Arc<Resident>> {
        self.residents_where(|resident| resident.process() == process)
    }

    pub(crate) fn residents_on(&self, lane: LaneId) -> Vec<Arc<Resident>> {
        self.residents_where(|resident| resident.lane() == lane)
    }

    fn residents_where(&self, is_meant: impl Fn(&Resident) -> bool) -> Vec<Arc<Resident>> {
        let entries = self.entries.lock();
        let residents = entries.residents.values().map(|(resident, _)| resident);
        residents.filter(|resident| is_meant(resident)).cloned().collect()
    }

    /// A worker process has died. Everything that follows at once, on the calling thread: the actors' state, the
    /// watchers, the end of their programs. The rest (restart, nodes) is the worker node's. In a runtime that ends,
    /// workers end because they were told to, and nobody has died.
    pub(crate) fn process_died(&self, process: ProcessId, death: &Death) {
        let residents = self.residents_in(process);
        if !self.is_closed() {
            for resident in &residents {
                resident.note_death(death, true);
            }
            self.leases.died(death);
        }
        // Not by its actors: those of a worker that was ended are not listed any more.
        self.leases.ended_with(process);
    }

    /// Ends actors for good: their state, the watchers, their nodes. `why`, in words.
    pub(crate) fn end_actors(&self, residents: &[Arc<Resident>], why: &str) {
        self.note_deaths(residents, why, false);
        self.tell_nodes(residents);
        self.forget_dead(residents);
    }

    /// Notes a death of actors that no process explains, with the watchers; `why`, in words.
    pub(crate) fn note_deaths(&self, residents: &[Arc<Resident>], why: &str, may_restart: bool) {
        let alive: Vec<_> = residents
            .iter()
            .filter(|resident| !matches!(resident.vital(), Vital::Dead(_)))
            .collect();
        let Some(first) = alive.first() else { return };
        let death = Death {
            actor: first.name().to_owned(),
            actors: alive.iter().map(|resident| resident.id()).collect(),
            process: first.process(),
            pid: None,
            exit: Exit::Ended(why.to_owned()),
            stderr_tail: Vec::new(),
        };
        for resident in &alive {
            resident.note_death(&death, may_restart);
        }
        // Whoever restarts still has been mourned when its process died.
        if alive
            .iter()
            .any(|resident| matches!(resident.vital(), Vital::Dead(_)))
        {
            self.leases.died(&death);
        }
    }

    /// Has the actors' nodes look at their actors again.
    pub(crate) fn tell_nodes(&self, residents: &[Arc<Resident>]) {
        for resident in residents {
            if let Some(node) = resident.node.get() {
                // A node that has stopped has nothing to look at.
                let _ = node.send_message(NodeMessage::Changed);
            }
        }
        self.leases.wake();
    }

    /// Drops the entries of those that will not come back, and with the last one of a lane the lane; references keep their own.
    pub(crate) fn forget_dead(&self, residents: &[Arc<Resident>]) {
        for resident in residents {
            if matches!(resident.vital(), Vital::Dead(_)) {
                resident.leave();
                self.remove_resident(resident.id());
            }
        }
    }

    /// Tells every holder of a lease that the runtime shuts down, so that their programs can end.
    pub(crate) fn announce_shutdown(&self) {
        let residents = self.residents();
        for actors in self.leases.held() {
            let named = residents.iter().find(|resident| actors.contains(&resident.id()));
            self.leases.died(&Death {
                actor: named.map_or_else(String::new, |resident| resident.name().to_owned()),
                actors,
                process: named.map_or(ProcessId::DRIVER, |resident| resident.process()),
                pid: None,
                exit: Exit::Shutdown,
                stderr_tail: Vec::new(),
            });
        }
    }
}
