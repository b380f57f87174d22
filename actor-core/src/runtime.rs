//! The runtime: actors are spawned on it, and its drop ends all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_channels::memory::made_in::MadeIn;
use selvedge_channels::{Berth, Waiting};

use crate::actor_record::Liveness;
use crate::actor_ref::ActorRef;
use crate::control::Control;
use crate::control::supervisor_message::SupervisorMessage;
use crate::deadline::deadline_after;
use crate::directory::Directory;
use crate::hub::post::Post;
use crate::hub::start::register_services;
use crate::id::ProcessId;
use crate::looking::Looking;
use crate::process_name::ProcessName;
use crate::promise::promise;
use crate::reference::LeakedRef;
use crate::remote::service::Remote;
use crate::sleeper::Sleeper;
use crate::spawn_error::SpawnError;

/// The time that the drop of the last clone waits for lanes and workers.
const DROP_GRACE: Duration = Duration::from_secs(2);
/// The time that the control thread may take for workers that have not ended in time: they are quit, killed, and gone.
const CONTROL_GRACE: Duration = Duration::from_secs(4);
/// The time that the last lines of workers, and the managers, may take each after that.
const LAST_GRACE: Duration = Duration::from_secs(2);
/// The time before the end of a shutdown at which the references that are left are listed: the deaths of workers that are killed then
/// strike off what they hold.
const LIST_AHEAD: Duration = Duration::from_millis(10);

/// A runtime, on which actors are spawned. Clones refer to the same runtime; the drop of the last clone ends all
/// actors, threads and worker processes. A [`Worker`](crate::Worker) handle counts as a clone; [`shutdown`](Self::shutdown)
/// ends all at once.
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
    remote: Arc<Remote>,
    /// Leaves the runtime of which this one is a job.
    #[cfg(feature = "hosts")]
    leave: OnceLock<Leave>,
    /// Whether this process is a worker of the runtime, which ends it.
    is_of_worker: bool,
    made_in: MadeIn,
}

/// Ends what joins a job with its runtime.
#[cfg(feature = "hosts")]
pub(crate) type Leave = Box<dyn Fn() + Send + Sync>;

/// The outcome of a shutdown: the lanes and workers that did not end in time, and the references that others did not let go of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Lanes of this process whose thread did not end in time, and `remote functions` if one did not return; the threads are
    /// left behind.
    pub stuck_lanes: Vec<String>,
    /// Workers that did not end in time and were killed, or cut off if they have dialled in.
    pub killed_workers: Vec<String>,
    /// References that other processes still held 10 ms before the time was over, or about which they owed an answer. A worker that
    /// has ended by then leaves none.
    pub leaked_references: Vec<LeakedRef>,
}

/// Whether this process has made a runtime.
static ANY_MADE: AtomicBool = AtomicBool::new(false);

/// Whether this process has made a runtime, and so is a driver.
#[cfg(feature = "hosts")]
pub(crate) fn is_any_made() -> bool {
    // Relaxed, like the store in `of_directory`: the mark publishes nothing.
    ANY_MADE.load(Ordering::Relaxed)
}

impl Runtime {
    /// Creates a runtime. Nothing is started before the first actor needs it, so this cannot fail.
    #[must_use]
    pub fn new() -> Self {
        Runtime::of_directory(Arc::new(Directory::new()))
    }

    /// The runtime of a driver with this directory.
    pub(crate) fn of_directory(directory: Arc<Directory>) -> Self {
        // Relaxed: the mark publishes nothing.
        ANY_MADE.store(true, Ordering::Relaxed);
        let remote = Remote::new(Arc::clone(&directory.hub) as Arc<dyn Post>);
        register_services(&directory.hub, &remote);
        Runtime::of_services(directory, remote, false)
    }

    fn of_services(directory: Arc<Directory>, remote: Arc<Remote>, is_of_worker: bool) -> Self {
        let runtime = Runtime {
            inner: Arc::new(Inner {
                directory,
                control: OnceLock::new(),
                starting: Mutex::new(()),
                remote,
                #[cfg(feature = "hosts")]
                leave: OnceLock::new(),
                is_of_worker,
                made_in: MadeIn::here(),
            }),
        };
        let owner = Arc::downgrade(&runtime.inner);
        runtime.remote().set_owner(Arc::new(owner));
        runtime
    }

    /// Sets the time limit for a worker's new process to say hello, from now on; default 5 s. A large program on a slow
    /// file system may need more.
    #[must_use]
    pub fn hello_timeout(self, limit: Duration) -> Self {
        self.inner.directory.set_limits(|limits| limits.hello = limit);
        self
    }

    /// Sets the time for which a worker process may give no sign of life before it is killed, for workers that start from
    /// now on; default 10 s. Only a process that is stopped or frozen as a whole gives none, however busy its actors are. A
    /// worker in a debugger needs more: `Duration::MAX` is no limit.
    #[must_use]
    pub fn silence_timeout(self, limit: Duration) -> Self {
        self.inner.directory.set_limits(|limits| limits.silence = limit);
        self
    }

    /// Sets the time limit for an actor's constructor, from now on; default one minute. A constructor that loads a
    /// large model may need more. If several actors of a worker start again together, they have the time of all of them; one
    /// that is not built then stays dead.
    #[must_use]
    pub fn build_timeout(self, limit: Duration) -> Self {
        self.inner.directory.set_limits(|limits| limits.build = limit);
        self
    }

    /// Sets the time for which a thread that waits for another process of this host looks for what it waits for, before it sleeps:
    /// a caller for its answer, and a thread without work for a call. It looks all the time, which occupies a core. Holds for this
    /// process, and for workers that start from now on. `Duration::ZERO`: threads sleep at once.
    ///
    /// By default a thread looks for 100 µs if the driver and each of its workers can have a core of its own. Otherwise it leaves its
    /// core to others a few times, and looks in between.
    #[must_use]
    pub fn spin_limit(self, limit: Duration) -> Self {
        let directory = &self.inner.directory;
        directory.set_limits(|limits| limits.spin = Some(limit));
        directory.hub.set_spin(Some(limit));
        self
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Returns another handle of a runtime.
    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Runtime { inner }
    }

    /// Creates the runtime that remote functions of a process find, whose functions are called by this service.
    #[cfg(any(test, feature = "hosts"))]
    pub(crate) fn with_remote(remote: Arc<Remote>) -> Self {
        Runtime::of_member(remote, false)
    }

    /// Creates the runtime that remote functions of a worker find, which the process that made the runtime ends.
    pub(crate) fn of_worker(remote: Arc<Remote>) -> Self {
        Runtime::of_member(remote, true)
    }

    fn of_member(remote: Arc<Remote>, is_of_worker: bool) -> Self {
        ProcessId::skip_to(ProcessId::FIRST_OF_MEMBER);
        Runtime::of_services(Arc::new(Directory::new()), remote, is_of_worker)
    }

    /// Whether calls can be made: the runtime was not shut down, and was made in this process.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.made_in.is_here() && !self.inner.directory.is_closed()
    }

    /// The service of remote functions. After the shutdown, that service refuses all calls.
    pub(crate) fn remote(&self) -> &Arc<Remote> {
        &self.inner.remote
    }

    /// Makes a berth for the waiter of a doorbell. A thread that sleeps in it reads the letters of this process meanwhile, if no
    /// other one does, so that a letter for the sleeper wakes no other thread before it. The sleeper looks for letters as long as
    /// `waiting` lets a waiter spin.
    #[doc(hidden)] // for the compiler
    #[must_use]
    pub fn berth(&self, waiting: Waiting) -> Arc<dyn Berth> {
        let limit = match waiting {
            Waiting::Spin => Some(Duration::MAX),
            Waiting::SpinThenPark(limit) => Some(limit),
            _ => None,
        };
        let looking = limit.map(|limit| Looking {
            limit,
            leaves: u32::MAX,
        });
        Sleeper::looking(Some(self.remote().lead()), looking)
    }

    /// The living processes of the runtime that run functions, by name and number, in the order of their numbers: its workers, but for those
    /// that were told to end, and the process that made it. Each process of the runtime knows them, a job too; [`RemoteCall::on_process`](crate::RemoteCall::on_process)
    /// takes their numbers. [`members`](Self::members) has the workers that start or have ended, too.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessName> {
        let remote = self.remote();
        let mut processes: Vec<_> = remote.post.peers().iter().map(|peer| peer.process).collect();
        if !remote.is_job() {
            processes.push(remote.me());
        }
        processes.sort_unstable();
        processes
            .into_iter()
            .map(|process| remote.names.name(process))
            .collect()
    }

    /// All actors that are alive or restarting.
    #[must_use]
    pub fn actors(&self) -> Vec<ActorRef> {
        let directory = &self.inner.directory;
        directory
            .records()
            .into_iter()
            .filter(|record| !matches!(record.liveness(), Liveness::Dead(_)))
            .map(|record| ActorRef::new(record, directory))
            .collect()
    }

    /// Ends all actors. Lanes and workers get `grace` to end; after that, workers are killed and threads of lanes are
    /// left behind.
    ///
    /// References end too, also those that a [`Ref`](crate::Ref) of the caller still holds: a later fetch returns
    /// [`FetchError::Shutdown`](crate::FetchError::Shutdown), unless the value was fetched before. A value that lives in this process is
    /// dropped once no other process holds a reference to it. A worker lets go of its references by its end, so nothing waits for them
    /// beyond that. A job, whose end ends no other process, waits until all others have let go of its values, and at most `grace`.
    ///
    /// In a worker this has no effect: the process that made the runtime ends it, and [`Worker::end`](crate::Worker::end) ends one worker.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        if self.inner.is_of_worker {
            return ShutdownReport::default();
        }
        self.inner.shutdown(grace, grace)
    }
}

impl ActorRef {
    /// Whether the actor belongs to `runtime`.
    #[must_use]
    pub fn same_runtime(&self, runtime: &Runtime) -> bool {
        self.directory()
            .is_some_and(|directory| Arc::ptr_eq(&runtime.inner.directory, &directory))
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
        let answers = self.answers();
        let control = Control::start(Arc::clone(&self.directory), answers).map_err(SpawnError::Control)?;
        Ok(self.control.get_or_init(|| control))
    }

    pub(crate) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    /// Notes that the runtime is a job of another one, which it leaves when it ends.
    #[cfg(feature = "hosts")]
    pub(crate) fn leave_at_the_end(&self, leave: Leave) {
        // A runtime joins once, when it is made.
        let _ = self.leave.set(leave);
    }

    /// Ends the runtime. Others have `references_grace` to let go of references, where they live on.
    fn shutdown(&self, grace: Duration, references_grace: Duration) -> ShutdownReport {
        if !self.made_in.is_here() || !self.directory.close() {
            return ShutdownReport::default();
        }
        let deadline = deadline_after(grace);
        self.directory.announce_shutdown();
        let lanes = self.directory.lanes();
        lanes.iter().for_each(|lane| lane.stop());
        self.remote.stop();
        let references = &self.remote.references;
        let mut left = references.end(references_grace.saturating_sub(LIST_AHEAD));
        let mut told = self.control.get().map(|control| {
            let (reply, answer) = promise();
            control.send(SupervisorMessage::Shutdown { deadline, reply });
            (control, answer)
        });
        let functions_ended = self.remote.wait_for_threads(deadline);
        let mut report = ShutdownReport::default();
        let ended = match &mut told {
            Some((control, answer)) if !control.is_current() => {
                answer.wait(Some(deadline + CONTROL_GRACE)).and_then(Result::ok)
            }
            _ => None,
        };
        for lane in lanes {
            if !lane.join_until(deadline) {
                lane.abandon();
                report.stuck_lanes.push(lane.name().to_owned());
            }
        }
        if !functions_ended {
            report.stuck_lanes.push("remote functions".to_owned());
        }
        // A control thread that has not answered is held up by a user-defined watcher; it is left behind.
        if let (Some(control), Some(ended)) = (self.control.get(), ended) {
            control.join();
            report.killed_workers = ended.killed;
            if let Some(printer) = ended.printer {
                printer.finish(Instant::now() + LAST_GRACE);
            }
        }
        #[cfg(feature = "hosts")]
        self.directory.wait_for_managers(Instant::now() + LAST_GRACE);
        self.directory.hub.close();
        #[cfg(feature = "hosts")]
        let leaks = self.leave.get().and_then(|leave| {
            let leaks = left.wait(Some(deadline));
            leave();
            leaks
        });
        #[cfg(not(feature = "hosts"))]
        let leaks = None;
        // The hub has told the deaths of all processes that end with this one, so nothing is left to wait for.
        let leaks = leaks.or_else(|| left.try_take()).and_then(Result::ok);
        let names = &self.remote.names;
        let leaked = leaks
            .into_iter()
            .flatten()
            .map(|leak| LeakedRef::new(leak, names));
        report.leaked_references = leaked.collect();
        report
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            // Nobody reads the report, so nobody waits for references.
            let _ = self.shutdown(DROP_GRACE, Duration::ZERO);
        } else {
            // This is a copy in a forked child. The threads behind it, and the locks that they may hold, belong to the
            // parent, so the directory must never be dropped.
            std::mem::forget(Arc::clone(&self.directory));
            std::mem::forget(Arc::clone(&self.remote));
            #[cfg(feature = "hosts")]
            std::mem::forget(self.leave.take());
        }
    }
}
