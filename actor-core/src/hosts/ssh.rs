//! Workers on machines that are reached by `ssh`.

use std::path::Path;

use selvedge_cluster::manager::{Count, MachineSpec, SshOptions, WorkerCommand, WorkerConfig};

use super::manager::ClusterManager;
use crate::BoxError;

/// Workers on machines that `ssh` reaches without a question. Each machine needs this program at the path that it has here,
/// or at the one of [`command`](Self::command). `ssh` starts the workers; what is said to them goes over TCP, so their
/// ports must be open to this host and to each other.
#[derive(Clone, Debug)]
pub struct SshManager {
    machines: Vec<MachineSpec>,
    options: SshOptions,
    command: Option<WorkerCommand>,
}

impl SshManager {
    /// Workers on these machines.
    #[must_use]
    pub fn machines(machines: impl IntoIterator<Item = MachineSpec>) -> Self {
        SshManager {
            machines: machines.into_iter().collect(),
            options: SshOptions::default(),
            command: None,
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

    fn worker_command(&self) -> Result<WorkerCommand, BoxError> {
        if let Some(command) = &self.command {
            return Ok(command.clone());
        }
        let program = std::env::current_exe()?;
        let program = program.to_str().ok_or("the path of this program is no UTF-8")?;
        Ok(WorkerCommand::new(program))
    }
}

impl ClusterManager for SshManager {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError> {
        let command = self.worker_command()?;
        for machine in &self.machines {
            let Count::Exactly(count) = machine.count else {
                return Err(
                    format!("`{machine}`: `auto` is not implemented: write the number of workers").into(),
                );
            };
            for number in 1..=count.get() {
                let mut command = command.clone();
                if number > 1 {
                    // The port of the machine's line is the first worker's.
                    command.bind = machine
                        .bind
                        .clone()
                        .map(|bind| selvedge_cluster::manager::BindAddress { port: None, ..bind });
                }
                let ident = match count.get() {
                    1 => machine.host.as_str().to_owned(),
                    _ => format!("{} {number}", machine.host.as_str()),
                };
                let config = WorkerConfig::default()
                    .ident(ident)
                    .command(command)
                    .ssh(self.options.clone())
                    .machine(machine.clone());
                out(config);
            }
        }
        Ok(())
    }
}
