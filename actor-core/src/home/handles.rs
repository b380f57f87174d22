//! Handles to lanes and workers, for code that spawns actors. A lane or a worker ends with its last handle and its last
//! actor.

use std::hash::{Hash, Hasher};
#[cfg(feature = "hosts")]
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::memory::made_in::MadeIn;
use selvedge_cluster::peer;

use crate::actor_record::ActorRecord;
use crate::control::supervisor_message::SupervisorMessage;
use crate::deadline::deadline_after;
use crate::death::WORKER_ENDED;
use crate::directory::Directory;
use crate::home::Home;
use crate::home::keep::{LaneHome, LaneKeep};
use crate::home::thread::ThreadLane;
use crate::home::worker::{WorkerKeep, WorkerLane};
use crate::id::{HostId, LaneId, ProcessId};
use crate::lane::thread::LaneThread;
use crate::process_name::{NameBook, ProcessName};
use crate::promise::{Answer, promise};
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;
use crate::worker::launch::{Launcher, LocalLauncher, NotAllowed};
use crate::worker::record::WorkerRecord;

/// The time by which the control thread may be late.
const CONTROL_GRACE: Duration = Duration::from_secs(5);
/// The time that a killed worker may take to be gone.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// The reason that a lane or a worker did not end as requested.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// The lane's thread did not end in time; it is left behind.
    #[error(
        "lane `{lane}` did not end within {grace:?}, for a method or a graph still runs there; its thread is left behind"
    )]
    Stuck {
        /// The lane's name.
        lane: String,
        /// The time that was allowed.
        grace: Duration,
    },
    /// The worker, which has dialled in, did not end in time. Its link was cut, and it is not let in again; its process may live on.
    #[error(
        "{worker} did not end within {grace:?}, and its link was cut: it has dialled in, so its process can be killed only where it runs"
    )]
    CutOff {
        /// The worker.
        worker: ProcessName,
        /// The time that was allowed.
        grace: Duration,
    },
    /// The worker did not end in time, and was killed.
    #[error("{worker} did not end within {grace:?} and was killed")]
    Killed {
        /// The worker.
        worker: ProcessName,
        /// The time that was allowed.
        grace: Duration,
    },
}

selvedge_channels::debug_is_report!(EndError);

impl Runtime {
    /// Creates a lane of this process, a thread that several actors may share. The thread starts with the lane's first
    /// actor.
    pub fn lane(&self, name: impl Into<String>) -> Lane {
        Lane::new(self, name.into(), ThreadLane::default())
    }

    /// The worker processes of this runtime that live, in the order of their numbers. The handles keep them alive.
    #[must_use]
    pub fn workers(&self) -> Vec<Worker> {
        let keeps = self.inner().directory.workers().into_iter();
        let living = keeps.filter(|keep| keep.record.peer().is_some() && !keep.record.is_told_to_end());
        let runtime = self.clone();
        living
            .map(|keep| Worker {
                keep,
                runtime: runtime.clone(),
            })
            .collect()
    }

    /// The number of this process among the processes of the runtime: 1 in the process that made the runtime.
    #[must_use]
    pub fn process(&self) -> peer::ProcessId {
        self.remote().me()
    }

    /// Starts a worker process that several actors may share.
    ///
    /// # Errors
    /// [`SpawnError`] if the process cannot be started or does not say hello.
    pub fn worker(&self, name: impl Into<String>) -> Result<Worker, SpawnError> {
        self.start_worker(&name.into(), Vec::new())
    }

    pub(crate) fn start_worker(&self, name: &str, env: Vec<(String, String)>) -> Result<Worker, SpawnError> {
        let launcher = Arc::new(LocalLauncher::new()?);
        self.begin_worker(name, env, launcher)?.wait()
    }

    /// Begins to start a worker.
    pub(crate) fn begin_worker(
        &self,
        name: &str,
        env: Vec<(String, String)>,
        launcher: Arc<dyn Launcher>,
    ) -> Result<StartingWorker, SpawnError> {
        if self.remote().is_job() {
            return Err(NotAllowed::IsJob.into());
        }
        #[cfg_attr(
            not(feature = "hosts"),
            expect(unused_mut, reason = "only managers change it")
        )]
        let mut record = WorkerRecord::new(ProcessId::next(), name, env);
        #[cfg(feature = "hosts")]
        {
            record.place = launcher.place().map(Into::into);
            record.is_guest = launcher.guests().is_some();
        }
        let record = Arc::new(record);
        let (reply, started) = promise();
        let limit = launcher.time_limit(self.inner().directory.limits().hello);
        let message = SupervisorMessage::AddWorker {
            record: Arc::clone(&record),
            launcher,
            reply,
        };
        if !self.inner().control()?.send(message) {
            return Err(SpawnError::Shutdown);
        }
        NameBook::of_all_runtimes().note(record.process_name());
        let worker = Worker::new(self, record);
        Ok(StartingWorker {
            worker,
            started,
            limit,
        })
    }
}

/// A worker that is being started. The drop ends a process that starts late.
pub(crate) struct StartingWorker {
    worker: Worker,
    started: Answer<Result<(), SpawnError>>,
    /// The time limit of the start.
    limit: Duration,
}

impl StartingWorker {
    /// Waits until the worker has joined.
    pub(crate) fn wait(mut self) -> Result<Worker, SpawnError> {
        // The start has its own time limit. This deadline is for a control thread that a user-defined waker or watcher
        // holds up.
        let deadline = self
            .limit
            .checked_mul(2)
            .and_then(|limit| Instant::now().checked_add(limit + CONTROL_GRACE));
        match self.started.wait(deadline) {
            Some(started) => started.unwrap_or(Err(SpawnError::Shutdown))?,
            None => {
                let reason =
                    "the control thread is held up, by a waker or a watcher of this program".to_owned();
                return Err(SpawnError::NoHello {
                    worker: self.worker.keep.record.process_name(),
                    reason,
                    stderr_tail: Vec::new(),
                });
            }
        }
        Ok(self.worker)
    }
}

/// A thread that several actors may share; a hop between them is a function call. The lane ends with its last handle
/// and its last actor, or by [`Lane::end`].
#[derive(Clone)]
pub struct Lane {
    keep: Arc<LaneKeep>,
    runtime: Runtime,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Whether both are handles to one lane.
impl PartialEq for Lane {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Lane {}

impl Hash for Lane {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl Lane {
    fn new(runtime: &Runtime, name: String, home: impl LaneHome + 'static) -> Self {
        Lane {
            keep: Arc::new(LaneKeep::new(name, home)),
            runtime: runtime.clone(),
        }
    }

    /// The lane's number.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.keep.id
    }

    /// The lane's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.keep.name
    }

    /// The worker of the lane, as errors name it; `None` for a lane of this process.
    pub(crate) fn worker(&self) -> Option<ProcessName> {
        self.keep.home.worker().map(|worker| worker.process_name())
    }

    pub(crate) fn belongs_to(&self, runtime: &Runtime) -> bool {
        std::ptr::eq(self.runtime.inner(), runtime.inner())
    }

    /// Ends the lane for good: its actors die, and its thread ends within `grace`.
    ///
    /// # Errors
    /// [`EndError::Stuck`] if a method or a graph still runs there; the actors are dead nevertheless.
    pub fn end(&self, grace: Duration) -> Result<(), EndError> {
        let deadline = deadline_after(grace);
        self.keep.set_ended();
        let directory = &self.runtime.inner().directory;
        end_for_good(directory, &directory.records_on(self.id()), "its lane was ended");
        if self.keep.home.end(self.id(), deadline) {
            return Ok(());
        }
        Err(EndError::Stuck {
            lane: self.name().to_owned(),
            grace,
        })
    }

    /// Returns the home of an actor on this lane, and the shared object that keeps the lane alive for the actor.
    pub(crate) fn home(&self) -> Result<(Box<dyn Home>, Arc<LaneKeep>), SpawnError> {
        let home = self.keep.home.actor_home(&self.keep, &|| self.start_thread())?;
        Ok((home, Arc::clone(&self.keep)))
    }

    /// Starts the lane's thread in this process.
    fn start_thread(&self) -> Result<Arc<LaneThread>, SpawnError> {
        let inner = self.runtime.inner();
        let _one_at_a_time = inner.starting.lock();
        if inner.directory.is_closed() {
            return Err(SpawnError::Shutdown);
        }
        let current = self.runtime.remote().current_of_actors();
        let started =
            LaneThread::start(self.id(), self.name(), Some(current)).map_err(SpawnError::Control)?;
        inner.directory.add_lane(&started);
        Ok(started)
    }
}

/// Ends actors for good, without a restart.
fn end_for_good(directory: &Directory, records: &[Arc<ActorRecord>], why: &str) {
    records.iter().for_each(|record| record.retire());
    directory.end_actors(records, why);
}

/// A worker process that several actors may share. The process ends with its last handle and its last actor, or by
/// [`Worker::end`].
#[derive(Clone)]
pub struct Worker {
    keep: Arc<WorkerKeep>,
    runtime: Runtime,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.name())
            .field("pid", &self.pid())
            .finish()
    }
}

/// Whether both are handles to one worker.
impl PartialEq for Worker {
    fn eq(&self, other: &Self) -> bool {
        self.process() == other.process()
    }
}

impl Eq for Worker {}

impl Hash for Worker {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.process().hash(state);
    }
}

impl Worker {
    pub(crate) fn new(runtime: &Runtime, record: Arc<WorkerRecord>) -> Self {
        let keep = Arc::new(WorkerKeep {
            record,
            made_in: MadeIn::here(),
        });
        runtime.inner().directory.add_worker(&keep);
        let runtime = runtime.clone();
        Worker { keep, runtime }
    }

    /// The worker's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.keep.record.name()
    }

    /// The pid of the worker's process; `None` while no process runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.keep.record.pid()
    }

    /// The runtime of the worker.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Whether the worker belongs to `runtime`.
    #[must_use]
    pub fn same_runtime(&self, runtime: &Runtime) -> bool {
        Arc::ptr_eq(&self.runtime.inner().directory, &runtime.inner().directory)
    }

    /// The number of the worker's process among the processes of the runtime, from 2. A worker that is started again keeps it,
    /// and no other worker gets it.
    #[must_use]
    pub fn process(&self) -> peer::ProcessId {
        self.keep.record.id().among_peers()
    }

    /// The host of the worker's process. Workers with equal hosts can share memory.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.keep.record.host()
    }

    /// The logical cores that the worker may use, as it has said when it joined; 1 for a child.
    #[cfg(feature = "hosts")]
    pub(crate) fn cores(&self) -> NonZeroUsize {
        let machine = self.keep.record.machine();
        machine.map_or(NonZeroUsize::MIN, |machine| machine.cores)
    }

    /// Creates a lane of this worker, a thread that several actors may share.
    pub fn lane(&self, name: impl Into<String>) -> Lane {
        Lane::new(&self.runtime, name.into(), WorkerLane(Arc::clone(&self.keep)))
    }

    /// Interrupts the remote functions that run in the worker or wait there to run, whoever has called them, and returns at once. An
    /// `async fn` is dropped where it awaits, and its caller gets the error of an interrupted function. Any other function runs until it
    /// ends: it learns of the interruption by [`cancellation`](crate::cancellation), and from the calls and values that it waits for. Calls
    /// that are made later, actors and graphs are not concerned.
    pub fn interrupt(&self) {
        self.keep.record.interrupt();
    }

    /// Ends the worker for good: its actors die, its remote functions are [interrupted](Self::interrupt), and its process ends within
    /// `grace` or is killed. Functions that have not begun are lost with the process. From now on, calls that name no process go to others.
    ///
    /// # Errors
    /// [`EndError::Killed`] if the process did not end by itself and was killed; [`EndError::CutOff`] if it has dialled in.
    pub fn end(&self, grace: Duration) -> Result<(), EndError> {
        let deadline = deadline_after(grace);
        let record = &self.keep.record;
        let directory = &self.runtime.inner().directory;
        end_for_good(directory, &directory.records_in(record.id()), WORKER_ENDED);
        record.leave(deadline);
        directory
            .leases
            .wait(deadline + KILL_GRACE, || record.over().is_some());
        match record.over() {
            Some(false) => Ok(()),
            Some(true) | None => {
                let worker = self.process_name();
                Err(match record.is_guest() {
                    true => EndError::CutOff { worker, grace },
                    false => EndError::Killed { worker, grace },
                })
            }
        }
    }

    /// The worker, as errors name it.
    pub(crate) fn process_name(&self) -> ProcessName {
        self.keep.record.process_name()
    }

    pub(crate) fn kill(&self) {
        self.keep.record.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Blueprint;
    use crate::home::placement::Restart;

    #[test]
    fn an_actor_whose_lane_was_ended_while_it_was_spawned_is_not_spawned() {
        let runtime = Runtime::new();
        let lane = runtime.lane("l");
        let home = lane.home().unwrap();
        assert_eq!(lane.end(Duration::MAX), Ok(()));
        let spawned = runtime
            .inner()
            .spawn_at(Blueprint::of_nothing("a"), home, Restart::Never);
        assert!(matches!(spawned, Err(SpawnError::Ended { .. })), "{spawned:?}");
        assert!(runtime.actors().is_empty());
    }
}
