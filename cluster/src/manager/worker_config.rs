//! All that a manager knows of a worker.

use std::any::Any;

use super::count::Count;
use super::machine::MachineSpec;
use super::ssh::SshOptions;
use super::worker_command::WorkerCommand;

/// A worker, or several on one host, as its manager has launched it (JMGR-13). Every field may be empty: a manager fills
/// in what its workers need. Neither the streams of a process nor its place are among the fields: the owner of the process has the one,
/// and a worker announces the other.
///
/// ```
/// use selvedge_cluster::manager::{Count, WorkerConfig};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = WorkerConfig::default().count(Count::Auto).user_data(17_u32);
/// assert_eq!(config.user_data_mut::<u32>(), Some(&mut 17));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct WorkerConfig {
    /// The workers to start on the host, by asking the first.
    pub count: Count,
    /// The command that starts a worker.
    pub command: Option<WorkerCommand>,
    /// The way in which `ssh` is used, if it is.
    pub ssh: Option<SshOptions>,
    /// The machine to which `ssh` connects.
    pub machine: Option<MachineSpec>,
    /// The name of the worker in a topology of the user's own.
    pub ident: Option<String>,
    /// The names of the workers that this worker dials, in a topology of the user's own.
    pub connect_idents: Vec<String>,
    user_data: Option<Box<dyn Any + Send>>,
}

impl WorkerConfig {
    /// Sets the number of workers on the host.
    #[must_use]
    pub fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Sets the command.
    #[must_use]
    pub fn command(mut self, command: WorkerCommand) -> Self {
        self.command = Some(command);
        self
    }

    /// Sets the way in which `ssh` is used.
    #[must_use]
    pub fn ssh(mut self, ssh: SshOptions) -> Self {
        self.ssh = Some(ssh);
        self
    }

    /// Sets the machine to which `ssh` connects.
    #[must_use]
    pub fn machine(mut self, machine: MachineSpec) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Sets the name in a topology of the user's own.
    #[must_use]
    pub fn ident(mut self, ident: impl Into<String>) -> Self {
        self.ident = Some(ident.into());
        self
    }

    /// Adds the name of a worker that this worker dials.
    #[must_use]
    pub fn connect_ident(mut self, ident: impl Into<String>) -> Self {
        self.connect_idents.push(ident.into());
        self
    }

    /// Sets the manager's own data. Nobody else looks at it (JMGR-16).
    #[must_use]
    pub fn user_data<T: Any + Send>(mut self, data: T) -> Self {
        self.user_data = Some(Box::new(data));
        self
    }

    /// The manager's own data, if it is a `T`.
    pub fn user_data_mut<T: Any + Send>(&mut self) -> Option<&mut T> {
        self.user_data.as_mut()?.downcast_mut()
    }
}
