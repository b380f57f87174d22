//! Workers of a manager are added to a runtime.

use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::handshake::Cookie;
use selvedge_cluster::manager::{CommandError, WorkerConfig};
use selvedge_cluster::peer::ProcessId;
use thiserror::Error;

use super::launcher::CommandLauncher;
use super::manager::ClusterManager;
use crate::BoxError;
use crate::home::handles::{StartingWorker, Worker};
use crate::hub::notice::Secret;
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;

/// The time that workers get to end if one of them could not be added.
const END_GRACE: Duration = Duration::from_secs(2);

/// The reason that workers were not added. None of the call's workers was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AddError {
    /// The manager failed.
    #[error("the manager of workers failed: {0}")]
    Manager(#[source] BoxError),
    /// The command of a worker cannot be given to a process.
    #[error("worker `{worker}`: {error}")]
    Command {
        /// The name of the worker.
        worker: String,
        /// The part that is wrong.
        #[source]
        error: CommandError,
    },
    /// A configuration says neither by which command the worker is started nor where it is.
    #[error("worker `{worker}` has no command: set one by `WorkerConfig::command`")]
    NoCommand {
        /// The name of the worker.
        worker: String,
    },
    /// A worker did not start, or could not be reached.
    #[error(transparent)]
    Worker(#[from] SpawnError),
    /// The system gives no random numbers for the cookie.
    #[error("no cookie can be made: {0}")]
    Cookie(String),
    /// Another process than the driver has asked.
    #[error("{0} cannot add workers: only the process that made the runtime can")]
    NotTheDriver(ProcessId),
}

impl Runtime {
    /// Starts the workers of a manager, and waits until all of them have joined. The workers come in the manager's order.
    ///
    /// Such a worker is used like one of [`worker`](Self::worker): functions run there
    /// ([`on`](crate::RemoteCall::on)), actors live there, references and channels reach it. A graph can have actors there if
    /// the worker is on this host.
    ///
    /// # Errors
    /// [`AddError`]. Workers of this call that have joined are ended.
    pub fn add(&self, manager: impl ClusterManager) -> Result<Vec<Worker>, AddError> {
        let me = self.remote().me();
        if me != ProcessId::HEAD {
            return Err(AddError::NotTheDriver(me));
        }
        let cookie = self.cookie()?;
        let mut starting = Vec::new();
        let launched = manager.launch(&mut |config| starting.push(self.begin(config, &cookie)));
        let started = launched.map_err(AddError::Manager);
        let started = started.and_then(|()| starting.into_iter().collect::<Result<Vec<_>, _>>());
        // A worker whose handle is dropped ends.
        let starting = started?;
        let joined: Vec<_> = starting.into_iter().map(StartingWorker::wait).collect();
        if joined.iter().all(Result::is_ok) {
            return Ok(joined.into_iter().flatten().collect());
        }
        let mut first = None;
        for worker in joined {
            match worker {
                Ok(worker) => drop(worker.end(END_GRACE)),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(first.unwrap_or(SpawnError::Shutdown).into())
    }

    /// The cookie of the cluster, which is random, and made when it is first needed.
    fn cookie(&self) -> Result<Cookie, AddError> {
        let directory = &self.inner().directory;
        if let Some(cookie) = directory.cookie.get() {
            return Ok(cookie.clone());
        }
        let cookie = Cookie::random().map_err(|error| AddError::Cookie(error.to_string()))?;
        let cookie = directory.cookie.get_or_init(|| cookie).clone();
        directory.hub.set_cookie(Secret(cookie.text().as_ref().to_vec()));
        Ok(cookie)
    }

    /// Begins to start a worker.
    fn begin(&self, config: WorkerConfig, cookie: &Cookie) -> Result<StartingWorker, AddError> {
        let name = config.ident.unwrap_or_else(|| "worker".to_owned());
        let Some(command) = config.command else {
            return Err(AddError::NoCommand { worker: name });
        };
        let line = match (&config.ssh, &config.machine) {
            (Some(ssh), Some(machine)) => ssh.launch(machine, &command),
            _ => command.local(),
        };
        let line = line.map_err(|error| AddError::Command {
            worker: name.clone(),
            error,
        })?;
        // Over there, directory and variables are part of the command.
        let is_here = config.ssh.is_none();
        let launcher = CommandLauncher {
            line,
            directory: command.directory.filter(|_| is_here),
            environment: match is_here {
                true => command.environment.into_iter().collect(),
                false => Vec::new(),
            },
            cookie: cookie.clone(),
        };
        Ok(self.begin_worker(&name, Vec::new(), Arc::new(launcher))?)
    }
}
