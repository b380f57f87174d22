//! Child processes, by their pidfds: how they are ended, awaited and reaped.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use selvedge_channels::memory::process::ending_status;
use tokio::io::Interest;
use tokio::io::unix::AsyncFdRegisterError;

use super::sentinel;
use super::watched::{Watched, watch};
use crate::death::Exit;

/// A child process, to which signals are sent through its pidfd, because a pid may have been reused.
#[derive(Clone)]
pub(crate) struct ChildHandle(Arc<OwnedFd>);

impl ChildHandle {
    /// Sends SIGKILL to the process.
    pub(crate) fn kill(&self) {
        // An error means that the process is dead already.
        let _ = pidfd_send_signal(&*self.0, Signal::KILL);
    }

    /// How the process, whose pid this is, ends, once it has begun to end by a signal or with a code other than 0.
    pub(crate) fn ends_by(&self, pid: u32) -> Option<Exit> {
        // The process is not reaped as long as it is watched, so the pid is its own.
        exit_of(ending_status(pid)?)
    }

    /// Sends SIGQUIT to the process, on which it may still say where it was.
    #[cfg(feature = "hosts")]
    pub(crate) fn quit(&self) {
        // An error means that the process is dead already.
        let _ = pidfd_send_signal(&*self.0, Signal::QUIT);
    }

    /// Returns a handle that names no process.
    #[cfg(test)]
    #[allow(clippy::unwrap_used, reason = "a test may panic")]
    pub(crate) fn of_nobody() -> Self {
        ChildHandle(Arc::new(std::fs::File::open("/dev/null").unwrap().into()))
    }
}

/// A child that is not watched yet. Its drop kills and reaps the child.
pub(crate) struct Unwatched(Option<OwnedFd>);

impl Unwatched {
    pub(super) fn new(pidfd: OwnedFd) -> Self {
        Unwatched(Some(pidfd))
    }

    /// Returns the child. The caller watches it from now on.
    pub(crate) fn watch(&mut self) -> Option<ChildHandle> {
        self.0.take().map(|pidfd| ChildHandle(Arc::new(pidfd)))
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        if let Some(pidfd) = self.0.take() {
            // Both calls fail only if the child is dead and reaped already.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// A child process, which is awaited and reaped without blocking the control thread.
pub(crate) struct Process {
    /// Readable once the process is a zombie.
    pidfd: Watched,
    /// Readable once a sentinel has ended, which means that the process is ending.
    sentinels: Vec<Watched>,
}

impl Process {
    /// Watches a child. If the reactor refuses the descriptor, the child is killed and reaped here, because it cannot
    /// be watched.
    pub(crate) fn new(child: &ChildHandle) -> io::Result<Self> {
        register(Arc::clone(&child.0))
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
    pub(crate) fn ends_by(&self, pid: u32) -> Option<Exit> {
        if self.sentinels.is_empty() {
            return None;
        }
        // The pid cannot be reused before the process is reaped, which happens in `reap`.
        exit_of(ending_status(pid)?)
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

/// The exit that a status of `wait` tells; `None` for 0, which a process has that has not begun to end.
fn exit_of(status: i32) -> Option<Exit> {
    match (status, status & 0x7f) {
        (0, _) => None,
        (_, 0) => Some(Exit::Code(status >> 8 & 0xff)),
        (_, signal) => Some(Exit::Signal(signal)),
    }
}

fn register(pidfd: Arc<OwnedFd>) -> Result<Watched, AsyncFdRegisterError<Arc<OwnedFd>>> {
    watch(pidfd, Interest::READABLE)
}
