//! The runtime: actors are spawned on it, and its drop ends all of them.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::MadeIn;
use crate::actor::Actor;
use crate::actor_record::{ActorRecord, Home, Liveness};
use crate::actor_ref::ActorRef;
use crate::cell::Blueprint;
use crate::cell::guarded::Guarded;
use crate::control::Control;
use crate::control::supervisor::SupervisorMessage;
use crate::cores::CoreError;
use crate::deadline::deadline_after;
use crate::directory::Directory;
use crate::failure::Failure;
use crate::home::placement::Restart;
use crate::home::places::{Lane, LaneHome, LaneKeep, Worker};
use crate::id::ProcessId;
use crate::promise::promise;
use crate::spawn::{Spawn, SpawnError};
use crate::worker::launch;
use crate::worker::record::WorkerRecord;

/// The time by which the control thread may be late.
const CONTROL_GRACE: Duration = Duration::from_secs(5);
/// The time that the drop of the last clone waits for lanes and workers.
const DROP_GRACE: Duration = Duration::from_secs(2);
/// The time that a killed worker may take to be gone.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// A runtime, on which actors are spawned. Clones refer to the same runtime; the drop of the last clone ends all
/// actors, threads and worker processes.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("actors", &self.actors()).finish()
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) struct Inner {
    pub(crate) directory: Arc<Directory>,
    control: OnceLock<Control>,
    pub(crate) starting: Mutex<()>,
    made_in: MadeIn,
}

/// The outcome of a shutdown: the lanes and workers that did not end in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ShutdownReport {
    /// Lanes of this process whose thread did not end in time; the threads are left behind.
    pub stuck_lanes: Vec<String>,
    /// Workers that did not end in time and were killed.
    pub killed_workers: Vec<String>,
}

impl Runtime {
    /// Creates a runtime. Nothing is started before the first actor needs it, so this cannot fail.
    #[must_use]
    pub fn new() -> Self {
        let directory = Arc::new(Directory::new());
        Self {
            inner: Arc::new(Inner {
                directory,
                control: OnceLock::new(),
                starting: Mutex::new(()),
                made_in: MadeIn::here(),
            }),
        }
    }

    /// Sets the time limit for a worker's new process to say hello, from now on; default 5 s. A large program on a slow
    /// file system may need more.
    #[must_use]
    pub fn hello_timeout(self, limit: Duration) -> Self {
        self.inner.directory.set_limits(|limits| limits.hello = limit);
        self
    }

    /// Sets the time limit for an actor's constructor, from now on; default one minute. A constructor that loads a
    /// large model may need more.
    #[must_use]
    pub fn build_timeout(self, limit: Duration) -> Self {
        self.inner.directory.set_limits(|limits| limits.build = limit);
        self
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(crate) fn is(&self, directory: &Arc<Directory>) -> bool {
        Arc::ptr_eq(&self.inner.directory, directory)
    }

    /// Prepares an actor to be spawned: `runtime.spawn::<Tok>("tok", (97,)).in_thread()?`.
    pub fn spawn<A: Actor>(&self, name: impl Into<String>, args: A::Args) -> Spawn<'_, A> {
        Spawn::new(self, name.into(), args)
    }

    /// Creates a lane of this process, a thread that several actors may share. The thread starts with the lane's first
    /// actor.
    pub fn lane(&self, name: impl Into<String>) -> Lane {
        Lane::new(self, name.into(), LaneHome::thread())
    }

    /// Starts a worker process that several actors may share.
    ///
    /// # Errors
    /// [`SpawnError`] if the process cannot be started or does not say hello.
    pub fn worker(&self, name: impl Into<String>) -> Result<Worker, SpawnError> {
        self.start_worker(&name.into(), Vec::new())
    }

    pub(crate) fn start_worker(&self, name: &str, env: Vec<(String, String)>) -> Result<Worker, SpawnError> {
        let depth = launch::allowed()?;
        let record = Arc::new(WorkerRecord::new(ProcessId::next(), name, env));
        let (reply, mut answer) = promise();
        let message = SupervisorMessage::AddWorker {
            record: Arc::clone(&record),
            depth,
            reply,
        };
        if !self.inner.control()?.send(message) {
            return Err(SpawnError::Shutdown);
        }
        // If this function returns an error, the drop of `worker` ends a process that starts late.
        let worker = Worker::new(self, record);
        // The start has its own time limit. This deadline is for a control thread that a user-defined waker or watcher
        // holds up.
        let limit = self.inner.directory.limits().hello;
        let deadline = limit
            .checked_mul(2)
            .and_then(|limit| Instant::now().checked_add(limit + CONTROL_GRACE));
        match answer.wait(deadline) {
            Some(started) => started.unwrap_or(Err(SpawnError::Shutdown))?,
            None => {
                let reason =
                    "the control thread is held up, by a waker or a watcher of this program".to_owned();
                return Err(SpawnError::NoHello {
                    worker: name.to_owned(),
                    reason,
                    stderr_tail: Vec::new(),
                });
            }
        }
        Ok(worker)
    }

    /// All actors that are alive or restarting.
    #[must_use]
    pub fn actors(&self) -> Vec<ActorRef> {
        let directory = &self.inner.directory;
        directory
            .residents()
            .into_iter()
            .filter(|resident| !matches!(resident.vital(), Liveness::Dead(_)))
            .map(|resident| ActorRef::new(resident, directory))
            .collect()
    }

    /// Ends all actors. Lanes and workers get `grace` to end; after that, workers are killed and threads of lanes are
    /// left behind.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.inner.shutdown(grace)
    }
}

impl Inner {
    /// Returns the control plane, and starts it when it is first needed.
    pub(crate) fn control(&self) -> Result<&Control, SpawnError> {
        if self.directory.is_closed() {
            return Err(SpawnError::Shutdown);
        }
        let _one_at_a_time = self.starting.lock();
        if let Some(control) = self.control.get() {
            return Ok(control);
        }
        let control = Control::start(Arc::clone(&self.directory)).map_err(SpawnError::Control)?;
        Ok(self.control.get_or_init(|| control))
    }

    /// Lists an actor at its home and waits until it is built there.
    pub(crate) fn settle(
        &self,
        blueprint: Blueprint,
        (home, keep): (Home, Arc<LaneKeep>),
        restart: Restart,
    ) -> Result<ActorRef, SpawnError> {
        let resident = Arc::new(ActorRecord::new(blueprint, home, restart));
        let control = self.control()?;
        self.directory.add_resident(&resident, Some(Arc::clone(&keep)));
        let limit = self.directory.limits().build;
        let (reply, mut answer) = promise();
        let sent = control.send(SupervisorMessage::AddActor {
            resident: Arc::clone(&resident),
            reply,
        });
        let built = if sent {
            answer.wait(Instant::now().checked_add(limit))
        } else {
            Some(Ok(Err(SpawnError::Shutdown)))
        };
        let built = match built {
            Some(Ok(built)) => built,
            Some(Err(_)) => Err(SpawnError::Worker {
                worker: resident.name().to_owned(),
                reason: "it ended while the actor was built".to_owned(),
            }),
            None => {
                let actor = resident.name().to_owned();
                Err(SpawnError::Timeout { actor, limit })
            }
        };
        // The lane may have been ended by a call that did not find this actor.
        match keep.still_there().and(built) {
            Ok(()) => Ok(ActorRef::new(resident, &self.directory)),
            Err(error) => {
                // The actor may still be built, after its caller has stopped waiting; it is removed then.
                resident.leave();
                self.directory.remove_resident(resident.id());
                if let Some(node) = resident.node.get() {
                    node.stop(None);
                }
                Err(error)
            }
        }
    }

    /// Builds an inline actor, on the calling thread.
    pub(crate) fn settle_inline(
        &self,
        blueprint: Blueprint,
        restart: Restart,
    ) -> Result<ActorRef, SpawnError> {
        if self.directory.is_closed() {
            return Err(SpawnError::Shutdown);
        }
        let actor = blueprint.name.to_string();
        let built = match blueprint.core {
            Some(core) => Err(Failure::from_error(CoreError::Inline { core })),
            None => blueprint.clone().build(),
        };
        let cell = built.map_err(|failure| SpawnError::not_built(actor, failure.into_report()))?;
        let home = Home::Inline(Arc::new(Guarded::new(cell)));
        let resident = Arc::new(ActorRecord::new(blueprint, home, restart));
        self.directory.add_resident(&resident, None);
        Ok(ActorRef::new(resident, &self.directory))
    }

    fn shutdown(&self, grace: Duration) -> ShutdownReport {
        if !self.made_in.is_here() || !self.directory.close() {
            return ShutdownReport::default();
        }
        let deadline = deadline_after(grace);
        self.directory.announce_shutdown();
        let lanes = self.directory.lanes();
        lanes.iter().for_each(|lane| lane.stop());
        let mut report = ShutdownReport::default();
        let mut ended = None;
        if let Some(control) = self.control.get() {
            let (reply, mut answer) = promise();
            control.send(SupervisorMessage::Shutdown { deadline, reply });
            if !control.is_current() {
                ended = answer.wait(Some(deadline + KILL_GRACE)).and_then(Result::ok);
            }
        }
        for lane in lanes {
            if !lane.join_until(deadline) {
                lane.abandon();
                report.stuck_lanes.push(lane.name().to_owned());
            }
        }
        // A control thread that has not answered is held up by a user-defined watcher; it is left behind.
        if let (Some(control), Some(ended)) = (self.control.get(), ended) {
            control.join();
            report.killed_workers = ended.killed;
            if let Some(printer) = ended.printer {
                printer.finish(Instant::now() + KILL_GRACE);
            }
        }
        report
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            let _ = self.shutdown(DROP_GRACE);
        } else {
            // This is a copy in a forked child. The threads behind it, and the locks that they may hold, belong to the
            // parent, so the directory must never be dropped.
            std::mem::forget(Arc::clone(&self.directory));
        }
    }
}
