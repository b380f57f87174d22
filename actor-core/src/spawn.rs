//! Spawning of actors: the type, the arguments, the place, and the policies for failures.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use selvedge_channels::Wire;

use crate::BoxError;
use crate::actor::ActorEntry;
use crate::actor::actor_type::Actor;
use crate::actor::checkpoint::Checkpoint;
use crate::actor::construction::Construction;
use crate::actor::registry::{find_actor, is_linked, note_actor};
use crate::actor_record::ActorRecord;
use crate::actor_ref::ActorRef;
use crate::cell::Blueprint;
use crate::cell::factory::Factory;
use crate::cell::saving::{CheckpointRules, Checkpoints};
use crate::control::messages::NodeMessage;
use crate::control::supervisor_message::SupervisorMessage;
use crate::failure::Failure;
use crate::home::Home;
use crate::home::handles::{Lane, Worker};
use crate::home::inline::InlineHome;
use crate::home::keep::LaneKeep;
use crate::home::placement::{OnPanic, Placement, Restart};
use crate::id::ActorId;
use crate::process_name::ProcessName;
use crate::promise::promise;
use crate::runtime::{Inner, Runtime};
use crate::spawn_error::SpawnError;
use crate::worker::launch::check_env;

impl Runtime {
    /// Prepares an actor that its constructor `new` builds: `runtime.spawn::<Tok>("tok", (97,)).in_thread()?`. The
    /// arguments are encoded only if the actor lives in a worker process, which needs types that serde knows. In this process
    /// the actor gets a clone of them, which shares an `Arc`; arguments that cannot be cloned build it only once.
    pub fn spawn<A: Actor>(&self, name: impl Into<String>, args: A::Args) -> Spawn<'_, A> {
        self.spawn_from(name, A::construction(args))
    }

    /// Prepares an actor that one of its constructors builds: `runtime.spawn_from("tok", TokHandle::open(path))`. The
    /// arguments are treated as those of [`spawn`](Self::spawn).
    pub fn spawn_from<A: Actor, T>(
        &self,
        name: impl Into<String>,
        construction: Construction<A, T>,
    ) -> Spawn<'_, A, AnyProcess<T>> {
        Spawn::new(self, name.into(), construction.factory)
    }

    /// Prepares an actor that `make` builds, on the actor's own thread. Nothing is encoded, so the actor may hold
    /// anything: a `Sender`, a file, a pool of connections, a loaded model. It lives in this process.
    ///
    /// ```
    /// # use selvedge_core::{Actor, Runtime, SpawnError};
    /// fn listen<A: Actor>(runtime: &Runtime, make: fn(std::sync::mpsc::Receiver<u32>) -> A) -> Result<A::Handle, SpawnError> {
    ///     let (_sender, receiver) = std::sync::mpsc::channel();
    ///     runtime.spawn_with("listener", move || make(receiver)).in_thread()
    /// }
    /// ```
    pub fn spawn_with<A: Actor>(
        &self,
        name: impl Into<String>,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Spawn<'_, A, ThisProcess> {
        self.try_spawn_with(name, move || Ok::<A, BoxError>(make()))
    }

    /// Prepares an actor as [`spawn_with`](Self::spawn_with) does, by a closure that may fail.
    pub fn try_spawn_with<A: Actor, E: Into<BoxError>>(
        &self,
        name: impl Into<String>,
        make: impl FnOnce() -> Result<A, E> + Send + 'static,
    ) -> Spawn<'_, A, ThisProcess> {
        let first = Box::new(move || make().map(A::into_actor_state).map_err(Failure::from_error));
        Spawn::new(self, name.into(), Factory::closure(first))
    }
}

/// Marks a [`Spawn`] whose actor can live in any process of the program, if its constructor's arguments, a tuple `T`, can
/// cross processes.
#[derive(Debug)]
pub struct AnyProcess<T>(PhantomData<fn(T)>);

/// Marks a [`Spawn`] whose actor can live only in the process that spawns it.
#[derive(Debug)]
pub struct ThisProcess(());

/// An actor about to be spawned: choose its policies first, then its place. `P` says in which processes it can live.
#[must_use = "an actor is spawned by saying where: `.in_thread()`, `.in_process()`, `.inline()`"]
pub struct Spawn<'r, A: Actor, P = AnyProcess<<A as Actor>::Args>> {
    runtime: &'r Runtime,
    name: String,
    factory: Factory,
    restart: Restart,
    on_panic: OnPanic,
    env: Vec<(String, String)>,
    device: Option<u32>,
    core: Option<u32>,
    /// `None` for the concurrency of the actor's type.
    concurrency: Option<u32>,
    /// `None` without checkpoints.
    checkpoint_every: Option<u32>,
    actor: PhantomData<fn() -> (A, P)>,
}

impl<A: Actor, P> fmt::Debug for Spawn<'_, A, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawn")
            .field("name", &self.name)
            .field("restart", &self.restart)
            .field("on_panic", &self.on_panic)
            .finish_non_exhaustive()
    }
}

impl<'r, A: Actor, P> Spawn<'r, A, P> {
    fn new(runtime: &'r Runtime, name: String, factory: Factory) -> Self {
        let (restart, on_panic) = (Restart::default(), OnPanic::default());
        Self {
            runtime,
            name,
            factory,
            restart,
            on_panic,
            env: Vec::new(),
            device: None,
            core: None,
            concurrency: None,
            checkpoint_every: None,
            actor: PhantomData,
        }
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

    /// Lets up to `n` of the actor's `async fn(&self, ..)` methods be in flight at a time, in place of the number that
    /// `#[actor(concurrency = n)]` says; by default 1. A method with `&mut self` waits until none is in flight. With 0 the actor is
    /// refused ([`SpawnError::Concurrency`]). An inline actor runs one method after the other, and is refused with more than 1
    /// ([`SpawnError::OptionWithoutEffect`]).
    pub fn concurrency(mut self, n: u32) -> Self {
        self.concurrency = Some(n);
        self
    }

    /// Saves the actor's state after every `n`-th method with `&mut self`, whether the method succeeds or not; by default never.
    /// With 1, everything that an answered call has done is in the last checkpoint: the answer is sent behind it. With
    /// `n`, up to `n - 1` answered calls since the last checkpoint are lost with the state. A method with `&self` is not
    /// counted.
    ///
    /// An actor with [`Restart::OnFailure`] in a worker process continues from its last checkpoint in its next process; the driver
    /// keeps it. With [`OnPanic::Rebuild`] or [`rebuild_with`](Self::rebuild_with), an actor continues from it after a panic. Without either, the actor is refused
    /// ([`SpawnError::Checkpoint`]), because nobody would read its checkpoints.
    pub fn checkpoint_every(mut self, n: u32) -> Self
    where
        A: Checkpoint,
    {
        self.checkpoint_every = Some(n);
        self
    }

    /// Spawns the actor without a thread: each thread that drives it runs its methods, and no wake-up is needed. A wait
    /// that runs a method takes at least as long as the method, because nothing can interrupt a method that computes. A
    /// method that awaits is dropped when the graph's timeout has passed.
    ///
    /// # Errors
    /// [`SpawnError::Constructor`]; [`SpawnError::Core`] if a core was named; [`SpawnError::Concurrency`];
    /// [`SpawnError::OptionWithoutEffect`].
    pub fn inline(self) -> Result<A::Handle, SpawnError> {
        self.inline_actor().map(A::handle)
    }

    /// Spawns the actor as [`inline`](Self::inline) does.
    pub(crate) fn inline_actor(self) -> Result<ActorRef, SpawnError> {
        let (runtime, restart) = (self.runtime, self.restart);
        self.check_env_unused()?;
        if self.concurrency.is_some_and(|n| n > 1) {
            return Err(SpawnError::OptionWithoutEffect {
                actor: self.name,
                option: "concurrency",
                reason: "an inline actor runs one method after the other: spawn it `.in_thread()` or in a process, or leave it out",
            });
        }
        let blueprint = self.blueprint(false)?;
        check_restart_unused(&blueprint, restart)?;
        runtime.inner().spawn_inline(blueprint, restart)
    }

    /// Spawns the actor on a thread of its own.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn in_thread(self) -> Result<A::Handle, SpawnError> {
        let lane = self.runtime.lane(self.name.clone());
        self.in_lane(&lane)
    }

    /// Spawns the actor on a lane that it shares.
    ///
    /// # Errors
    /// [`SpawnError`]; [`SpawnError::ThisProcessOnly`] or [`SpawnError::Unregistered`] if
    /// the lane lies in a worker process, and a closure builds the actor or the worker cannot find its type.
    pub fn in_lane(self, lane: &Lane) -> Result<A::Handle, SpawnError> {
        if !lane.belongs_to(self.runtime) {
            return Err(SpawnError::Foreign {
                actor: self.name,
                lane: lane.name().to_owned(),
                worker: lane.worker(),
            });
        }
        let (runtime, restart) = (self.runtime, self.restart);
        self.check_env_unused()?;
        let home = lane.home()?;
        let mut blueprint = self.blueprint(home.0.worker().is_some())?;
        if let Some(worker) = home.0.worker() {
            let actor = || blueprint.name.to_string();
            if worker.is_guest() && restart != Restart::Never {
                return Err(SpawnError::NoRestart {
                    actor: actor(),
                    worker: worker.process_name(),
                });
            }
            if !is_linked(blueprint.entry) {
                let type_name = blueprint.entry.full_name();
                return Err(SpawnError::Unregistered {
                    actor: actor(),
                    type_name,
                });
            }
            blueprint.factory = match blueprint.factory.for_worker() {
                Some(Ok(factory)) => factory,
                Some(Err(failure)) => {
                    let reason = failure.to_string();
                    return Err(SpawnError::Arguments {
                        actor: actor(),
                        reason,
                    });
                }
                None => return Err(SpawnError::ThisProcessOnly { actor: actor() }),
            };
        } else {
            check_restart_unused(&blueprint, restart)?;
        }
        let actor = runtime.inner().spawn_at(blueprint, home, restart)?;
        Ok(A::handle(actor))
    }

    /// Refuses environment variables, which only a worker process of the actor's own gets.
    fn check_env_unused(&self) -> Result<(), SpawnError> {
        if self.env.is_empty() {
            return Ok(());
        }
        Err(SpawnError::OptionWithoutEffect {
            actor: self.name.clone(),
            option: "env",
            reason: "only a worker process of the actor's own gets environment variables: spawn it `.in_process()`, or leave them out",
        })
    }

    fn blueprint(self, is_in_process: bool) -> Result<Blueprint, SpawnError> {
        // The worker runs the same program with the same registry: a type that is missing here would be missing there.
        let entry = registered::<A>()?;
        let concurrency = self.concurrency.unwrap_or(entry.concurrency);
        if concurrency == 0 {
            return Err(SpawnError::Concurrency { actor: self.name });
        }
        let checkpoints = self.checkpoints(entry, is_in_process)?;
        let name: Arc<str> = self.name.into();
        Ok(Blueprint {
            id: ActorId::next(),
            name,
            entry,
            factory: self.factory,
            on_panic: self.on_panic,
            device: self.device,
            core: self.core,
            concurrency,
            build_limit: self.runtime.inner().directory.limits().build,
            checkpoints,
        })
    }

    fn checkpoints(
        &self,
        entry: &ActorEntry,
        is_in_process: bool,
    ) -> Result<Option<Arc<Checkpoints>>, SpawnError> {
        let Some(every) = self.checkpoint_every else {
            return Ok(None);
        };
        let refused = |reason: &str| SpawnError::Checkpoint {
            actor: self.name.clone(),
            reason: reason.to_owned(),
        };
        let every = NonZeroU32::new(every).ok_or_else(|| {
            refused("there is none with `checkpoint_every(0)`: set it to 1 or more, or leave it out")
        })?;
        let outlive_process = is_in_process && matches!(self.restart, Restart::OnFailure { max: 1.. });
        let outlive_panic = self.on_panic == OnPanic::Rebuild;
        if !outlive_process && !outlive_panic {
            return Err(refused(match is_in_process {
                true => {
                    "nobody reads them, because the actor is never built again: add `restart(Restart::OnFailure { .. })` or \
                     `on_panic(OnPanic::Rebuild)`"
                }
                false => {
                    "nobody reads them, because an actor in this process is built again after a panic only: add \
                     `on_panic(OnPanic::Rebuild)`, or spawn the actor in a worker process"
                }
            }));
        }
        if (entry.checkpoint)().is_none() {
            return Err(refused(
                "the `#[actor]` block does not see `impl Checkpoint`: give the block the bounds that the `impl` has",
            ));
        }
        let rules = CheckpointRules {
            every,
            outlive_process,
            outlive_panic,
        };
        Ok(Some(Arc::new(Checkpoints::new(rules))))
    }
}

impl<A: Actor, T> Spawn<'_, A, AnyProcess<T>> {
    /// Sets the policy for the death of the actor's worker process; default [`Restart::Never`]. Any other one is an error
    /// ([`SpawnError::OptionWithoutEffect`]) for an actor that is spawned in this process.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets the policy for a panic in one of the actor's methods; default [`OnPanic::Keep`].
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self
    where
        T: Clone,
    {
        self.on_panic = on_panic;
        self
    }

    /// Sets an environment variable of the actor's own worker process, for [`in_process`](Self::in_process). At any other place
    /// the actor is refused ([`SpawnError::OptionWithoutEffect`]).
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Spawns the actor at `placement`.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn place(self, placement: Placement) -> Result<A::Handle, SpawnError>
    where
        T: Wire,
    {
        match placement {
            Placement::Inline => self.inline(),
            Placement::Thread => self.in_thread(),
            Placement::Process => self.in_process(),
        }
    }

    /// Spawns the actor in a worker process of its own.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn in_process(mut self) -> Result<A::Handle, SpawnError>
    where
        T: Wire,
    {
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
    pub fn in_worker(self, worker: &Worker) -> Result<A::Handle, SpawnError>
    where
        T: Wire,
    {
        let lane = worker.lane(self.name.clone());
        self.in_lane(&lane)
    }
}

impl<A: Actor> Spawn<'_, A, ThisProcess> {
    /// Drops the actor's state after a panic in one of its methods, and builds it again by `make`. Without this, the
    /// state stays as the panic left it.
    pub fn rebuild_with(mut self, mut make: impl FnMut() -> A + Send + 'static) -> Self {
        self.on_panic = OnPanic::Rebuild;
        let again = move || Ok(make().into_actor_state());
        self.factory.rebuild_with(Box::new(again));
        self
    }
}

/// Refuses a policy for the death of a worker process for an actor that lives in this process.
fn check_restart_unused(blueprint: &Blueprint, restart: Restart) -> Result<(), SpawnError> {
    if restart == Restart::Never {
        return Ok(());
    }
    Err(SpawnError::OptionWithoutEffect {
        actor: blueprint.name.to_string(),
        option: "restart",
        reason: "an actor in this process dies with it, and nobody starts it again: spawn it in a worker process, or leave `restart` out",
    })
}

/// Returns the entry of `A`, if the registry finds it by its key. Every worker then finds it too.
fn registered<A: Actor>() -> Result<&'static ActorEntry, SpawnError> {
    let used = A::entry();
    note_actor(used);
    let found = find_actor(&used.key())?;
    if found.id == used.id {
        return Ok(used);
    }
    Err(SpawnError::AmbiguousType {
        name: used.name,
        used: used.place,
        found: found.place,
    })
}

impl Inner {
    /// Lists an actor at its home and waits until it is built there.
    pub(crate) fn spawn_at(
        &self,
        blueprint: Blueprint,
        (home, keep): (Box<dyn Home>, Arc<LaneKeep>),
        restart: Restart,
    ) -> Result<ActorRef, SpawnError> {
        let record = Arc::new(ActorRecord::new(blueprint, home, restart));
        let control = self.control()?;
        self.directory.add_record(&record, Some(Arc::clone(&keep)));
        let limit = self.directory.limits().build;
        let (reply, mut answer) = promise();
        let sent = control.send(SupervisorMessage::AddActor {
            record: Arc::clone(&record),
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
                worker: record.home.worker().map_or_else(
                    || ProcessName::of_number(record.process().among_peers()),
                    |worker| worker.process_name(),
                ),
                reason: "it ended while the actor was built".to_owned(),
            }),
            None => {
                let actor = record.name().to_owned();
                Err(SpawnError::Timeout { actor, limit })
            }
        };
        // The lane may have been ended by a call that did not find this actor.
        match keep.still_there().and(built) {
            Ok(()) => Ok(ActorRef::new(record, &self.directory)),
            Err(error) => {
                // The actor may still be built, after its caller has stopped waiting; it is removed then.
                record.leave();
                self.directory.remove_record(record.id());
                if let Some(node) = record.node.get() {
                    node.send(NodeMessage::Stop);
                }
                Err(error.with_own_error())
            }
        }
    }

    /// Builds an inline actor, on the calling thread.
    pub(crate) fn spawn_inline(
        &self,
        blueprint: Blueprint,
        restart: Restart,
    ) -> Result<ActorRef, SpawnError> {
        if self.directory.is_closed() {
            return Err(SpawnError::Shutdown);
        }
        let home = Box::new(InlineHome::new(&blueprint, self.directory.inline_driver())?);
        let record = Arc::new(ActorRecord::new(blueprint, home, restart));
        self.directory.add_record(&record, None);
        Ok(ActorRef::new(record, &self.directory))
    }
}
