//! Managers: who decides which workers there are.

use selvedge_cluster::manager::{ManageEvent, WorkerCommand, WorkerConfig};
use selvedge_cluster::peer::ProcessId;

use super::dial_in::DialIn;
use super::link_transport::LinkTransport;
use crate::BoxError;
use crate::topology::Topology;

/// The command that runs this program as a worker.
///
/// # Errors
/// The path of this program is not known, or no text.
pub(super) fn this_program() -> Result<WorkerCommand, BoxError> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("the path of this program is no UTF-8")?;
    Ok(WorkerCommand::new(program))
}

/// The command that a user has given, or else that of this program.
///
/// # Errors
/// Those of [`this_program`].
pub(super) fn given_or_this_program(given: Option<&WorkerCommand>) -> Result<WorkerCommand, BoxError> {
    given.cloned().map_or_else(this_program, Ok)
}

/// A source of workers: it says which ones to start, and how. [`LocalManager`](super::LocalManager) and
/// [`SshManager`](super::SshManager) are two; write one for anything else that can run a command.
///
/// ```
/// # #[cfg(all(feature = "hosts", target_os = "linux"))] {
/// # use selvedge_core as selvedge;
/// use selvedge::hosts::{ClusterManager, WorkerCommand, WorkerConfig};
///
/// /// Workers in containers.
/// struct Containers(Vec<String>);
///
/// impl ClusterManager for Containers {
///     fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), selvedge::BoxError> {
///         for container in &self.0 {
///             let command = WorkerCommand::new("docker").argument("exec").argument("-i").argument(container);
///             out(WorkerConfig::default().ident(container).command(command.argument("/opt/train")));
///         }
///         Ok(())
///     }
/// }
/// # }
/// ```
pub trait ClusterManager: Send + Sync {
    /// Passes the configuration of each worker to `out`, as soon as it is known: the worker is started and connected while this
    /// function goes on. Do not wait here for a worker to join: some begin to start when this function has returned. A configuration that stands for several workers ([`WorkerConfig::count`]) starts one, which says how many
    /// cores there are, and then the others. Return when all configurations are passed.
    ///
    /// # Errors
    /// Any: [`Runtime::add`](crate::Runtime::add) then ends the workers of this call and returns the error.
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError>;

    /// Says which workers have links with each other. The first manager that is added decides; others with another topology are
    /// refused. By default, each worker reaches each, by a link that is made when it is needed.
    fn topology(&self) -> Topology {
        Topology::default()
    }

    /// The transport of the links with the workers and between them. The first manager that is added decides; others with another
    /// transport are refused. By default, TCP.
    fn transport(&self) -> LinkTransport {
        LinkTransport::default()
    }

    /// The place where workers dial in that are not started by a command: those whose configuration has none. By default there
    /// is none, and each configuration has a command.
    fn door(&self) -> Option<DialIn> {
        None
    }

    /// Is told of each process of a worker: [`Register`](ManageEvent::Register) when it has joined,
    /// [`Deregister`](ManageEvent::Deregister) when it is no member any more, or will not become one, and
    /// [`Finalize`](ManageEvent::Finalize) when it has ended. Each comes once for a process, in this order, and a process that
    /// does not join is not registered. A worker that is started again is another process with the same number.
    ///
    /// `config` is the configuration with which the worker was launched. One thread calls this function, for one event after the
    /// other, also while [`launch`](Self::launch) runs, and the end of the runtime waits up to 2 s for it. A panic is caught. The
    /// default does nothing.
    ///
    /// [`Interrupt`](ManageEvent::Interrupt) comes between the first two, for each [`Worker::interrupt`](crate::Worker::interrupt).
    fn manage(&self, _worker: ProcessId, _config: &mut WorkerConfig, _event: ManageEvent) {}
}
