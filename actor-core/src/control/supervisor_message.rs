//! The messages to the supervisor.

use std::sync::Arc;
use std::time::Instant;

use crate::actor_record::ActorRecord;
use crate::failure::Failure;
use crate::id::{ActorId, ProcessId};
use crate::promise::Promise;
use crate::spawn_error::SpawnError;
use crate::worker::launch::Launcher;
use crate::worker::output::Printer;
use crate::worker::record::WorkerRecord;

/// A message to the supervisor.
pub(crate) enum SupervisorMessage {
    /// Starts the actor's node, which builds the actor.
    AddActor {
        record: Arc<ActorRecord>,
        reply: Promise<Result<(), SpawnError>>,
    },
    /// Starts the worker's node, which launches the process. The process is started by `launcher`.
    AddWorker {
        record: Arc<WorkerRecord>,
        launcher: Arc<dyn Launcher>,
        reply: Promise<Result<(), SpawnError>>,
    },
    /// Ends all workers, then the control plane. The answer contains the names of the workers that had to be killed.
    Shutdown {
        deadline: Instant,
        reply: Promise<ControlReport>,
    },
    /// A worker has ended during the shutdown.
    WorkerGone {
        worker: ProcessId,
        killed: Option<String>,
    },
    /// The node of an actor has ended; it failed if there is a failure.
    ActorNodeEnded {
        actor: ActorId,
        failure: Option<Failure>,
    },
    /// The node of a worker has ended. The messages of that node have been handled before.
    WorkerNodeEnded {
        worker: ProcessId,
        failure: Option<Failure>,
    },
    /// The shutdown has exceeded its time: it ends without the nodes that are still awaited.
    Overdue,
}

/// The outcome of the end of the control plane.
pub(crate) struct ControlReport {
    /// Workers that had to be killed.
    pub(crate) killed: Vec<String>,
    /// The printer of workers' output. Its thread ends when the last line is printed.
    pub(crate) printer: Option<Printer>,
}
