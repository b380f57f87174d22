//! Workers of a manager are added to a runtime.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::handshake::{Cookie, CookieError, CookieSource, NoRandomness};
use selvedge_cluster::manager::CommandError;
use selvedge_cluster::peer::ProcessId;
use thiserror::Error;

use super::adding::Adding;
use super::agreement::{AddTurn, NoTurn};
use super::dial_in::{DialIn, Invitation};
use super::door::{DoorError, LetIn};
use super::link_transport::LinkTransport;
use super::manager::ClusterManager;
use super::managing::Managing;
use super::terms::Terms;
use crate::BoxError;
use crate::failure::WithSources;
use crate::home::handles::Worker;
use crate::process_name::ProcessName;
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;
use crate::topology::Topology;

/// The reason that workers were not added. None of the call's workers was.
#[derive(Error)]
#[non_exhaustive]
pub enum AddError {
    /// The manager failed.
    #[error("the manager of workers failed: {}", WithSources(.0.as_ref()))]
    Manager(BoxError),
    /// The command of a worker cannot be given to a process.
    #[error("worker `{worker}`: {error}")]
    Command {
        /// The name of the worker.
        worker: String,
        /// The part that is wrong.
        error: CommandError,
    },
    /// A configuration does not say by which command the worker is started, and the manager has no door.
    #[error(
        "worker `{worker}` has no command: set one by `WorkerConfig::command`, or let workers dial in by `ClusterManager::door`"
    )]
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
    /// Fewer workers have dialled in than were expected. Those that have are ended.
    #[error(
        "{} of {expected} workers dialled in at {at} within {waited:?}{}{} (help: start them with `--selvedge-worker --dial HOST:PORT`; \
         DialIn::within sets this time)",
        came.len(),
        names_of(came),
        refusal_of(refused.as_deref())
    )]
    NotAllCame {
        /// The address at which they were heard.
        at: SocketAddr,
        /// The number of workers that were expected.
        expected: usize,
        /// The workers that came.
        came: Vec<ProcessName>,
        /// The time that the wait lasted.
        waited: Duration,
        /// The last process that was refused, and why.
        refused: Option<String>,
    },
    /// Workers of another runtime dial in at this port.
    #[error("workers of another runtime dial in at {at}: make a `DialIn` for each runtime")]
    DoorUsed {
        /// The address.
        at: SocketAddr,
    },
    /// Workers cannot dial in over a transport of the user's own.
    #[error("workers dial in over TCP or TLS, and the transport is `{transport}`: leave out one of the two")]
    NoDoor {
        /// The name of the transport.
        transport: String,
    },
    /// A worker did not start, or could not be reached.
    #[error(transparent)]
    Worker(#[from] SpawnError),
    /// The system gives no random numbers for the cookie.
    #[error(transparent)]
    Cookie(#[from] NoRandomness),
    /// The keys for links under TLS cannot be made or used.
    #[error("the keys for the links of workers: {}", WithSources(.0.as_ref()))]
    Keys(BoxError),
    /// A worker is reached through a tunnel of `ssh`, and the transport is the user's own.
    #[error(
        "worker `{worker}` is behind a tunnel of `ssh`, which carries TCP, and the transport is `{transport}`: leave out one of the two"
    )]
    NoTunnel {
        /// The name of the worker.
        worker: String,
        /// The name of the transport.
        transport: String,
    },
    /// The manager has called [`Runtime::add`] while it launched workers.
    #[error("workers cannot be added while a manager launches others: return from `launch` first")]
    WithinAdd,
    /// Another call adds workers, and has not ended in time.
    #[error("another call of `Runtime::add` has not ended within {waited:?}: call again when it has")]
    Busy {
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// The workers have another transport already.
    #[error(
        "the workers of this runtime have the transport `{fixed}`, as the first manager that was added has said, not `{wanted}` \
         (help: give both managers clones of one `LinkTransport`, or make another runtime)"
    )]
    TransportFixed {
        /// The transport of the workers.
        fixed: String,
        /// The transport of the manager.
        wanted: String,
    },
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

impl AddError {
    fn of_door(error: DoorError, at: SocketAddr, transport: &LinkTransport) -> Self {
        match error {
            DoorError::Used => AddError::DoorUsed { at },
            DoorError::NoPorts => AddError::NoDoor {
                transport: transport.to_string(),
            },
            DoorError::Keys(error) => AddError::Keys(error),
        }
    }
}

impl From<NoTurn> for AddError {
    fn from(reason: NoTurn) -> Self {
        match reason {
            NoTurn::WithinAdd => AddError::WithinAdd,
            NoTurn::Busy { waited } => AddError::Busy { waited },
            NoTurn::Topology { fixed, wanted } => AddError::TopologyFixed { fixed, wanted },
            NoTurn::Transport { fixed, wanted } => AddError::TransportFixed { fixed, wanted },
        }
    }
}

fn names_of(came: &[ProcessName]) -> String {
    let names: Vec<String> = came.iter().map(ProcessName::to_string).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(": {}", names.join(", "))
}

fn refusal_of(refused: Option<&str>) -> String {
    refused.map_or_else(String::new, |why| {
        format!("; the last one that was refused: {why}")
    })
}

/// The time for which a call waits for another one at least.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

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
        self.check_head()?;
        let terms = Terms {
            topology: manager.topology(),
            transport: manager.transport(),
        };
        let directory = &self.inner().directory;
        let turn = self.turn(terms)?;
        let (cookie, transport) = (directory.agreement.cookie()?, turn.terms.transport.clone());
        let manager: Arc<dyn ClusterManager> = Arc::new(manager);
        let managing = Managing::new(Arc::clone(&manager));
        let door = manager.door();
        if let Some(door) = &door {
            self.open(door, &turn.terms, None)?;
        }
        // Without a worker, the manager goes with this seat.
        let _seat = managing.seat(0);
        directory.note_manager(&managing);
        let mut adding = Adding::new(self, cookie, transport, &managing, door);
        let launched = manager.launch(&mut |config| adding.begin(config));
        let workers = adding.finish(launched.map_err(AddError::Manager))?;
        if !workers.is_empty() {
            turn.fix();
        }
        Ok(workers)
    }

    /// Whether this process has made the runtime.
    pub(super) fn check_head(&self) -> Result<(), AddError> {
        match self.remote().me() {
            ProcessId::HEAD => Ok(()),
            me => Err(AddError::NotTheDriver(me)),
        }
    }

    /// Begins to add processes on these terms.
    pub(super) fn turn(&self, terms: Terms) -> Result<AddTurn<'_>, AddError> {
        let directory = &self.inner().directory;
        let limit = directory.limits().hello.max(TURN_TIMEOUT);
        let turn = directory.agreement.begin(terms, limit)?;
        directory.hub.set_topology(turn.terms.topology);
        let keys = turn.terms.transport.keys(&directory.agreement.cookie()?);
        directory.hub.set_keys(keys.map_err(AddError::Keys)?.secret());
        Ok(turn)
    }

    /// Opens a door, unless it is open. With `jobs`, jobs are let in there.
    pub(super) fn open(&self, door: &DialIn, terms: &Terms, jobs: Option<LetIn>) -> Result<(), AddError> {
        let (directory, transport) = (&self.inner().directory, &terms.transport);
        self.inner().control()?;
        let opened = door
            .door()
            .open(&directory.hub, directory.agreement.cookie()?, transport, jobs);
        opened.map_err(|error| AddError::of_door(error, door.address(), transport))
    }

    /// Sets the cookie of the workers of managers, by which all processes know each other, before the first of them is added.
    /// Without a call, the cookie is random.
    ///
    /// ```
    /// # #[cfg(feature = "hosts")] {
    /// # use selvedge_core as selvedge;
    /// use selvedge::Runtime;
    /// use selvedge::hosts::{Cookie, CookieSource};
    ///
    /// let runtime = Runtime::new();
    /// runtime.set_cookie(&CookieSource::Given(Cookie::new([7; 32]))).unwrap(); // or a file that only its owner may read
    /// assert_eq!(runtime.cookie().unwrap().text().as_ref(), format!("{}\n", "07".repeat(32)).as_bytes());
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SetCookieError`]: there is no cookie at the source, or the runtime has one.
    pub fn set_cookie(&self, source: &CookieSource) -> Result<(), SetCookieError> {
        let cookie = source.read(&mut std::io::stdin().lock())?;
        match self.inner().directory.agreement.set_cookie(cookie) {
            true => Ok(()),
            false => Err(SetCookieError::Fixed),
        }
    }

    /// All that a worker needs to dial in at this door. Any number of workers may have the same invitation.
    ///
    /// # Errors
    /// The system gives no random numbers, or the credentials of the transport cannot be made.
    pub fn invitation(&self, door: &DialIn) -> Result<Invitation, AddError> {
        let input = door.transport().input(&self.cookie()?);
        Ok(Invitation(input.map_err(AddError::Keys)?))
    }

    /// The cookie of the workers of managers, which is made now if there is none: for managers that start their workers
    /// themselves, with a transport of their own ([`init_worker`](crate::hosts::init_worker)).
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn cookie(&self) -> Result<Cookie, NoRandomness> {
        self.inner().directory.agreement.cookie()
    }
}

/// The reason that a cookie was not set.
#[derive(Error)]
#[non_exhaustive]
pub enum SetCookieError {
    /// The source has no cookie.
    #[error(transparent)]
    Source(#[from] CookieError),
    /// The runtime has a cookie: it was set before, or workers were added.
    #[error("the runtime has a cookie already: set it once, before workers are added")]
    Fixed,
}

selvedge_channels::debug_is_report!(SetCookieError);
