//! Leases, as their holders use them.

use std::sync::Arc;
use std::time::Instant;

use selvedge_cluster::id_map::IdSet;

use crate::actor_record::{ActorRecord, Liveness};
use crate::actor_ref::ActorRef;
use crate::cell::ActorCell;
use crate::cell::async_driver::AsyncDriver;
use crate::cell::guarded::Guarded;
use crate::death::Death;
use crate::directory::Directory;
use crate::hub::post::Post;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::lane::mailbox::{LaneMessage, ProgramEnd};
use crate::lane::program::LoadedPrograms;
use crate::lease::correspondence::Correspondence;
use crate::lease::error::LeaseError;
use crate::lease::loading::Loading;
use crate::lease::table::{LeaseId, NotStarted, Obstacle, Unit};
use crate::promise::promise;
use crate::reference::edge::{EdgePeers, EdgeReferences};
use crate::runtime::Runtime;
use crate::worker::link::{LinkLost, Response};
use crate::worker::protocol::ToWorker;
use crate::worker::record::WorkerRecord;

/// The right to run programs on the lanes of some actors. Its drop releases every lane whose program has ended, and
/// each of the others when its program ends.
pub struct Lease {
    id: LeaseId,
    records: Vec<Arc<ActorRecord>>,
    runtime: Runtime,
}

impl Runtime {
    /// Leases the lanes of `actors` to `holder`: all of them or none. Waits until `deadline` for a lease that is
    /// [`Lease::ending`], and for an actor that restarts.
    ///
    /// # Errors
    /// [`LeaseError`] that names the first actor in the way.
    pub fn lease(&self, holder: &str, actors: &[ActorRef], deadline: Instant) -> Result<Lease, LeaseError> {
        let directory = &self.inner().directory;
        let mut records: Vec<Arc<ActorRecord>> = Vec::with_capacity(actors.len());
        for actor in actors {
            if !actor.same_runtime(self) {
                return Err(LeaseError::Foreign {
                    actor: actor.name().to_owned(),
                });
            }
            records.push(Arc::clone(actor.record()));
        }
        loop {
            living(directory, &records, deadline)?;
            let ids: IdSet<ActorId> = records.iter().map(|record| record.id()).collect();
            let units: IdSet<Unit> = records.iter().map(|record| unit(record)).collect();
            let id = directory
                .leases
                .take(holder, &units, &ids, deadline)
                .map_err(|obstacle| in_the_way(obstacle, &records))?;
            // An actor may have died between the two checks; the lease would not be told of that death.
            if records.iter().all(|record| record.liveness() == Liveness::Alive) {
                return Ok(Lease {
                    id,
                    records,
                    runtime: self.clone(),
                });
            }
            directory.leases.release(id);
        }
    }
}

fn unit(record: &ActorRecord) -> Unit {
    match record.home.inline_cell() {
        Some(_) => Unit::Inline(record.id()),
        None => Unit::Lane(record.lane()),
    }
}

/// Waits until no actor restarts. Returns an error if an actor restarts still or is dead.
fn living(directory: &Directory, records: &[Arc<ActorRecord>], deadline: Instant) -> Result<(), LeaseError> {
    if directory.is_closed() {
        return Err(LeaseError::Shutdown);
    }
    let restarting = || {
        records
            .iter()
            .find(|record| record.liveness() == Liveness::Restarting)
    };
    // An actor of a runtime that was shut down restarts no more.
    let is_decided = || restarting().is_none() || directory.is_closed();
    let decided = directory.leases.wait(deadline, is_decided);
    if directory.is_closed() {
        return Err(LeaseError::Shutdown);
    }
    if !decided && let Some(record) = restarting() {
        return Err(LeaseError::Restarting {
            actor: record.name().to_owned(),
        });
    }
    for record in records {
        if let Liveness::Dead(mut death) = record.liveness() {
            // Several actors may have died at once; the error names the one that was asked for.
            death.actor = record.name().to_owned();
            return Err(LeaseError::Dead(death));
        }
    }
    Ok(())
}

fn in_the_way(obstacle: Obstacle, records: &[Arc<ActorRecord>]) -> LeaseError {
    let name = |asked: Unit| {
        let found = records.iter().find(|record| unit(record) == asked);
        found.map_or_else(String::new, |record| record.name().to_owned())
    };
    match obstacle {
        Obstacle::Held { unit, holder } | Obstacle::Ending { unit, holder } => LeaseError::Busy {
            actor: name(unit),
            holder,
        },
        Obstacle::Lost { unit } => LeaseError::Stuck { actor: name(unit) },
    }
}

fn not_started(refusal: NotStarted) -> LeaseError {
    match refusal {
        NotStarted::NotHeld(lane) => LeaseError::UnknownLane { lane },
        NotStarted::Running(lane) => LeaseError::Running { lane },
    }
}

impl Lease {
    fn directory(&self) -> &Arc<Directory> {
        &self.runtime.inner().directory
    }

    /// The runtime of the actors.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Starts programs on lanes of this process.
    ///
    /// # Errors
    /// [`LeaseError::UnknownLane`] and [`LeaseError::Running`]; no program has been started then.
    pub fn start_local(&self, programs: LoadedPrograms) -> Result<(), LeaseError> {
        let lanes: Vec<LaneId> = programs.iter().map(|(lane, _)| *lane).collect();
        self.directory()
            .leases
            .start(self.id, &lanes)
            .map_err(not_started)?;
        for (id, program) in programs {
            let directory = Arc::clone(self.directory());
            let end = ProgramEnd::new(move |panic| directory.leases.ended(&[id], panic.as_deref()));
            if let Some(lane) = self.directory().lane(id) {
                // A lane that refuses the program has ended. The drop of the program reports that.
                drop(lane.push(LaneMessage::Run(program, end)));
            }
        }
        Ok(())
    }

    /// Makes a worker load and start its programs. Does not wait for the worker, so that several workers can load at once.
    ///
    /// # Errors
    /// [`LeaseError::Dead`] and [`LeaseError::Restarting`] if the worker has no process; its death is then waited for
    /// until `deadline`. [`LeaseError::UnknownProcess`] if the lease holds no actor of the worker.
    pub fn load_worker(
        &self,
        process: ProcessId,
        kind: &str,
        bytes: Vec<u8>,
        deadline: Instant,
    ) -> Result<Loading, LeaseError> {
        let worker = self
            .worker(process)
            .ok_or(LeaseError::UnknownProcess { process })?;
        let name = worker.process_name();
        let Some(link) = worker.link() else {
            return Err(self.gone(&worker, deadline));
        };
        let (reply, answer) = promise();
        let directory = Arc::clone(self.directory());
        let kind = kind.to_owned();
        // From here on a program may start, even if the answer comes too late for this call.
        let reserved = directory
            .leases
            .reserve(self.id, process, &self.lanes_in(process));
        let on_response = move |response: Result<Response, LinkLost>| {
            // This runs on the thread that reads the link, so before that thread can read that a program has ended.
            let started: &[LaneId] = match &response {
                Ok(Response::Loaded(Ok(lanes))) => lanes,
                _ => &[],
            };
            let idle: Vec<LaneId> = reserved
                .into_iter()
                .filter(|lane| !started.contains(lane))
                .collect();
            directory.leases.ended(&idle, None);
            reply.keep(response);
        };
        link.request(
            move |request| ToWorker::Load { request, kind },
            bytes,
            Box::new(on_response),
        );
        Ok(Loading { worker: name, answer })
    }

    /// Returns the reason that a worker has no process: the death of its actors, which is recorded soon after the
    /// process has ended.
    fn gone(&self, worker: &WorkerRecord, deadline: Instant) -> LeaseError {
        let there = |record: &&Arc<ActorRecord>| record.process() == worker.id();
        let records: Vec<Arc<ActorRecord>> = self.records.iter().filter(there).cloned().collect();
        let directory = self.directory();
        directory.leases.wait(deadline, || {
            records.iter().any(|record| record.liveness() != Liveness::Alive) || directory.is_closed()
        });
        living(directory, &records, deadline)
            .err()
            .unwrap_or_else(|| LeaseError::Refused {
                worker: worker.process_name(),
                reason: worker.why_gone(),
            })
    }

    fn lanes_in(&self, process: ProcessId) -> Vec<LaneId> {
        let there = self.records.iter().filter(|record| record.process() == process);
        there.map(|record| record.lane()).collect()
    }

    /// The references of this process, for the edges of a graph on the actors.
    #[doc(hidden)] // for the compiler
    #[must_use]
    pub fn edge_references(&self) -> EdgeReferences {
        let references = &self.runtime.remote().references;
        let workers = self.records.iter().filter_map(|record| record.home.worker());
        let peers = workers.filter_map(|worker| Some((worker.id(), worker.peer()?)));
        let driver = (ProcessId::DRIVER, self.directory().hub.me());
        EdgeReferences::new(references, EdgePeers::of(peers.chain([driver])))
    }

    /// Begins a correspondence between these processes, which are the driver and workers of the lease.
    #[doc(hidden)] // for the compiler
    #[must_use]
    pub fn correspondence(&self, peers: EdgePeers) -> Correspondence {
        Correspondence::begin(&self.runtime, peers)
    }

    fn worker(&self, process: ProcessId) -> Option<Arc<WorkerRecord>> {
        let mut workers = self.records.iter().filter_map(|record| record.home.worker());
        workers.find(|worker| worker.id() == process).cloned()
    }

    /// Calls `watcher` for every death that concerns the lease, on the thread that detects the death. Deaths since the
    /// lease was granted are reported at once.
    pub fn on_death(&self, watcher: Box<dyn Fn(&Death) + Send + Sync>) {
        self.directory().leases.watch(self.id, Arc::from(watcher));
    }

    /// Calls `watcher` when a program of the lease ends before [`ending`](Self::ending) is called. The call comes on
    /// the lane's own thread, or on the thread that reads the worker's link. Check once after this call, because
    /// earlier ends are not reported.
    pub fn on_end(&self, watcher: Box<dyn Fn() + Send + Sync>) {
        self.directory().leases.watch_ends(self.id, Arc::from(watcher));
    }

    /// The inline actors of the lease.
    #[must_use]
    pub fn inline_actors(&self) -> Vec<(ActorId, Arc<Guarded<ActorCell>>)> {
        let inline = |record: &Arc<ActorRecord>| {
            let cell = record.home.inline_cell()?;
            Some((record.id(), Arc::clone(cell)))
        };
        self.records.iter().filter_map(inline).collect()
    }

    /// The driver of the runtime's inline actors, on whose tokio runtime their async constructors have run.
    #[must_use]
    pub fn inline_driver(&self) -> AsyncDriver {
        self.directory().inline_driver()
    }

    /// Announces that the holder is about to release the lease: lanes without a program are free now, the others when
    /// their programs end.
    pub fn ending(&self) {
        self.directory().leases.ending(self.id);
    }

    /// Makes async methods that the lease's programs await ask again whether they are wanted, in this process and in
    /// workers. Never blocks.
    pub fn wake_async(&self) {
        let mut told = IdSet::new();
        for record in &self.records {
            if told.insert(record.home.address()) {
                record.home.wake_async();
            }
        }
    }

    /// The lane of this process on whose thread the caller is, if the lease has an actor there.
    #[must_use]
    pub fn own_lane(&self) -> Option<LaneId> {
        let directory = self.directory();
        let is_own = |lane: &LaneId| directory.lane(*lane).is_some_and(|thread| thread.is_own());
        self.records.iter().map(|record| record.lane()).find(is_own)
    }

    /// Waits until no program runs, at most until `deadline`; returns the lanes that still run one. The caller's own lane is not
    /// waited for: its program ends when the caller's method has returned, and the lane is free then (LEASE-3).
    #[must_use]
    pub fn join(&self, deadline: Instant) -> Vec<LaneId> {
        self.directory().leases.join(self.id, self.own_lane(), deadline)
    }

    /// Returns the panics that ended programs of the lease, by lane.
    #[must_use]
    pub fn panics(&self) -> Vec<(LaneId, String)> {
        self.directory().leases.panics(self.id)
    }

    /// Abandons lanes: worker processes among them are killed, and threads of this process are lost with their actors.
    pub fn kill(&self, lanes: &[LaneId]) {
        let directory = self.directory();
        let is_on = |record: &&Arc<ActorRecord>| lanes.contains(&record.lane());
        for record in self.records.iter().filter(is_on) {
            record
                .home
                .kill("a graph was ended, and one of its methods did not return in time");
        }
        for lane in lanes {
            let Some(thread) = directory.lane(*lane) else {
                continue;
            };
            directory.leases.lose(*lane);
            directory.end_actors(
                &directory.records_on(*lane),
                "its thread never came back from a program",
            );
            // Done last: the calls that wait there are dropped, and their callers then read how the actors ended.
            thread.abandon();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.directory().leases.release(self.id);
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.records.iter().map(|record| record.name()).collect();
        f.debug_struct("Lease")
            .field("actors", &names)
            .finish_non_exhaustive()
    }
}
