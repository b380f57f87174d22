//! Spawning of actors: the type, the arguments, the place, and the policies for failures.

use std::marker::PhantomData;
use std::time::Duration;

use crate::actor::Actor;
use crate::actor::arguments::to_bytes;
use crate::actor::registry::{UnknownActorType, registered};
use crate::cell::Blueprint;
use crate::cores::CoreError;
use crate::failure::FailureReport;
use crate::home::placement::{OnPanic, Placement, Restart};
use crate::home::places::{Lane, Worker};
use crate::id::ActorId;
use crate::runtime::Runtime;
use crate::worker::launch::{NotAllowed, check_env};

/// The reason that an actor or a worker was not spawned.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The actor's constructor failed or panicked.
    #[error("the constructor of actor `{actor}` failed: {failure}")]
    Constructor {
        /// The actor's name.
        actor: String,
        /// The failure of the constructor.
        failure: FailureReport,
    },
    /// The actor's thread cannot be pinned to the core that was named.
    #[error("actor `{actor}`: {reason}")]
    Core {
        /// The actor's name.
        actor: String,
        /// The reason.
        reason: String,
    },
    /// The constructor's arguments cannot be encoded.
    #[error("the arguments of actor `{actor}` cannot be encoded: {reason}")]
    Arguments {
        /// The actor's name.
        actor: String,
        /// The reason.
        reason: String,
    },
    /// The actor's type is not linked into this program.
    #[error(transparent)]
    UnknownType(#[from] UnknownActorType),
    /// Another actor type has the same name and place, so a worker could not tell the two apart.
    #[error(
        "two actor types are called `{name}`, one at {}, the other at {}: rename one of them",
        place(used),
        place(found)
    )]
    AmbiguousType {
        /// The name of both types.
        name: &'static str,
        /// The place of the spawned type in the source, as `file:line:column`.
        used: &'static str,
        /// The place of the other type.
        found: &'static str,
    },
    /// The worker process could not be started.
    #[error("worker `{worker}` could not be started: {error}")]
    Launch {
        /// The worker's name.
        worker: String,
        /// The error of the system.
        #[source]
        error: std::io::Error,
    },
    /// The worker process did not say hello.
    #[error("worker `{worker}` did not say hello: {reason}{}", tail(stderr_tail))]
    NoHello {
        /// The worker's name.
        worker: String,
        /// The reason.
        reason: String,
        /// The last lines that the worker wrote to its standard error.
        stderr_tail: Vec<String>,
    },
    /// The worker is gone.
    #[error("worker `{worker}` is gone: {reason}")]
    Worker {
        /// The worker's name.
        worker: String,
        /// The reason.
        reason: String,
    },
    /// The current process may not start workers.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// An environment variable cannot be set.
    #[error("environment variable `{key}`: {reason}")]
    Env {
        /// The name of the variable.
        key: String,
        /// The reason.
        reason: &'static str,
    },
    /// The lane or worker belongs to another runtime.
    #[error("the lane or worker belongs to another runtime")]
    Foreign,
    /// The lane was ended.
    #[error("lane `{lane}` was ended")]
    Ended {
        /// The lane's name.
        lane: String,
    },
    /// The actor was not built in time.
    #[error("actor `{actor}` was not built within {limit:?} (help: Runtime::build_timeout sets this time)")]
    Timeout {
        /// The actor's name.
        actor: String,
        /// The time limit.
        limit: Duration,
    },
    /// A thread of the runtime could not be started.
    #[error("a thread of the runtime could not be started: {0}")]
    Control(#[source] std::io::Error),
    /// The runtime is shut down.
    #[error("the runtime is shut down")]
    Shutdown,
    /// A broken invariant of selvedge itself.
    #[error("bug in selvedge, please report: {0}")]
    Internal(String),
}

selvedge_channels::debug_is_report!(SpawnError);

impl SpawnError {
    /// Creates the error for an actor that was not built at its home.
    pub(crate) fn not_built(actor: String, failure: FailureReport) -> Self {
        if failure.type_name == std::any::type_name::<CoreError>() {
            let reason = failure.message;
            return SpawnError::Core { actor, reason };
        }
        SpawnError::Constructor { actor, failure }
    }
}

fn place(place: &str) -> &str {
    if place.is_empty() {
        "an unknown place"
    } else {
        place
    }
}

fn tail(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n    {line}")).collect()
}

/// An actor about to be spawned: choose its policies first, then its place.
#[must_use = "an actor is spawned by saying where: `.in_thread()`, `.in_process()`, `.inline()`"]
pub struct Spawn<'r, A: Actor> {
    runtime: &'r Runtime,
    name: String,
    args: A::Args,
    restart: Restart,
    on_panic: OnPanic,
    env: Vec<(String, String)>,
    device: Option<u32>,
    core: Option<u32>,
    actor: PhantomData<fn() -> A>,
}

impl<'r, A: Actor> Spawn<'r, A> {
    pub(crate) fn new(runtime: &'r Runtime, name: String, args: A::Args) -> Self {
        let (restart, on_panic) = (Restart::default(), OnPanic::default());
        Self {
            runtime,
            name,
            args,
            restart,
            on_panic,
            env: Vec::new(),
            device: None,
            core: None,
            actor: PhantomData,
        }
    }

    /// Sets the policy for the death of the actor's worker process; default [`Restart::Never`].
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets the policy for a panic in one of the actor's methods; default [`OnPanic::Keep`].
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.on_panic = on_panic;
        self
    }

    /// Sets an environment variable of the actor's own worker process, for [`in_process`](Self::in_process).
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Declares that the actor's tensors lie on device `index`, as its process counts devices from 0. In a graph,
    /// tensors that its tasks read are brought to that device from any other place, and tensors that its tasks make
    /// must lie on it. By default, tensors stay where they are, and nothing is checked.
    pub fn on_device(mut self, index: u32) -> Self {
        self.device = Some(index);
        self
    }

    /// Pins the actor's thread to `core`, one of [`cores`](crate::cores()). Stages that compute at the same time need a
    /// core each; without pinning, the kernel may have them take turns on one. Actors that share a lane share its core,
    /// and a graph does not merge lanes of different cores. Threads and processes that the actor starts on its thread
    /// begin on that core too. By default, the kernel chooses the core.
    pub fn on_core(mut self, core: u32) -> Self {
        self.core = Some(core);
        self
    }

    /// Spawns the actor at `placement`.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn place(self, placement: Placement) -> Result<A::Handle, SpawnError> {
        match placement {
            Placement::Inline => self.inline(),
            Placement::Thread => self.in_thread(),
            Placement::Process => self.in_process(),
        }
    }

    /// Spawns the actor without a thread: each thread that drives it runs its methods, and no wake-up is needed. A wait
    /// that runs a method takes at least as long as the method, because nothing can interrupt a method that computes. A
    /// method that awaits is dropped when the graph's timeout has passed.
    ///
    /// # Errors
    /// [`SpawnError::Constructor`]; [`SpawnError::Core`] if a core was named.
    pub fn inline(self) -> Result<A::Handle, SpawnError> {
        let (runtime, restart) = (self.runtime, self.restart);
        let blueprint = self.blueprint()?;
        let actor = runtime.inner().settle_inline(blueprint, restart)?;
        Ok(A::handle(actor))
    }

    /// Spawns the actor on a thread of its own.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn in_thread(self) -> Result<A::Handle, SpawnError> {
        let lane = self.runtime.lane(self.name.clone());
        self.in_lane(&lane)
    }

    /// Spawns the actor in a worker process of its own.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn in_process(mut self) -> Result<A::Handle, SpawnError> {
        for (key, value) in &self.env {
            check_env(key, value).map_err(|reason| SpawnError::Env {
                key: key.clone(),
                reason,
            })?;
        }
        let env = std::mem::take(&mut self.env);
        let worker = self.runtime.start_worker(&self.name, env)?;
        let spawned = self.in_worker(&worker);
        if spawned.is_err() {
            worker.kill();
        }
        spawned
    }

    /// Spawns the actor in a worker process that it shares, on a lane of its own.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn in_worker(self, worker: &Worker) -> Result<A::Handle, SpawnError> {
        let lane = worker.lane(self.name.clone());
        self.in_lane(&lane)
    }

    /// Spawns the actor on a lane that it shares.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn in_lane(self, lane: &Lane) -> Result<A::Handle, SpawnError> {
        if !lane.belongs_to(self.runtime) {
            return Err(SpawnError::Foreign);
        }
        let (runtime, restart) = (self.runtime, self.restart);
        let home = lane.home()?;
        let blueprint = self.blueprint()?;
        let actor = runtime.inner().settle(blueprint, home, restart)?;
        Ok(A::handle(actor))
    }

    fn blueprint(self) -> Result<Blueprint, SpawnError> {
        // The worker runs the same program with the same registry: a type that is missing here would be missing there.
        let entry = registered::<A>()?;
        let actor = self.name.clone();
        let args = to_bytes(&self.args).map_err(|failure| SpawnError::Arguments {
            actor,
            reason: failure.to_string(),
        })?;
        Ok(Blueprint {
            id: ActorId::next(),
            name: self.name.as_str().into(),
            entry,
            args: args.into(),
            on_panic: self.on_panic,
            device: self.device,
            core: self.core,
        })
    }
}
