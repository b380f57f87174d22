//! The messages to the nodes of actors and workers.

use std::time::Instant;

use crate::call::request::ActorCall;
use crate::death::Exit;
use crate::promise::Promise;
use crate::spawn_error::SpawnError;

/// A message to the node of an actor.
pub(crate) enum NodeMessage {
    /// Builds the actor at its home.
    Build(Promise<Result<(), SpawnError>>),
    /// Calls the actor.
    Call(ActorCall),
    /// Makes the node check the actor's state again.
    Changed,
    /// Stops the node of an actor that is not wanted any more.
    Stop,
}

/// A message to the node of a worker.
pub(crate) enum WorkerMessage {
    /// Launches the process for the first time.
    Start(Promise<Result<(), SpawnError>>),
    /// The process is dead, with this exit, and its death has been announced.
    Died(Exit),
    /// Interrupts the functions that run in the process.
    Interrupt,
    /// Ends the process, by force after the deadline.
    Shutdown { deadline: Instant },
}
