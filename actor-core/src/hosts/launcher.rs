//! The start of one worker by a command.

use std::io;
use std::process::Command;

use selvedge_cluster::handshake::Cookie;
use selvedge_cluster::manager::CommandLine;

use super::dialing::Dialing;
use crate::platform::launch::launch_command;
use crate::worker::launch::{Contact, Launched, Launcher};

/// The launcher of a worker that is started by a command and gets the cookie over its standard input.
pub(super) struct CommandLauncher {
    pub(super) line: CommandLine,
    pub(super) directory: Option<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) cookie: Cookie,
}

impl Launcher for CommandLauncher {
    fn launch(&self, _: &str, env: &[(String, String)]) -> io::Result<Launched> {
        let mut command = Command::new(&self.line.program);
        command.args(&self.line.arguments);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let variables = self.environment.iter().chain(env);
        command.envs(variables.map(|(name, value)| (name, value)));
        let child = launch_command(command, self.cookie.text().as_ref())?;
        let dialing = Dialing {
            cookie: self.cookie.clone(),
        };
        Ok(Launched {
            child,
            contact: Contact::Announced(dialing),
        })
    }
}
