//! Command lines of `ssh`.

use std::num::NonZeroUsize;

use super::address::WorkerAddress;
use super::command_error::CommandError;
use super::command_line::CommandLine;
use super::machine::MachineSpec;
use super::shell::quoted;
use super::tunnel_entry::TunnelEntry;
use super::worker_command::WorkerCommand;
use super::worker_place::WorkerPlace;

/// The socket of a shared connection. `ssh` puts the user's home for `~`, and a hash of both hosts, port and user for
/// `%C`, so the path is short whatever their names are.
const CONTROL_PATH: &str = "ControlPath=~/.ssh/selvedge-%C";

/// The way in which `ssh` is used. `ssh` starts workers and carries tunnels; all else is said over links of selvedge.
///
/// ```
/// use selvedge_cluster::manager::{SshOptions, WorkerCommand};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ssh = SshOptions::default().flag("-i").flag("/home/ada/.ssh/lab");
/// let line = ssh.launch(&"ada@gpu0".parse()?, &WorkerCommand::new("/opt/train"))?;
/// assert_eq!(line.arguments.last().map(String::as_str), Some("exec /opt/train --selvedge-worker"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SshOptions {
    /// The program; `ssh` by default.
    pub program: String,
    /// Flags of the user. They stand in front, and of two values for an option `ssh` takes the first.
    pub flags: Vec<String>,
    /// Whether links to the workers go through tunnels, so that only the port of `sshd` has to be open. Links between
    /// workers of different hosts need their ports all the same.
    pub tunnel: bool,
    /// Whether everything to a machine goes through one connection of `ssh`. A connection that is there is used, also that of
    /// another program of the user; else the first `ssh` makes it, and whatever uses it ends when that one is killed. So the workers
    /// of a machine have to end together: the end of the first one to start ends the others.
    pub multiplex: bool,
    /// The connections to one machine that may be made at a time; 10 by default.
    pub max_parallel: NonZeroUsize,
}

impl Default for SshOptions {
    fn default() -> Self {
        SshOptions {
            program: "ssh".to_owned(),
            flags: Vec::new(),
            tunnel: false,
            multiplex: false,
            max_parallel: const { NonZeroUsize::MIN.saturating_add(9) },
        }
    }
}

impl SshOptions {
    /// Sets the program.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = program.into();
        self
    }

    /// Adds a flag.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Sets whether links go through tunnels.
    #[must_use]
    pub fn tunnel(mut self, tunnel: bool) -> Self {
        self.tunnel = tunnel;
        self
    }

    /// Sets whether a machine's connection is shared.
    #[must_use]
    pub fn multiplex(mut self, multiplex: bool) -> Self {
        self.multiplex = multiplex;
        self
    }

    /// Sets the connections to one machine that may be made at a time.
    #[must_use]
    pub fn max_parallel(mut self, max_parallel: NonZeroUsize) -> Self {
        self.max_parallel = max_parallel;
        self
    }

    /// Starts a worker. If the command has no address to listen on, the machine's counts. Write the cookie to its standard input, in a line; read its announcement from its standard output.
    ///
    /// # Errors
    /// [`CommandError`]: a part of the command cannot be given to a process, or would tell a secret.
    pub fn launch(
        &self,
        machine: &MachineSpec,
        command: &WorkerCommand,
    ) -> Result<CommandLine, CommandError> {
        let forwardings = ["-o", "ClearAllForwardings=yes"].map(str::to_owned);
        let mut command = command.clone();
        command.bind = command.bind.or_else(|| machine.bind.clone());
        self.session(machine, forwardings, command.remote()?)
    }

    /// Opens a tunnel from `entry` to a worker. Once it is open, `ssh` writes the worker's announcement to its standard
    /// output. The tunnel ends when the standard input of `ssh` is closed and no link is left in it.
    ///
    /// # Errors
    /// [`CommandError::Nul`] for a flag.
    pub fn tunnel_to(
        &self,
        machine: &MachineSpec,
        entry: &TunnelEntry,
        worker: &WorkerAddress,
    ) -> Result<CommandLine, CommandError> {
        let announcement = WorkerPlace::Address(worker.clone()).announcement();
        let command = format!("echo {} && exec cat >/dev/null", quoted(announcement.trim())?);
        let mut forwardings = ["-o", "ExitOnForwardFailure=yes"].map(str::to_owned).to_vec();
        forwardings.extend(forwarding(entry, worker));
        self.session(machine, forwardings, command)
    }

    /// Opens a tunnel in the connection that is shared already. It is open when `ssh` has ended with status 0.
    ///
    /// # Errors
    /// [`CommandError::Nul`] for a flag.
    pub fn forward(
        &self,
        machine: &MachineSpec,
        entry: &TunnelEntry,
        worker: &WorkerAddress,
    ) -> Result<CommandLine, CommandError> {
        self.control(machine, "forward", forwarding(entry, worker))
    }

    /// Closes a tunnel of a shared connection.
    ///
    /// # Errors
    /// [`CommandError::Nul`] for a flag.
    pub fn cancel(
        &self,
        machine: &MachineSpec,
        entry: &TunnelEntry,
        worker: &WorkerAddress,
    ) -> Result<CommandLine, CommandError> {
        self.control(machine, "cancel", forwarding(entry, worker))
    }

    /// Asks whether there is a shared connection: `ssh` ends with status 0 if there is one.
    ///
    /// # Errors
    /// [`CommandError::Nul`] for a flag.
    pub fn check(&self, machine: &MachineSpec) -> Result<CommandLine, CommandError> {
        self.control(machine, "check", [])
    }

    /// A command on the machine, without a terminal and without a question to the user, on a connection that ends when the
    /// machine is silent.
    fn session(
        &self,
        machine: &MachineSpec,
        forwardings: impl IntoIterator<Item = String>,
        command: String,
    ) -> Result<CommandLine, CommandError> {
        let fixed = ["-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"];
        let alive = ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"];
        let shared = [
            "-o",
            "ControlMaster=auto",
            "-o",
            CONTROL_PATH,
            "-o",
            "ControlPersist=no",
        ];
        let mut arguments: Vec<String> = fixed.into_iter().chain(alive).map(str::to_owned).collect();
        if self.multiplex {
            arguments.extend(shared.map(str::to_owned));
        }
        arguments.extend(forwardings);
        arguments.extend(destination(machine));
        arguments.push(command);
        self.line(arguments)
    }

    /// A request to the master of the shared connection.
    fn control(
        &self,
        machine: &MachineSpec,
        request: &str,
        forwardings: impl IntoIterator<Item = String>,
    ) -> Result<CommandLine, CommandError> {
        let mut arguments = ["-O", request, "-o", CONTROL_PATH].map(str::to_owned).to_vec();
        arguments.extend(forwardings);
        arguments.extend(destination(machine));
        self.line(arguments)
    }

    fn line(&self, arguments: Vec<String>) -> Result<CommandLine, CommandError> {
        let arguments = [self.flags.clone(), arguments].concat();
        arguments.iter().try_for_each(|word| quoted(word).map(drop))?;
        let program = self.program.clone();
        Ok(CommandLine { program, arguments })
    }
}

fn forwarding(entry: &TunnelEntry, worker: &WorkerAddress) -> [String; 2] {
    ["-L".to_owned(), format!("{entry}:{worker}")]
}

fn destination(machine: &MachineSpec) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(port) = machine.port {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    if let Some(user) = &machine.user {
        words.extend(["-l".to_owned(), user.to_string()]);
    }
    words.push(machine.host.as_str().to_owned());
    words
}
