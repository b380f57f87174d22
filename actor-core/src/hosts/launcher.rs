//! The start of one worker by a command.

use std::io;
use std::process::Command;
use std::time::Duration;

use selvedge_cluster::manager::{CommandLine, ManageEvent};
use selvedge_cluster::peer::ProcessId;

use super::dialing::Dialing;
use super::guests::Guests;
use super::managing::Seat;
use crate::platform::launch::launch_command;
use crate::worker::launch::{Contact, Launched, Launcher};

/// The launcher of a worker that is started by a command and gets the cookie over its standard input.
pub(super) struct CommandLauncher {
    pub(super) line: CommandLine,
    pub(super) directory: Option<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) dialing: Box<Dialing>,
    pub(super) seat: Seat,
    /// The machine, if `ssh` reaches it.
    pub(super) place: Option<String>,
}

/// The launcher of a process that dials in, is there, or comes back: it launches nothing.
pub(super) struct GuestLauncher {
    pub(super) guests: Guests,
    pub(super) wait: Duration,
    /// The seat of the manager, if the process has one.
    pub(super) seat: Option<Seat>,
}

impl Launcher for GuestLauncher {
    fn launch(&self, _: &str, _: &[(String, String)]) -> io::Result<Launched> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn time_limit(&self, _: Duration) -> Duration {
        self.wait
    }

    fn guests(&self) -> Option<Guests> {
        Some(self.guests.clone())
    }

    fn tell(&self, worker: ProcessId, event: ManageEvent) {
        if let Some(seat) = &self.seat {
            seat.tell(worker, event);
        }
    }
}

/// The time that a worker gets at least: a login on another host may take long.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The time between SIGQUIT and SIGKILL. Whoever ends a worker waits a little longer than that beyond its grace.
const QUIT_PAUSE: Duration = Duration::from_secs(1);

impl Launcher for CommandLauncher {
    fn time_limit(&self, hello: Duration) -> Duration {
        hello.max(JOIN_TIMEOUT)
    }

    fn launch(&self, _: &str, env: &[(String, String)]) -> io::Result<Launched> {
        let mut command = Command::new(&self.line.program);
        command.args(&self.line.arguments);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let variables = self.environment.iter().chain(env);
        command.envs(variables.map(|(name, value)| (name, value)));
        let Dialing {
            cookie, transport, ..
        } = &*self.dialing;
        let input = transport.input(cookie).map_err(io::Error::other)?;
        // The worker closes its input as soon as it has read this.
        let (child, _) = launch_command(command, input.bytes())?;
        Ok(Launched {
            child,
            contact: Contact::Announced(self.dialing.clone()),
        })
    }

    fn quit_pause(&self) -> Option<Duration> {
        Some(QUIT_PAUSE)
    }

    fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    fn tell(&self, worker: ProcessId, event: ManageEvent) {
        self.seat.tell(worker, event);
    }
}
