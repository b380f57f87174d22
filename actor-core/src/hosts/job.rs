//! The job's side of a connection: a process that joins a running runtime, and leaves it again.

use std::convert::Infallible;
use std::io;
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, Sender, bounded, unbounded};
use parking_lot::Mutex;
use selvedge_cluster::handshake::{Cookie, CookieError, CookieSource, Role};
use selvedge_cluster::net::{Link, LinkError, Listener, PeerInfo, Tcp, Transport, dial};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;
use thiserror::Error;
use tokio::net::lookup_host;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::dialing::{PlaceOfPeer, dial_peer};
use super::host_key::Machine;
use super::identity::{Means, identity};
use super::serve::{hear_peers, hub_of};
use super::watched_tcp::WatchedTcp;
use crate::hub::Hub;
use crate::hub::connection::Resume;
use crate::hub::membership::Membership;
use crate::hub::notice::Notice;
use crate::hub::post::{Letter, Receiver};
use crate::hub::reactor::start_reactor_until;
use crate::platform::peer_socket::of_link;
use crate::remote::service::Remote;
use crate::runtime::Runtime;
use crate::worker::letters::{WORDS, driver_timeout};
use crate::worker::protocol::{FromWorker, ToWorker, read_head};
use crate::worker::writer::Writer;

/// The time for the way to the head, and for the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that the threads of a job may take to end.
const LEAVE_GRACE: Duration = Duration::from_secs(2);

/// The reason that a process has not joined a runtime.
#[derive(Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No cookie is at the source.
    #[error(transparent)]
    Cookie(#[from] CookieError),
    /// The address is none, or no way leads there.
    #[error("no way leads to a runtime at `{address}`: {error}")]
    Address {
        /// The address, as it was given.
        address: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The handshake failed, or was not begun: no answer, another cookie, or another build of the program.
    #[error("the runtime at `{address}` has not admitted this job: {error}")]
    Refused {
        /// The address, as it was given.
        address: String,
        /// The reason.
        error: Box<LinkError>,
    },
    /// Nothing was heard of the runtime in time. It may be one that has not called `Runtime::accept_jobs`.
    #[error(
        "the runtime at `{address}` has not answered within {waited:?} (help: it admits jobs after `Runtime::accept_jobs` with this door)"
    )]
    TooLate {
        /// The address, as it was given.
        address: String,
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// A process of a runtime listens there, and not the one that made it.
    #[error("no head listens at `{address}`, but {found}: connect to the address of the runtime's `DialIn`")]
    NoHead {
        /// The address, as it was given.
        address: String,
        /// The process that listens there.
        found: ProcessId,
    },
    /// The system refuses a thread or a descriptor.
    #[error("the links of this job: {0}")]
    System(io::Error),
}

selvedge_channels::debug_is_report!(ConnectError);

impl Runtime {
    /// Joins a running runtime of the same program as a *job*. Another process has made that runtime, its head; it lets jobs in at
    /// the address of a [`DialIn`](super::DialIn) with [`accept_jobs`](Self::accept_jobs). The call starts no process, and the end of the job ends none.
    ///
    /// A job calls functions in the runtime's workers ([`processes`](Self::processes), [`RemoteCall::on_process`](crate::RemoteCall::on_process)),
    /// submits calls to its scheduler, and puts and fetches values. Its own process runs none of the runtime's calls. It can have
    /// actors on its own threads, and cannot start workers.
    ///
    /// The job ends when the last clone of the runtime is dropped, or with its process, however that ends: its calls are cancelled and
    /// its references go. If the head ends, all later calls of the job fail. The links go over TCP.
    ///
    /// ```no_run
    /// # #[cfg(feature = "hosts")] {
    /// # use selvedge_core as selvedge;
    /// use selvedge::Runtime;
    /// use selvedge::hosts::CookieSource;
    ///
    /// # fn main() -> Result<(), selvedge::BoxError> {
    /// let job = Runtime::connect("head:7447", &CookieSource::File("train.invitation".into()))?;
    /// println!("{:?}", job.processes());
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(address: &str, cookie: &CookieSource) -> Result<Runtime, ConnectError> {
        let cookie = cookie.read(&mut io::stdin().lock())?;
        let (end, ended) = oneshot::channel::<()>();
        let ended = async {
            // An error means that the job is gone, and with it the sender.
            let _ = ended.await;
        };
        let (alive, gone) = bounded(0);
        let (reactor, thread) =
            start_reactor_until(ended, Sender::clone(&alive)).map_err(ConnectError::System)?;
        // Not by `block_on`, which must not be called on a thread of the user's own tokio runtime.
        let (found, outcome) = bounded(1);
        let to = address.to_owned();
        reactor.spawn(async move {
            // Whoever waits has no other end.
            let _ = found.send(admitted(&to, cookie).await);
        });
        let no_thread = |_| ConnectError::System(io::Error::other("the thread of the links has ended"));
        let admitted = outcome.recv().map_err(no_thread)??;
        let _context = reactor.enter();
        let joined = joined(&reactor, admitted, alive).map_err(ConnectError::System)?;
        let stay = Stay {
            hub: joined.hub,
            end: Mutex::new(Some(end)),
            threads: JobThreads {
                handles: Mutex::new(vec![thread, joined.thread]),
                gone,
            },
        };
        joined
            .runtime
            .inner()
            .leave_at_the_end(Box::new(move || stay.leave()));
        // The drop of the runtime leaves.
        match joined.knows_all.recv_timeout(CONNECT_TIMEOUT) {
            Ok(()) => Ok(joined.runtime),
            Err(_) => Err(ConnectError::TooLate {
                address: address.to_owned(),
                waited: CONNECT_TIMEOUT,
            }),
        }
    }
}

/// The links and threads that a job has while it has joined a runtime.
struct Stay {
    hub: Arc<Hub>,
    /// Ends the thread of the links when it is dropped.
    end: Mutex<Option<oneshot::Sender<()>>>,
    threads: JobThreads,
}

impl Stay {
    /// Leaves the runtime: the links end, and then the threads.
    fn leave(&self) {
        self.hub.close();
        drop(self.end.lock().take());
        self.threads.join_until(Instant::now() + LEAVE_GRACE);
    }
}

/// The threads of a job.
struct JobThreads {
    handles: Mutex<Vec<JoinHandle<()>>>,
    /// Each thread has a sender until it ends.
    gone: Queue<Infallible>,
}

impl JobThreads {
    /// Waits for the threads to end. At the deadline, and if one of them is the caller, they are left behind.
    fn join_until(&self, deadline: Instant) {
        let handles = std::mem::take(&mut *self.handles.lock());
        let is_own = |handle: &JoinHandle<()>| handle.thread().id() == thread::current().id();
        if handles.iter().any(is_own) || self.gone.recv_deadline(deadline) == Err(RecvTimeoutError::Timeout) {
            return;
        }
        for thread in handles {
            // The thread only has to return now. One that has panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// A job that the head has admitted.
struct Admitted {
    link: Link,
    listener: Listener,
    means: Means,
    address: String,
}

/// Dials the head, which gives this job its number.
async fn admitted(address: &str, cookie: Cookie) -> Result<Admitted, ConnectError> {
    let no_way = |error: io::Error| ConnectError::Address {
        address: address.to_owned(),
        error,
    };
    let refused = |error: LinkError| ConnectError::Refused {
        address: address.to_owned(),
        error: Box::new(error),
    };
    let too_late = |_| ConnectError::TooLate {
        address: address.to_owned(),
        waited: CONNECT_TIMEOUT,
    };
    let found = timeout(CONNECT_TIMEOUT, lookup_host(address)).await;
    let to = found.map_err(too_late)?.map_err(no_way)?.next();
    let to = to.ok_or_else(|| no_way(io::ErrorKind::NotFound.into()))?;
    let tcp = WatchedTcp(Tcp::towards(to).map_err(no_way)?);
    let transport: Arc<dyn Transport> = Arc::new(tcp);
    let me = identity(Role::Driver, None, None, cookie.clone());
    // Workers without a port of their own dial this job.
    let listener = Listener::bind(&*transport, me.clone()).await.map_err(refused)?;
    let place = PeerInfo {
        process: ProcessId::HEAD,
        connect_at: address.to_owned(),
    };
    let dialled = timeout(CONNECT_TIMEOUT, dial(&*transport, &place, &me)).await;
    let link = dialled.map_err(too_late)?.map_err(refused)?;
    let found = link.welcome.me.process;
    if link.hello.role != Role::Head || found != ProcessId::HEAD || link.welcome.you.process == found {
        return Err(ConnectError::NoHead {
            address: address.to_owned(),
            found,
        });
    }
    Ok(Admitted {
        link,
        listener,
        means: Means { cookie, transport },
        address: address.to_owned(),
    })
}

/// A job that has joined.
struct JoinedJob {
    runtime: Runtime,
    hub: Arc<Hub>,
    /// The thread that hears the head.
    thread: JoinHandle<()>,
    /// Told once the job knows all members.
    knows_all: Queue<()>,
}

/// Makes the runtime of an admitted job, its hub, and the thread that hears the head.
fn joined(reactor: &Handle, admitted: Admitted, alive: Sender<Infallible>) -> io::Result<JoinedJob> {
    let Admitted {
        link,
        listener,
        means,
        address,
    } = admitted;
    let (me, head) = (link.welcome.you, link.welcome.me);
    let (hub, writer, remote) = hub_of(reactor, me, head);
    hub.note_job(me);
    let (sender, words) = unbounded();
    hub.register(
        WORDS,
        Arc::new(WordsOfHead {
            head,
            words: Mutex::new(Some(sender)),
        }),
    );
    let (all_known, knows_all) = bounded(1);
    Membership::register(&hub, Some(all_known));
    let hearing = Hearing {
        hub: Arc::clone(&hub),
        remote: Arc::clone(&remote),
        writer: Arc::clone(&writer),
        means: means.clone(),
        words,
    };
    let thread = thread::Builder::new()
        .name("selvedge-job".to_owned())
        .spawn(move || {
            hearing.hear();
            drop(alive);
        })?;
    let listens_at = Some(listener.connect_at().to_owned());
    let way = PlaceOfPeer::of_driver(Role::Driver, me, head, address, means);
    hub.adopt(head, of_link(link)?, Resume::Dials(Arc::new(way)))?;
    writer.send(&FromWorker::Joined {
        pid: process::id(),
        machine: Machine::mine(),
        listens_at,
        cluster_id: None,
    });
    reactor.spawn(hear_peers(listener, Arc::clone(&hub), head));
    Ok(JoinedJob {
        runtime: Runtime::with_remote(remote),
        hub,
        thread,
        knows_all,
    })
}

/// The service of words in a job.
struct WordsOfHead {
    head: Peer,
    /// `None` once the head is dead, which ends the thread that hears it.
    words: Mutex<Option<Sender<Letter>>>,
}

impl Receiver for WordsOfHead {
    fn received(&self, from: Peer, letter: Letter) {
        if from == self.head
            && let Some(words) = &*self.words.lock()
        {
            // Nobody hears the head any more when this job leaves.
            let _ = words.send(letter);
        }
    }

    fn died(&self, peer: Peer, _: &[(u64, Outcome)]) {
        if peer == self.head {
            drop(self.words.lock().take());
        }
    }
}

/// The thread that hears the head.
struct Hearing {
    hub: Arc<Hub>,
    remote: Arc<Remote>,
    writer: Arc<Writer>,
    means: Means,
    words: Queue<Letter>,
}

impl Hearing {
    /// Acts on the words of the head until it is gone, ends this job, or was not heard of for too long. All links end then.
    fn hear(self) {
        let limit = driver_timeout();
        while let Ok(letter) = self.words.recv_timeout(limit) {
            match read_head(&letter.head) {
                Ok(ToWorker::Notice(notice)) => self.notice(notice),
                Ok(ToWorker::Welcome { spin, .. }) => self.hub.set_spin(spin),
                Ok(ToWorker::Interrupt) => self.remote.interrupt(),
                Ok(ToWorker::Ping) => self.writer.send(&FromWorker::Pong),
                Ok(ToWorker::Shutdown { .. }) | Err(_) => break,
                // A job has no lanes.
                Ok(_) => {}
            }
        }
        self.hub.close_without_head();
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::Dial { peer, connect_at, .. } => {
                let (writer, remote) = (Arc::clone(&self.writer), Arc::clone(&self.remote));
                let failed = move |why: String| {
                    remote.unreachable.note(peer, why.clone());
                    writer.send(&FromWorker::NotLinked { peer, why });
                };
                dial_peer(&self.hub, peer, connect_at, Ok(self.means.clone()), failed);
            }
            notice => {
                if let Notice::NotLinked(peer, why) = &notice {
                    self.remote.unreachable.note(*peer, why.clone());
                }
                self.hub.notice(notice, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let (alive, gone) = bounded(0);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (left, has_left) = bounded(1);
        let stuck = thread::spawn(move || {
            let _ = ended.recv();
            drop(alive);
        });
        let threads = JobThreads {
            handles: Mutex::new(vec![stuck]),
            gone,
        };
        thread::spawn(move || {
            threads.join_until(Instant::now());
            let _ = left.send(());
        });
        assert_eq!(has_left.recv_timeout(Duration::from_secs(30)), Ok(()));
        drop(end);
    }

    #[test]
    #[allow(unsafe_code)] // a fork
    fn the_copy_of_a_job_in_a_forked_child_leaves_nothing() {
        /// Its drop ends the process with an error.
        struct Dropped;
        impl Drop for Dropped {
            fn drop(&mut self) {
                // SAFETY: nothing runs behind this call.
                unsafe { libc::_exit(3) }
            }
        }
        let runtime = Runtime::new();
        let dropped = Dropped;
        let leave = move || {
            let _held = &dropped;
        };
        runtime.inner().leave_at_the_end(Box::new(leave));
        // SAFETY: the child drops the runtime and ends.
        match unsafe { libc::fork() } {
            0 => {
                drop(runtime);
                // SAFETY: nothing runs behind this call.
                unsafe { libc::_exit(0) }
            }
            child => {
                let child = rustix::process::Pid::from_raw(child).unwrap();
                let flags = rustix::process::WaitOptions::empty();
                let (_, status) = rustix::process::waitpid(Some(child), flags).unwrap().unwrap();
                std::mem::forget(runtime);
                assert_eq!(status.exit_status(), Some(0));
            }
        }
    }
}
