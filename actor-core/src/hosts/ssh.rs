//! Workers on machines that are reached by `ssh`.

use std::path::Path;

use selvedge_cluster::manager::{MachineSpec, SshOptions, WorkerCommand, WorkerConfig};

use super::manager::{ClusterManager, given_or_this_program};
use super::terms::{Terms, terms_getters, terms_setters};
use crate::BoxError;

/// Workers on machines that `ssh` reaches without a question. Each machine needs this program at the path that it has here,
/// or at the one of [`command`](Self::command). `ssh` starts the workers; what is said to them goes over TCP, so their
/// ports must be open to this host, unless it goes through tunnels ([`SshOptions::tunnel`]), and to each other.
///
/// If a machine has several workers, the first of them says how many cores there are, and the others are started then; a port
/// in the machine's bind address is the first worker's.
#[derive(Clone, Debug)]
pub struct SshManager {
    machines: Vec<MachineSpec>,
    options: SshOptions,
    command: Option<WorkerCommand>,
    terms: Terms,
}

impl SshManager {
    /// Workers on these machines.
    #[must_use]
    pub fn machines(machines: impl IntoIterator<Item = MachineSpec>) -> Self {
        SshManager {
            machines: machines.into_iter().collect(),
            options: SshOptions::default(),
            command: None,
            terms: Terms::default(),
        }
    }

    /// Workers on the machines of a file: a line `[count*][user@]host[:port] [bind_address[:port]]` each, and comments
    /// with `#`.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is wrong ([`MachineSpecError`](super::MachineSpecError)).
    pub fn file(path: impl AsRef<Path>) -> Result<Self, BoxError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let machines = MachineSpec::parse_file(&text);
        let machines = machines.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self::machines(machines))
    }

    /// Sets how `ssh` is used.
    #[must_use]
    pub fn options(mut self, options: SshOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the command that starts a worker on each machine.
    #[must_use]
    pub fn command(mut self, command: WorkerCommand) -> Self {
        self.command = Some(command);
        self
    }
}

terms_setters!(SshManager);

impl ClusterManager for SshManager {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError> {
        let command = given_or_this_program(self.command.as_ref())?;
        for machine in &self.machines {
            let config = WorkerConfig::default()
                .ident(machine.host.as_str())
                .count(machine.count)
                .command(command.clone())
                .ssh(self.options.clone())
                .machine(machine.clone());
            out(config);
        }
        Ok(())
    }

    terms_getters!();
}
