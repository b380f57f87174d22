//! Managers: who decides which workers there are.

use selvedge_cluster::manager::WorkerConfig;

use crate::BoxError;

/// A source of workers: it says which ones to start, and how. [`LocalManager`](super::LocalManager) and
/// [`SshManager`](super::SshManager) are two; write one for anything else that can run a command.
///
/// ```
/// # #[cfg(all(feature = "hosts", target_os = "linux"))] {
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
    /// function goes on. The workers are numbered in this order.
    ///
    /// # Errors
    /// Any: [`Runtime::add`](crate::Runtime::add) then ends the workers of this call and returns the error.
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError>;
}
