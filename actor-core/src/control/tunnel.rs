//! Tunnels of `ssh`: the driver's way to a worker whose port is not open to it.

use std::io;
use std::process::{ChildStdin, Command};
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::manager::CommandLine;
use selvedge_cluster::net::Uds;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::launch_threads::LaunchThreads;
use super::worker_start::pump;
use crate::death::Exit;
use crate::platform::child::Process;
use crate::platform::launch::launch_command;
use crate::platform::link::{OutputPipe, output};
use crate::worker::launch::LaunchedChild;
use crate::worker::output::{LineQueue, Pump, Target};

/// The time that `ssh` gets to close a tunnel of a shared connection.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The means to run programs beside a worker.
#[derive(Clone)]
pub(super) struct SidePrograms {
    pub(super) threads: Arc<LaunchThreads>,
    pub(super) printer: LineQueue,
    /// The name of the worker.
    pub(super) worker: String,
}

/// A program that runs beside a worker. The drop kills and reaps it.
pub(super) struct SideProgram {
    process: Option<Process>,
    stderr: Arc<Pump>,
    /// The program's standard input, which ends with this object, and also with this process, however it dies.
    _input: Option<ChildStdin>,
}

impl SidePrograms {
    /// Starts a program, and returns its standard output.
    pub(super) async fn start(&self, line: CommandLine) -> io::Result<(SideProgram, OutputPipe)> {
        let launch = move || {
            let mut command = Command::new(&line.program);
            command.args(&line.arguments);
            launch_command(command, &[])
        };
        let launched = self.threads.start(launch)?.await;
        let (child, input) = launched.map_err(|_| io::Error::other("its launch thread has ended"))??;
        let LaunchedChild {
            pid,
            mut process,
            stdout,
            stderr,
        } = child;
        let child = process.watch();
        let child = child.ok_or_else(|| io::Error::other("a child without a descriptor"))?;
        let process = Some(Process::new(&child)?);
        let name = format!("{} tunnel", self.worker);
        let stderr = match output(stderr) {
            Ok(stderr) => pump(&name, pid, stderr, &[], Target::Err, &self.printer),
            Err(error) => {
                drop(Ending(process));
                return Err(error);
            }
        };
        let program = SideProgram {
            process,
            stderr,
            _input: input,
        };
        Ok((program, stdout))
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// The program does not end with status 0; its last words are in the text.
    pub(super) async fn run(&self, line: CommandLine) -> Result<(), String> {
        let started = self.start(line).await;
        let (program, _stdout) = started.map_err(|error| error.to_string())?;
        let exit = match &program.process {
            Some(process) => process.reap().await,
            None => Exit::Unknown,
        };
        match exit {
            Exit::Code(0) => Ok(()),
            exit => Err(program.words(&exit.to_string())),
        }
    }
}

impl SideProgram {
    /// A reason, with the last words of the program.
    pub(super) fn words(&self, reason: &str) -> String {
        self.stderr.drain();
        match self.stderr.tail().join("; ") {
            words if words.is_empty() => reason.to_owned(),
            words => format!("{reason}: {words}"),
        }
    }

    async fn end(mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
            process.reap().await;
        }
    }
}

impl Drop for SideProgram {
    fn drop(&mut self) {
        drop(Ending(self.process.take()));
    }
}

/// A process that is to end. The drop kills it, and has it reaped.
struct Ending(Option<Process>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let (Some(process), Ok(reactor)) = (self.0.take(), Handle::try_current()) {
            process.kill();
            reactor.spawn(async move { process.reap().await });
        }
    }
}

/// A tunnel to one worker. The drop closes it.
pub(crate) struct Tunnel {
    /// The directory in which the tunnel begins.
    pub(super) place: Uds,
    carrier: Option<Carrier>,
}

/// The program that carries a tunnel.
pub(super) enum Carrier {
    /// The tunnel's own.
    Own(SideProgram),
    /// Another one; this command takes the tunnel out of it.
    Shared(SidePrograms, CommandLine),
}

impl Tunnel {
    pub(super) fn new(place: Uds, carrier: Carrier) -> Self {
        let carrier = Some(carrier);
        Tunnel { place, carrier }
    }

    /// Closes the tunnel.
    pub(super) async fn end(mut self) {
        if let Some(carrier) = self.carrier.take() {
            carrier.end().await;
        }
    }
}

impl Carrier {
    async fn end(self) {
        match self {
            Carrier::Own(program) => program.end().await,
            Carrier::Shared(beside, cancel) => {
                // The connection may have ended before, and the tunnel with it.
                let _ = timeout(CANCEL_TIMEOUT, beside.run(cancel)).await;
            }
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if let (Some(carrier), Ok(reactor)) = (self.carrier.take(), Handle::try_current()) {
            reactor.spawn(carrier.end());
        }
    }
}
