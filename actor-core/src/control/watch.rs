//! Watches: a watch waits for a worker's death and announces it, first to the threads that wait, then to the worker's
//! node.

#![allow(unsafe_code, reason = "registers a descriptor with the reactor")]

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use selvedge_channels::memory::process::ending_status;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};
use tokio::net::unix::OwnedReadHalf;
use tokio::time::{Instant, timeout_at};

use crate::control::messages::WorkerMessage;
use crate::control::node::NodeRef;
use crate::death::{Death, Exit};
use crate::directory::Directory;
use crate::worker::link::{Link, read_frames};
use crate::worker::output::Pump;
use crate::worker::record::WorkerRecord;
use crate::worker::sentinel;

/// The time limit for reading the last frames of a dying worker, and for waiting for its last thread. As a rule, both
/// come at once.
const LAST_FRAMES_TIMEOUT: Duration = Duration::from_millis(20);

/// The time that a worker without a link may take to report the reason and to end.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// The watch over one incarnation of a worker, from its hello to its end.
pub(crate) struct Watch {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) node: NodeRef<WorkerMessage>,
    pub(crate) pid: u32,
    pub(crate) process: Process,
    pub(crate) link: Arc<Link>,
    pub(crate) stdout: Arc<Pump>,
    pub(crate) stderr: Arc<Pump>,
}

impl Watch {
    /// Reads the link until the worker is dead, then announces the death.
    pub(crate) async fn run(self, socket: OwnedReadHalf) {
        let leases = &self.directory.leases;
        let mut frames = pin!(read_frames(socket, &self.link, |lane, panic| {
            leases.ended(&[lane], panic.as_deref())
        }));
        let soon = || Instant::now() + LAST_FRAMES_TIMEOUT;
        let until = tokio::select! {
            biased;
            // A worker without a link is of no use. It is dead already, or it reports the reason and ends.
            () = &mut frames => {
                let _ = tokio::time::timeout(LAST_WORDS_TIMEOUT, self.process.exited()).await;
                soon()
            }
            () = self.process.exited() => {
                // The last messages of the worker are still in the socket. The limit is for a child of the worker that
                // holds the other end open.
                let until = soon();
                let _ = timeout_at(until, frames).await;
                until
            }
        };
        // The process is dead, or of no use without its link.
        self.process.kill();
        let exit = match self.process.ends_by(self.pid) {
            // As a rule, the process is gone by now. The release of much memory takes longer, and only a restart waits
            // for that.
            Some(exit) => timeout_at(until, self.process.reap()).await.unwrap_or(exit),
            None => self.process.reap().await,
        };
        self.stdout.drain();
        self.stderr.drain();
        let records = self.directory.records_in(self.record.id());
        let death = Death {
            actor: records
                .first()
                .map_or_else(|| self.record.name().to_owned(), |it| it.name().to_owned()),
            actors: records.iter().map(|record| record.id()).collect(),
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
        // Once the process is gone, its resources are free for the next process.
        let _ = self.process.reap().await;
        // A node that has stopped has nothing to restart.
        self.node.send(WorkerMessage::Died(death.exit));
    }
}

/// A child process, which is awaited and reaped without blocking the control thread.
pub(crate) struct Process {
    /// Readable once the process is a zombie.
    pidfd: AsyncFd<Arc<OwnedFd>>,
    /// Readable once a sentinel has ended, which means that the process is ending.
    sentinels: Vec<AsyncFd<Arc<OwnedFd>>>,
}

impl Process {
    /// Watches a child. If the reactor refuses the descriptor, the child is killed and reaped here, because it cannot
    /// be watched.
    pub(crate) fn new(pidfd: Arc<OwnedFd>) -> io::Result<Self> {
        register(pidfd)
            .map(|pidfd| Self {
                pidfd,
                sentinels: Vec::new(),
            })
            .map_err(|error| {
                let (pidfd, cause) = error.into_parts();
                // Both calls fail only if the process is dead and reaped already.
                let _ = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
                cause
            })
    }

    pub(crate) fn kill(&self) {
        // An error means that the process is dead already.
        let _ = pidfd_send_signal(self.pidfd.get_ref().as_fd(), Signal::KILL);
    }

    /// Watches the sentinels of the process too, as far as the system supports it.
    pub(crate) fn watch_sentinels(&mut self, pid: u32, sentinels: &[u32]) {
        let opened = sentinels.iter().filter_map(|thread| sentinel::open(pid, *thread));
        let registered = opened.filter_map(|pidfd| register(Arc::new(pidfd)).ok());
        self.sentinels = registered.collect();
    }

    /// Waits until the process ends: it is a zombie, or its memory is being released.
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

    /// Returns how the process ends, if that is known before the process is a zombie.
    fn ends_by(&self, pid: u32) -> Option<Exit> {
        if self.sentinels.is_empty() {
            return None;
        }
        // The pid cannot be reused before the process is reaped, which happens in `reap`.
        let status = ending_status(pid)?;
        let signal = status & 0x7f;
        match (status, signal) {
            (0, _) => None,
            (_, 0) => Some(Exit::Code(status >> 8 & 0xff)),
            _ => Some(Exit::Signal(signal)),
        }
    }

    /// Reaps the process, so that no zombie is left, and returns its exit.
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
                // A spurious wake-up: the readiness is cleared, so that the next wait blocks.
                Ok(None) | Err(Errno::INTR) => ready.clear_ready(),
                // Other code in this program waits for any child, and has reaped this one first.
                Err(_) => return Exit::Unknown,
            }
        }
    }
}

fn register(pidfd: Arc<OwnedFd>) -> Result<AsyncFd<Arc<OwnedFd>>, AsyncFdRegisterError<Arc<OwnedFd>>> {
    // SAFETY: an `OwnedFd` names the same open descriptor as long as it exists, the `AsyncFd` holds a share of the
    // `Arc`, and `Arc` gives out no `&mut` with which other code could replace the descriptor.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }
}
