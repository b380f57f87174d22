//! Waits for a worker's death and spreads the news: first to whoever waits, then to the worker's node.

#![allow(unsafe_code, reason = "registers a descriptor with the reactor")]

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ractor::ActorRef;
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use selvedge_channels::process::ending_status;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};
use tokio::net::unix::OwnedReadHalf;
use tokio::time::{Instant, timeout_at};

use crate::control::worker_node::WorkerMessage;
use crate::death::{Death, Exit};
use crate::directory::Directory;
use crate::worker::link::{Link, read_frames};
use crate::worker::output::Pump;
use crate::worker::record::WorkerRecord;
use crate::worker::sentinel;

/// How long the link of a dying worker is read on, and its last thread waited for; both follow at once, as a rule.
const LAST_FRAMES_TIMEOUT: Duration = Duration::from_millis(20);

/// How long a worker that has lost its link may take to say why and to end.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// One incarnation of a worker, from its hello to its end.
pub(crate) struct Watch {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) node: ActorRef<WorkerMessage>,
    pub(crate) pid: u32,
    pub(crate) process: Process,
    pub(crate) link: Arc<Link>,
    pub(crate) stdout: Arc<Pump>,
    pub(crate) stderr: Arc<Pump>,
}

impl Watch {
    /// Reads the link until the worker is dead, then tells everybody.
    pub(crate) async fn run(self, socket: OwnedReadHalf) {
        let leases = &self.directory.leases;
        let mut frames = pin!(read_frames(socket, &self.link, |lane, panic| {
            leases.ended(&[lane], panic.as_deref())
        }));
        let soon = || Instant::now() + LAST_FRAMES_TIMEOUT;
        let until = tokio::select! {
            biased;
            // Without a link a worker is of no use. It is dead already, or says why and ends.
            () = &mut frames => {
                let _ = tokio::time::timeout(LAST_WORDS_TIMEOUT, self.process.exited()).await;
                soon()
            }
            () = self.process.exited() => {
                // What it said last is still in the socket. A child of the worker may hold the other end open.
                let until = soon();
                let _ = timeout_at(until, frames).await;
                until
            }
        };
        // It is dead, or of no use.
        self.process.kill();
        let exit = match self.process.ends_by(self.pid) {
            // As a rule it is gone by now. Much memory takes longer, and nobody waits for that but the next process.
            Some(exit) => timeout_at(until, self.process.reap()).await.unwrap_or(exit),
            None => self.process.reap().await,
        };
        self.stdout.drain();
        self.stderr.drain();
        let residents = self.directory.residents_in(self.record.id());
        let death = Death {
            actor: residents
                .first()
                .map_or_else(|| self.record.name().to_owned(), |it| it.name().to_owned()),
            actors: residents.iter().map(|resident| resident.id()).collect(),
            process: self.record.id(),
            pid: Some(self.pid),
            exit,
            stderr_tail: self.stderr.tail(),
        };
        self.record.note_end(self.pid, &death.exit);
        self.directory.process_died(self.record.id(), &death);
        if self.directory.is_closed() {
            self.link.drop_requests();
        } else {
            self.link.lose(&death);
        }
        // What it held is free, for the next one, when it is gone.
        let _ = self.process.reap().await;
        // A node that has stopped has nothing to restart.
        let _ = self.node.send_message(WorkerMessage::Died(death.exit));
    }
}

/// A child process: awaited and reaped without ever blocking the control thread.
pub(crate) struct Process {
    /// Readable once the process is a zombie.
    pidfd: AsyncFd<Arc<OwnedFd>>,
    /// Readable once a sentinel has ended: the process ends.
    sentinels: Vec<AsyncFd<Arc<OwnedFd>>>,
}

impl Process {
    /// Watches a child. Where the reactor refuses, the child is killed and reaped here, for it could not be watched.
    pub(crate) fn new(pidfd: Arc<OwnedFd>) -> io::Result<Self> {
        register(pidfd)
            .map(|pidfd| Self {
                pidfd,
                sentinels: Vec::new(),
            })
            .map_err(|error| {
                let (pidfd, cause) = error.into_parts();
                // Both can only fail if it is dead and reaped already.
                let _ = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
                cause
            })
    }

    pub(crate) fn kill(&self) {
        // An error means that it is dead already.
        let _ = pidfd_send_signal(self.pidfd.get_ref().as_fd(), Signal::KILL);
    }

    /// Watches the process's sentinels as well, as far as the system lets it.
    pub(crate) fn heed(&mut self, pid: u32, sentinels: &[u32]) {
        let opened = sentinels.iter().filter_map(|thread| sentinel::open(pid, *thread));
        let registered = opened.filter_map(|pidfd| register(Arc::new(pidfd)).ok());
        self.sentinels = registered.collect();
    }

    /// Waits until the process ends: it is a zombie, or its memory is being taken down.
    pub(crate) async fn exited(&self) {
        let mut ends: Vec<_> = self.sentinels.iter().map(|it| Box::pin(it.readable())).collect();
        let mut end = pin!(self.pidfd.readable());
        poll_fn(|context| {
            // An error means that the reactor is gone, and this task with it.
            let early = ends.iter_mut().any(|it| it.as_mut().poll(context).is_ready());
            if early || end.as_mut().poll(context).is_ready() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// How the process ends, where that is known before it is a zombie.
    fn ends_by(&self, pid: u32) -> Option<Exit> {
        if self.sentinels.is_empty() {
            return None;
        }
        // The pid is its own until it is reaped, here.
        let status = ending_status(pid)?;
        let signal = status & 0x7f;
        match (status, signal) {
            (0, _) => None,
            (_, 0) => Some(Exit::Code(status >> 8 & 0xff)),
            _ => Some(Exit::Signal(signal)),
        }
    }

    /// Takes the exit status, so that no zombie is left.
    pub(crate) async fn reap(&self) -> Exit {
        loop {
            let Ok(mut ready) = self.pidfd.readable().await else {
                return Exit::Unknown;
            };
            let pidfd = WaitId::PidFd(self.pidfd.get_ref().as_fd());
            match waitid(pidfd, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                Ok(Some(status)) => {
                    let code = status.exit_status().map(Exit::Code);
                    return code
                        .or_else(|| status.terminating_signal().map(Exit::Signal))
                        .unwrap_or(Exit::Unknown);
                }
                // Woken for nothing: the next wait must be a real one.
                Ok(None) | Err(Errno::INTR) => ready.clear_ready(),
                // Something else in this program waits for any child, and was faster.
                Err(_) => return Exit::Unknown,
            }
        }
    }
}

fn register(pidfd: Arc<OwnedFd>) -> Result<AsyncFd<Arc<OwnedFd>>, AsyncFdRegisterError<Arc<OwnedFd>>> {
    // SAFETY: `OwnedFd` gives the same open descriptor as long as it exists, the `AsyncFd` holds a share in it,
    // and `Arc` hands out no `&mut` with which anybody could replace it.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }
}
