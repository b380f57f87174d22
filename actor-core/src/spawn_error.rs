//! The errors of spawning actors, and of starting the lanes and workers where they live.

use std::time::Duration;

use crate::actor::registry::{UnknownActorType, typed};
use crate::cores::CoreError;
use crate::failure::Failure;
use crate::process_name::ProcessName;
use crate::short_name::short;
use crate::worker::launch::NotAllowed;

/// The reason that an actor or a worker was not spawned.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The actor's constructor failed or panicked.
    #[error("the constructor of actor `{actor}` failed: {failure}")]
    Constructor {
        /// The actor's name.
        actor: String,
        /// The failure of the constructor. [`Failure::Error`] holds the user's own error, if the constructor ran in this process or
        /// serde knows the error's type.
        failure: Failure,
    },
    /// The actor's thread cannot be pinned to the core that was named.
    #[error("actor `{actor}`: {reason}")]
    Core {
        /// The actor's name.
        actor: String,
        /// The reason.
        reason: String,
    },
    /// An option of the spawn would have no effect at the actor's place. Nothing was spawned.
    #[error("actor `{actor}`: `.{option}(..)` would have no effect: {reason}")]
    OptionWithoutEffect {
        /// The actor's name.
        actor: String,
        /// The option, a method of [`Spawn`](crate::Spawn).
        option: &'static str,
        /// The reason, and the help.
        reason: &'static str,
    },
    /// A concurrency of 0 was named.
    #[error(
        "actor `{actor}` with `concurrency(0)` could run no async method: set it to 1 or more, or leave it out"
    )]
    Concurrency {
        /// The actor's name.
        actor: String,
    },
    /// The actor cannot have the checkpoints that it was to have.
    #[error("the checkpoints of actor `{actor}`: {reason}")]
    Checkpoint {
        /// The actor's name.
        actor: String,
        /// The reason, and the help.
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
    /// The actor is built by a closure, and was to live in a worker process.
    #[error(
        "actor `{actor}` is built by a closure, which exists in this process only: spawn it inline or on a thread, or \
         give its type a constructor and use `Runtime::spawn`"
    )]
    ThisProcessOnly {
        /// The actor's name.
        actor: String,
    },
    /// The actor is to restart with its worker, which has dialled in, so nobody can start that again.
    #[error(
        "actor `{actor}` is to restart with {worker}, which has dialled in and cannot be started from here: leave out `restart`, or \
         spawn the actor in a worker that this process starts"
    )]
    NoRestart {
        /// The actor's name.
        actor: String,
        /// The worker.
        worker: ProcessName,
    },
    /// The actor's type is an instance of a generic type that worker processes cannot find.
    #[error(
        "actor `{actor}`: a worker process cannot find `{type_name}`, an instance of a generic type: name it where the type \
         becomes an actor, `#[actor(for({0}))]`, or elsewhere, `selvedge::register_actor!({0});`; or spawn it inline or on a thread",
        short(type_name)
    )]
    Unregistered {
        /// The actor's name.
        actor: String,
        /// The full name of the type.
        type_name: &'static str,
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
    #[error("{worker} could not be started: {error}")]
    Launch {
        /// The worker.
        worker: ProcessName,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The worker process did not say hello.
    #[error("{worker} did not say hello: {reason}{}", tail(stderr_tail))]
    NoHello {
        /// The worker.
        worker: ProcessName,
        /// The reason.
        reason: String,
        /// The last lines that the worker wrote to its standard error.
        stderr_tail: Vec<String>,
    },
    /// The worker is gone.
    #[error("{worker} is gone: {reason}")]
    Worker {
        /// The worker.
        worker: ProcessName,
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
    /// The actor's lane, in this process or in a worker, belongs to another runtime.
    #[error(
        "actor `{actor}` cannot live on lane `{lane}`: {} belongs to another runtime (help: spawn the actor by the runtime that has made \
         it)",
        worker.as_ref().map_or_else(|| "it".to_owned(), ToString::to_string)
    )]
    Foreign {
        /// The actor's name.
        actor: String,
        /// The lane's name.
        lane: String,
        /// The worker of the lane; `None` for a lane of this process.
        worker: Option<ProcessName>,
    },
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
    Control(std::io::Error),
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
    pub(crate) fn not_built(actor: String, failure: Failure) -> Self {
        let report = failure.report();
        if report.type_name == std::any::type_name::<CoreError>() {
            let reason = report.message;
            return SpawnError::Core { actor, reason };
        }
        SpawnError::Constructor { actor, failure }
    }

    /// The error with the user's own error in it, if a constructor has failed in another process and serde knows the type. This runs
    /// user code.
    pub(crate) fn with_own_error(self) -> Self {
        match self {
            SpawnError::Constructor { actor, failure } => SpawnError::Constructor {
                actor,
                failure: typed(failure),
            },
            error => error,
        }
    }

    /// The user's own error, if the constructor returned one of type `E`, and ran in this process or serde knows `E`.
    #[must_use]
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            SpawnError::Constructor { failure, .. } => failure.downcast_ref(),
            _ => None,
        }
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
