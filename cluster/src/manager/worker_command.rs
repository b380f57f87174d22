//! The command that becomes a worker.

use std::collections::BTreeMap;

use super::address::BindAddress;
use super::command_error::CommandError;
use super::command_line::CommandLine;
use super::printable::excerpt;
use super::shell::{quoted, sentence};
use super::worker_tls::{WorkerLinks, WorkerTls};
use crate::handshake::CookieSource;

/// The flag that makes a process a worker, which reads the cookie from the first line of its standard input.
pub const WORKER_FLAG: &str = "--selvedge-worker";
/// The flag before the address on which a worker listens; it stands behind [`WORKER_FLAG`].
pub const BIND_FLAG: &str = "--bind-to";

/// The program that becomes a worker, with all that it is started with. The cookie is not among it: it goes to the
/// process's standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCommand {
    /// The program: a path, or a name that is looked up, on the worker's host.
    pub program: String,
    /// The program's own arguments. They come before those of selvedge.
    pub arguments: Vec<String>,
    /// The directory to start in; `None` for the one of the launcher, or of the user's login.
    pub directory: Option<String>,
    /// Variables to set in the environment. Other users of the host can read them.
    pub environment: BTreeMap<String, String>,
    /// The address to listen on; `None` for the host's own address and a free port.
    pub bind: Option<BindAddress>,
    /// The transport of the worker's links.
    pub links: WorkerLinks,
}

impl WorkerCommand {
    /// The command that runs a program without arguments of its own.
    pub fn new(program: impl Into<String>) -> Self {
        WorkerCommand {
            program: program.into(),
            arguments: Vec::new(),
            directory: None,
            environment: BTreeMap::new(),
            bind: None,
            links: WorkerLinks::Tcp,
        }
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets the directory to start in.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the address to listen on.
    #[must_use]
    pub fn bind(mut self, bind: BindAddress) -> Self {
        self.bind = Some(bind);
        self
    }

    /// Sets the transport of the worker's links. `Runtime::add` sets the one of the manager.
    #[must_use]
    pub fn links(mut self, links: WorkerLinks) -> Self {
        self.links = links;
        self
    }

    /// The command line on the host of the worker. Directory and environment are the launcher's to set.
    ///
    /// # Errors
    /// [`CommandError`]: a part cannot be given to a process, or would tell a secret.
    pub fn local(&self) -> Result<CommandLine, CommandError> {
        self.check()?;
        let mut arguments = self.arguments.clone();
        arguments.extend(self.flags());
        let program = self.program.clone();
        Ok(CommandLine { program, arguments })
    }

    /// The command as one text for the shell of another host. The shell is replaced by the worker.
    ///
    /// # Errors
    /// [`CommandError`]: a part cannot be given to a process, or would tell a secret.
    pub fn remote(&self) -> Result<String, CommandError> {
        let CommandLine { program, arguments } = self.local()?;
        let mut words = vec!["exec".to_owned()];
        if !self.environment.is_empty() {
            let variables = self.environment.iter();
            words.push("env".to_owned());
            words.extend(variables.map(|(name, value)| format!("{name}={value}")));
        }
        words.push(program);
        words.extend(arguments);
        let start = sentence(&words)?;
        match &self.directory {
            Some(directory) => Ok(format!("cd -- {} && {start}", quoted(directory)?)),
            None => Ok(start),
        }
    }

    /// The flags of a worker. A program with a transport of its own has none: it makes itself a worker.
    fn flags(&self) -> Vec<String> {
        let tls = match &self.links {
            WorkerLinks::Tcp => None,
            WorkerLinks::Tls(tls) => Some(tls),
            WorkerLinks::Own => return Vec::new(),
        };
        let bind = self
            .bind
            .as_ref()
            .map(|bind| [BIND_FLAG.to_owned(), bind.to_string()]);
        let bind = bind.into_iter().flatten();
        let first = [WORKER_FLAG.to_owned()].into_iter();
        first
            .chain(bind)
            .chain(tls.into_iter().flat_map(WorkerTls::flags))
            .collect()
    }

    fn check(&self) -> Result<(), CommandError> {
        if self.program.is_empty() || self.program.starts_with('-') || self.program.contains('=') {
            let program = excerpt(&self.program);
            return Err(CommandError::Program { program });
        }
        for name in self.environment.keys() {
            if !is_variable(name) {
                let name = excerpt(name);
                return Err(CommandError::Variable { name });
            }
            if name == CookieSource::VARIABLE {
                return Err(CommandError::Secret { name: name.clone() });
            }
        }
        let flags = self.flags();
        let words = self
            .arguments
            .iter()
            .chain(self.environment.values())
            .chain(&flags);
        let mut words = words.chain(&self.directory).chain([&self.program]);
        match words.find(|word| word.contains('\0')) {
            Some(word) => Err(CommandError::Nul { word: excerpt(word) }),
            None => Ok(()),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|first: char| !first.is_ascii_digit()) && name.bytes().all(is_allowed)
}
