//! Workers of a manager are added to a runtime.

use std::sync::Arc;

use selvedge_cluster::handshake::Cookie;
use selvedge_cluster::manager::CommandError;
use selvedge_cluster::peer::ProcessId;
use thiserror::Error;

use super::adding::Adding;
use super::manager::ClusterManager;
use super::managing::Managing;
use crate::BoxError;
use crate::home::handles::Worker;
use crate::hub::notice::Secret;
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;
use crate::topology::Topology;

/// The reason that workers were not added. None of the call's workers was.
#[derive(Error)]
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
    /// A configuration has a machine and no way to use `ssh`, or the other way round.
    #[error("worker `{worker}` has {has}: set both, or neither")]
    HalfSsh {
        /// The name of the worker.
        worker: String,
        /// The one that it has, and the one that is missing.
        has: &'static str,
    },
    /// A worker did not start, or could not be reached.
    #[error(transparent)]
    Worker(#[from] SpawnError),
    /// The system gives no random numbers for the cookie.
    #[error("no cookie can be made: {0}")]
    Cookie(String),
    /// The workers have another topology already.
    #[error(
        "the workers of this runtime have the topology `{fixed}`, as the first manager that was added has said, not `{wanted}` \
         (help: give both managers one topology, or make another runtime)"
    )]
    TopologyFixed {
        /// The topology of the workers.
        fixed: Topology,
        /// The topology of the manager.
        wanted: Topology,
    },
    /// Another process than the driver has asked.
    #[error("{0} cannot add workers: only the process that made the runtime can")]
    NotTheDriver(ProcessId),
}

selvedge_channels::debug_is_report!(AddError);

impl Runtime {
    /// Starts the workers of a manager, and waits until all of them have joined. The workers come in the order of their numbers
    /// ([`Worker::process`]), in which they were started: first one for each configuration of the manager, then the others of
    /// those that say how many. No number is given twice.
    ///
    /// Such a worker is used like one of [`worker`](Self::worker): functions run there
    /// ([`on`](crate::RemoteCall::on)), actors live there, references and channels reach it, and graphs have actors there.
    ///
    /// # Errors
    /// [`AddError`]. Workers of this call that have joined are ended.
    pub fn add(&self, manager: impl ClusterManager + 'static) -> Result<Vec<Worker>, AddError> {
        let me = self.remote().me();
        if me != ProcessId::HEAD {
            return Err(AddError::NotTheDriver(me));
        }
        self.fix(manager.topology())?;
        let cookie = self.cookie()?;
        let manager: Arc<dyn ClusterManager> = Arc::new(manager);
        let managing = Managing::new(Arc::clone(&manager));
        // Without a worker, the manager goes with this seat.
        let _seat = managing.seat(0);
        self.inner().directory.note_manager(&managing);
        let mut adding = Adding::new(self, cookie, &managing);
        let launched = manager.launch(&mut |config| adding.begin(config));
        adding.finish(launched.map_err(AddError::Manager))
    }

    /// Fixes the topology of the workers, unless another one was fixed before.
    fn fix(&self, wanted: Topology) -> Result<(), AddError> {
        let directory = &self.inner().directory;
        let fixed = *directory.topology.get_or_init(|| {
            directory.hub.set_topology(wanted);
            wanted
        });
        match fixed == wanted {
            true => Ok(()),
            false => Err(AddError::TopologyFixed { fixed, wanted }),
        }
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
}
