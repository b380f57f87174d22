//! Lanes and workers as whoever spawns actors holds them. Each ends with its last handle and its last actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::MadeIn;
use crate::deadline::deadline_after;
use crate::directory::Directory;
use crate::id::LaneId;
use crate::lane::thread::LaneThread;
use crate::promise::promise;
use crate::resident::{Home, Resident};
use crate::runtime::Runtime;
use crate::spawn::SpawnError;
use crate::worker::link::OnResponse;
use crate::worker::protocol::ToWorker;
use crate::worker::record::WorkerRecord;

/// How long a worker that nobody keeps may take to end before it is killed.
const UNKEPT_GRACE: Duration = Duration::from_secs(2);
/// How long a killed worker may take to be gone.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// Why a lane or a worker did not end as it was asked to.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// The lane's thread did not come back in time; it is left behind.
    #[error(
        "lane `{lane}` did not end within {grace:?}, for a method or a graph still runs there; its thread is left behind"
    )]
    Stuck {
        /// The lane's name.
        lane: String,
        /// How long was waited.
        grace: Duration,
    },
    /// The worker did not come to an end in time, and was killed.
    #[error("worker `{worker}` did not end within {grace:?} and was killed")]
    Killed {
        /// The worker's name.
        worker: String,
        /// How long was waited.
        grace: Duration,
    },
}

selvedge_channels::debug_is_report!(EndError);

/// Where a lane runs.
pub(crate) enum LaneHome {
    /// In this process. Its thread starts with its first actor.
    Thread(Mutex<Option<Arc<LaneThread>>>),
    Worker(Arc<WorkerKeep>),
}

impl LaneHome {
    pub(crate) fn thread() -> Self {
        LaneHome::Thread(Mutex::new(None))
    }
}

/// What keeps a lane: shared by its handles and, for each of its actors, the directory.
pub(crate) struct LaneKeep {
    id: LaneId,
    name: String,
    home: LaneHome,
    ended: AtomicBool,
    made_in: MadeIn,
}

/// Asks a worker to end a lane, behind everything that it was asked before.
pub(crate) fn end_lane(worker: &WorkerRecord, lane: LaneId, on_response: OnResponse) {
    // A worker that is gone has no lanes; the response is dropped with it.
    if let Some(link) = worker.link() {
        link.request(
            |request| ToWorker::EndLane { request, lane },
            Vec::new(),
            on_response,
        );
    }
}

impl LaneKeep {
    /// An error where the lane was ended: what an actor that was built meanwhile has left in a worker ends as well.
    pub(crate) fn still_there(&self) -> Result<(), SpawnError> {
        self.not_ended().inspect_err(|_| {
            if let LaneHome::Worker(worker) = &self.home {
                end_lane(&worker.record, self.id, Box::new(|_| {}));
            }
        })
    }

    fn not_ended(&self) -> Result<(), SpawnError> {
        // SYNC lane-ended, acquire side. A thread starts under a lock that `end` takes afterwards; an actor that `end` does not
        // find was added after it had looked.
        if !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(SpawnError::Ended {
            lane: self.name.clone(),
        })
    }
}

impl Drop for LaneKeep {
    fn drop(&mut self) {
        if !self.made_in.is_here() {
            return;
        }
        match &self.home {
            LaneHome::Thread(thread) => thread.lock().iter().for_each(|thread| thread.stop()),
            LaneHome::Worker(worker) => end_lane(&worker.record, self.id, Box::new(|_| {})),
        }
    }
}

/// What keeps a worker: shared by its handles and its lanes.
pub(crate) struct WorkerKeep {
    record: Arc<WorkerRecord>,
    made_in: MadeIn,
}

impl Drop for WorkerKeep {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            self.record.end(Instant::now() + UNKEPT_GRACE);
        }
    }
}

/// A thread that several actors may share: a hop between them is a function call. It ends with its last handle and its last
/// actor, or by [`Lane::end`].
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

impl Lane {
    pub(crate) fn new(runtime: &Runtime, name: String, home: LaneHome) -> Self {
        let keep = LaneKeep {
            id: LaneId::next(),
            name,
            home,
            ended: AtomicBool::new(false),
            made_in: MadeIn::here(),
        };
        Lane {
            keep: Arc::new(keep),
            runtime: runtime.clone(),
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.keep.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.keep.name
    }

    pub(crate) fn belongs_to(&self, runtime: &Runtime) -> bool {
        std::ptr::eq(self.runtime.inner(), runtime.inner())
    }

    /// Ends the lane for good: its actors die, its thread comes to an end within `grace`.
    ///
    /// # Errors
    /// [`EndError::Stuck`] where a method or a graph still runs there; the actors are dead nevertheless.
    pub fn end(&self, grace: Duration) -> Result<(), EndError> {
        let deadline = deadline_after(grace);
        // SYNC lane-ended, release side.
        self.keep.ended.store(true, Ordering::Release);
        let directory = &self.runtime.inner().directory;
        bury(
            directory,
            &directory.residents_on(self.id()),
            "its lane was ended",
        );
        let ended = match &self.keep.home {
            LaneHome::Thread(thread) => {
                let thread = thread.lock().clone();
                thread.is_none_or(|thread| {
                    thread.stop();
                    let ended = thread.join_until(deadline);
                    if !ended {
                        thread.abandon();
                    }
                    ended
                })
            }
            LaneHome::Worker(worker) => {
                let (reply, mut answer) = promise();
                let done: OnResponse = Box::new(move |response| reply.keep(response.is_ok()));
                end_lane(&worker.record, self.id(), done);
                // An answer of any kind, and none from a worker that is gone: the lane is no more.
                answer.wait(Some(deadline)).is_some()
            }
        };
        if ended {
            return Ok(());
        }
        Err(EndError::Stuck {
            lane: self.name().to_owned(),
            grace,
        })
    }

    /// An actor's home on it, and what keeps the lane for the actor.
    pub(crate) fn home(&self) -> Result<(Home, Arc<LaneKeep>), SpawnError> {
        let home = match &self.keep.home {
            LaneHome::Thread(thread) => {
                let mut thread = thread.lock();
                self.keep.not_ended()?;
                Home::Lane(self.thread(&mut thread)?)
            }
            LaneHome::Worker(worker) => {
                self.keep.not_ended()?;
                Home::Worker {
                    worker: Arc::clone(&worker.record),
                    lane: self.id(),
                    lane_name: self.name().into(),
                }
            }
        };
        Ok((home, Arc::clone(&self.keep)))
    }

    /// Its thread, started if it does not run yet.
    fn thread(&self, thread: &mut Option<Arc<LaneThread>>) -> Result<Arc<LaneThread>, SpawnError> {
        if let Some(thread) = thread {
            return Ok(Arc::clone(thread));
        }
        let inner = self.runtime.inner();
        let _one_at_a_time = inner.starting.lock();
        if inner.directory.is_closed() {
            return Err(SpawnError::Shutdown);
        }
        let started = LaneThread::start(self.id(), self.name()).map_err(SpawnError::Control)?;
        inner.directory.add_lane(&started);
        *thread = Some(Arc::clone(&started));
        Ok(started)
    }
}

/// Ends actors for good.
fn bury(directory: &Directory, residents: &[Arc<Resident>], why: &str) {
    residents.iter().for_each(|resident| resident.retire());
    directory.end_actors(residents, why);
}

/// A worker process that several actors may share. It ends with its last handle and its last actor, or by [`Worker::end`].
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

impl Worker {
    pub(crate) fn new(runtime: &Runtime, record: Arc<WorkerRecord>) -> Self {
        Worker {
            keep: Arc::new(WorkerKeep {
                record,
                made_in: MadeIn::here(),
            }),
            runtime: runtime.clone(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.keep.record.name()
    }

    /// Its pid; `None` once it is dead.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.keep.record.pid()
    }

    /// A lane of this worker, a thread that several actors may share.
    pub fn lane(&self, name: impl Into<String>) -> Lane {
        Lane::new(
            &self.runtime,
            name.into(),
            LaneHome::Worker(Arc::clone(&self.keep)),
        )
    }

    /// Ends the worker for good: its actors die, its process comes to an end within `grace` or is killed.
    ///
    /// # Errors
    /// [`EndError::Killed`] where it had to be; it has ended nevertheless.
    pub fn end(&self, grace: Duration) -> Result<(), EndError> {
        let deadline = deadline_after(grace);
        let record = &self.keep.record;
        let directory = &self.runtime.inner().directory;
        bury(
            directory,
            &directory.residents_in(record.id()),
            "its worker was ended",
        );
        record.end(deadline);
        directory
            .leases
            .wait(deadline + KILL_GRACE, || record.over().is_some());
        match record.over() {
            Some(false) => Ok(()),
            Some(true) | None => Err(EndError::Killed {
                worker: self.name().to_owned(),
                grace,
            }),
        }
    }

    pub(crate) fn kill(&self) {
        self.keep.record.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Restart;
    use crate::cell::Blueprint;

    #[test]
    fn an_actor_whose_lane_was_ended_while_it_was_spawned_is_not_spawned() {
        let runtime = Runtime::new();
        let lane = runtime.lane("l");
        let home = lane.home().unwrap();
        assert_eq!(lane.end(Duration::MAX), Ok(()));
        let spawned = runtime
            .inner()
            .settle(Blueprint::of_nothing("a"), home, Restart::Never);
        assert!(matches!(spawned, Err(SpawnError::Ended { .. })), "{spawned:?}");
        assert!(runtime.actors().is_empty());
    }
}
