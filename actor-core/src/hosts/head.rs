//! A process that is only a head: it lets workers and jobs in, and runs nothing itself.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use selvedge_cluster::handshake::{Cookie, CookieError, CookieSource, NoRandomness};
use selvedge_cluster::peer::{Incarnation, Peer};
use thiserror::Error;

use super::add::AddError;
use super::dial_in::{DialIn, Invitation};
use super::guests::Guests;
use super::reception::add;
use super::rejoin_terms::RejoinTerms;
use super::restored_names::restore_names;
use crate::actor::registry::registry_hash;
use crate::directory::{Directory, Keeping};
use crate::head_log::error::HeadLogError;
use crate::head_log::{HeadLog, HeadState, LogFile, LogHeader, MemberPart};
use crate::id::ProcessId;
use crate::inspect::MemberInfo;
use crate::platform::build_id;
use crate::runtime::{Runtime, ShutdownReport};
use crate::spawn_error::SpawnError;
use crate::worker::record::WorkerRecord;

/// The time that the members of a head's last life have to come back.
const GRACE: Duration = Duration::from_secs(60);

/// The hexadecimal digits of the id of a cluster: 128 bits.
const CLUSTER_ID_DIGITS: usize = 32;

/// A head to be: where it listens, and whether it has a log.
///
/// ```no_run
/// # #[cfg(feature = "hosts")] {
/// # use selvedge_core as selvedge;
/// use selvedge::Runtime;
/// use selvedge::hosts::{CookieSource, DialIn, HeadOptions};
///
/// # fn main() -> Result<(), selvedge::BoxError> {
/// // In `main`, behind `selvedge::init()` and a flag of your own such as `--head`.
/// let door = DialIn::listen("0.0.0.0:7447")?;
/// let cookie = CookieSource::File("train.invitation".into());
/// let head = Runtime::head(HeadOptions::at(door, cookie).log("/var/lib/train/head.log"))?;
/// head.serve()?;
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HeadOptions {
    door: DialIn,
    cookie: CookieSource,
    log: Option<PathBuf>,
    cluster: String,
    grace: Duration,
    silence: Option<Duration>,
}

impl HeadOptions {
    /// A head that listens at this door, and lets in who knows this cookie. Each life of a head has the same address and cookie.
    #[must_use]
    pub fn at(door: DialIn, cookie: CookieSource) -> Self {
        HeadOptions {
            door,
            cookie,
            log: None,
            cluster: "selvedge".to_owned(),
            grace: GRACE,
            silence: None,
        }
    }

    /// Has the head log who is a member, in this file, which is made if it is not there. Then the workers that have dialled in outlive
    /// the head, and its next life, with the same log, address and cookie, has them as members again. A file beside the log, of
    /// its name with `.lock`, keeps two heads apart. Without a log, all members end with the head.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Sets the name of the cluster, which keeps a head from the log of another cluster: by default `selvedge`.
    #[must_use]
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets how long workers look for the next life of a head with a log, and how long that waits for each of them: by default 60 s.
    /// Workers are told when they join.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the time for which a member may give no sign of life before it is dead, as [`Runtime::silence_timeout`] does.
    #[must_use]
    pub fn silence_timeout(mut self, limit: Duration) -> Self {
        self.silence = Some(limit);
        self
    }
}

/// The reason that there is no head, or that it has ended.
#[derive(Error)]
#[non_exhaustive]
pub enum HeadError {
    /// No cookie is at the source.
    #[error(transparent)]
    Cookie(#[from] CookieError),
    /// The system gives no random numbers for the id of a new cluster.
    #[error(transparent)]
    ClusterId(#[from] NoRandomness),
    /// The log cannot be used. A head whose log cannot be written any more decides nothing, so it ends.
    #[error(transparent)]
    Log(#[from] HeadLogError),
    /// The door cannot be opened.
    #[error(transparent)]
    Door(#[from] AddError),
    /// The system refuses a thread.
    #[error("the threads of the head: {0}")]
    System(io::Error),
    /// The control thread does not start.
    #[error(transparent)]
    Control(#[from] SpawnError),
}

selvedge_channels::debug_is_report!(HeadError);

/// The end that a head waits for: somebody stops it, or its log fails.
type HeadEnd = Option<HeadLogError>;

/// A running head. It says who is a member, gives numbers, schedules what jobs submit, and owns what they put; it runs no
/// function itself. The drop ends it, and all members with it.
///
/// If the process of a head *with a log* is killed, its workers live on. They dial its address until the next life of the head lets
/// them in, under their old numbers, and they keep the values that they hold for others, and that have [names](Runtime::name). What was the dead head's is lost: submitted
/// calls, and values that were put. Jobs end, as they do with every head, and connect again.
pub struct HeadProcess {
    runtime: Runtime,
    door: DialIn,
    log: Option<Arc<HeadLog>>,
    stop: Sender<HeadEnd>,
    ends: Receiver<HeadEnd>,
}

/// Stops a head, from any thread. It locks, so it is nothing for a handler of signals.
#[derive(Clone, Debug)]
pub struct HeadStopper(Sender<HeadEnd>);

impl HeadStopper {
    /// Ends [`HeadProcess::serve`].
    pub fn stop(&self) {
        // A head that is gone has stopped.
        let _ = self.0.send(None);
    }
}

impl Runtime {
    /// Makes this process a head and nothing else: workers ([`DialIn`] says how they are started) and jobs ([`connect`](Self::connect)) are
    /// let in as they come.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn head(options: HeadOptions) -> Result<HeadProcess, HeadError> {
        let cookie = options.cookie.read(&mut io::stdin().lock())?;
        let (stop, ends) = unbounded();
        let file = match &options.log {
            Some(path) => Some(LogFile::open(path, header(options.cluster)?)?),
            None => None,
        };
        let state = file.as_ref().map(|file| file.state().clone());
        let state = state.unwrap_or_else(HeadState::new);
        ProcessId::skip_to(state.next);
        let directory = Arc::new(Directory::of_life(Incarnation(state.head.0.max(1))));
        let back: Vec<Peer> = state.of_part(MemberPart::Guest).map(|(peer, _)| peer).collect();
        directory.hub.note_only_head(state.next, back);
        let log = match file {
            Some(file) => Some(keep(&directory, file, options.grace, stop.clone())?),
            None => None,
        };
        directory.agreement.set_cookie(cookie);
        let mut runtime = Runtime::of_directory(directory);
        if let Some(limit) = options.silence {
            runtime = runtime.silence_timeout(limit);
        }
        if let Some(log) = &log {
            restore_names(&runtime, &state, log);
        }
        let head = HeadProcess {
            runtime,
            door: options.door,
            log,
            stop,
            ends,
        };
        let opened = head.open(&state, options.grace);
        if let (Err(_), Some(log)) = (&opened, &head.log) {
            // Its end is not that of the members, which may come back to the next one. So it is not logged.
            log.end();
        }
        opened.map(|()| head)
    }
}

/// The beginning of a new log.
fn header(cluster: String) -> Result<LogHeader, NoRandomness> {
    let random = Cookie::random()?.text();
    let digits = random.as_ref().iter().take(CLUSTER_ID_DIGITS);
    Ok(LogHeader {
        cluster,
        build: build_id::of_this_program(),
        registry: registry_hash(),
        cluster_id: digits.map(|digit| char::from(*digit)).collect(),
    })
}

/// Starts to keep a log.
fn keep(
    directory: &Directory,
    file: LogFile,
    within: Duration,
    failed: Sender<HeadEnd>,
) -> Result<Arc<HeadLog>, HeadError> {
    let cluster_id = file.header().cluster_id.clone();
    let log = HeadLog::start(file, move |error| {
        // A head that is gone writes nothing.
        let _ = failed.send(Some(error));
    });
    let log = Arc::new(log.map_err(HeadError::System)?);
    let keeping = Keeping {
        log: Arc::clone(&log),
        terms: RejoinTerms { within, cluster_id },
    };
    // A new directory has no log.
    let _ = directory.keeping.set(keeping);
    Ok(log)
}

impl HeadProcess {
    /// Lets in the members of the last life, jobs, and workers.
    fn open(&self, state: &HeadState, grace: Duration) -> Result<(), HeadError> {
        self.await_members(state, grace)?;
        self.runtime.accept_jobs(&self.door)?;
        Ok(self.runtime.accept_workers(&self.door)?)
    }

    /// Waits for the members of the last life, which may come back as soon as the door is open.
    fn await_members(&self, state: &HeadState, grace: Duration) -> Result<(), SpawnError> {
        let inner = self.runtime.inner();
        let supervisor = inner.control()?.supervisor();
        for (peer, member) in state.of_part(MemberPart::Guest) {
            let mut record = WorkerRecord::new(ProcessId::of_peer(peer.process), &member.name, Vec::new());
            record.place = member.host.as_deref().map(Into::into);
            record.is_guest = true;
            let record = Arc::new(record);
            inner.directory.note_let_in(&record);
            let guests = Guests::back(Arc::clone(self.door.door()), peer);
            add(&supervisor, record, guests, grace);
        }
        Ok(())
    }

    /// Waits until the head is [stopped](HeadStopper), or its log cannot be written.
    ///
    /// # Errors
    /// [`HeadError::Log`].
    pub fn serve(&self) -> Result<(), HeadError> {
        match self.ends.recv() {
            Ok(Some(error)) => Err(error.into()),
            // This value has a sender, so there is always one.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// A value that stops the head, from any thread, such as one that waits for signals. A signal alone is no stop but a kill.
    #[must_use]
    pub fn stopper(&self) -> HeadStopper {
        HeadStopper(self.stop.clone())
    }

    /// The door where workers and jobs come in.
    #[must_use]
    pub fn door(&self) -> &DialIn {
        &self.door
    }

    /// All that a worker or a job needs to come in, beside the address.
    ///
    /// # Errors
    /// The credentials of the transport cannot be made.
    pub fn invitation(&self) -> Result<Invitation, AddError> {
        self.runtime.invitation(&self.door)
    }

    /// The processes of the cluster: this one, workers, and jobs. One that has not come back to this life of the head is
    /// [`Starting`](crate::MemberState::Starting).
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        self.runtime.members()
    }

    /// Ends the head, and asks all members to end. Those that do not within `grace` are cut off.
    pub fn end(self, grace: Duration) -> ShutdownReport {
        self.runtime.shutdown(grace)
    }
}

impl std::fmt::Debug for HeadProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeadProcess")
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl Drop for HeadProcess {
    fn drop(&mut self) {
        let _ = self.runtime.shutdown(END_GRACE);
        if let Some(log) = &self.log {
            log.end();
        }
    }
}

/// The time that members get to end with a head that is dropped.
const END_GRACE: Duration = Duration::from_secs(2);
