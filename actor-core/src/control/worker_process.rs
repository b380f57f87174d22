//! The process of a worker: a child of this process, or a guest.

#[cfg(feature = "hosts")]
use std::future::pending;

#[cfg(feature = "hosts")]
use super::guest::GuestLink;
use crate::death::Exit;
use crate::platform::child::{ChildHandle, Process};

/// The means to end the process of a worker.
#[derive(Clone)]
pub(crate) enum ProcessHandle {
    Child(ChildHandle),
    #[cfg(feature = "hosts")]
    Guest(GuestLink),
}

impl ProcessHandle {
    /// Ends the process, by SIGKILL or by the end of its link.
    pub(crate) fn kill(&self) {
        match self {
            ProcessHandle::Child(child) => child.kill(),
            #[cfg(feature = "hosts")]
            ProcessHandle::Guest(guest) => guest.cut(),
        }
    }

    /// Sends SIGQUIT to a child.
    #[cfg(feature = "hosts")]
    pub(crate) fn quit(&self) {
        if let ProcessHandle::Child(child) = self {
            child.quit();
        }
    }

    /// How the process, whose pid this is, ends, if it is known to have begun to end by a signal or with a code other than 0.
    pub(crate) fn ends_by(&self, pid: u32) -> Option<Exit> {
        match self {
            ProcessHandle::Child(child) => child.ends_by(pid),
            #[cfg(feature = "hosts")]
            ProcessHandle::Guest(_) => None,
        }
    }
}

/// The process of a worker, which is watched until it has ended.
pub(crate) enum WorkerProcess {
    Child(Process),
    #[cfg(feature = "hosts")]
    Guest(GuestLink),
}

impl WorkerProcess {
    /// Ends the process, by SIGKILL or by the end of its link.
    pub(super) fn kill(&self) {
        match self {
            WorkerProcess::Child(process) => process.kill(),
            #[cfg(feature = "hosts")]
            WorkerProcess::Guest(guest) => guest.cut(),
        }
    }

    /// Watches the sentinels of the process too, as far as the system supports it.
    pub(super) fn watch_sentinels(&mut self, pid: u32, sentinels: &[u32]) {
        match self {
            WorkerProcess::Child(process) => process.watch_sentinels(pid, sentinels),
            #[cfg(feature = "hosts")]
            WorkerProcess::Guest(_) => {}
        }
    }

    /// Waits until the process ends: for ever if nobody can see that.
    pub(super) async fn exited(&self) {
        match self {
            WorkerProcess::Child(process) => process.exited().await,
            #[cfg(feature = "hosts")]
            WorkerProcess::Guest(_) => pending().await,
        }
    }

    /// Waits until the process ends, which has closed its link: not at all if nobody can see that.
    pub(super) async fn exited_after_its_link(&self) {
        match self {
            WorkerProcess::Child(process) => process.exited().await,
            #[cfg(feature = "hosts")]
            WorkerProcess::Guest(_) => {}
        }
    }

    /// Returns how the process ends, if that is known before it can be reaped.
    pub(super) fn ends_by(&self, pid: u32) -> Option<Exit> {
        match self {
            WorkerProcess::Child(process) => process.ends_by(pid),
            #[cfg(feature = "hosts")]
            WorkerProcess::Guest(_) => None,
        }
    }

    /// Reaps the process, and returns its exit; at once if it is no child.
    pub(super) async fn reap(&self) -> Exit {
        match self {
            WorkerProcess::Child(process) => process.reap().await,
            #[cfg(feature = "hosts")]
            WorkerProcess::Guest(_) => Exit::Unknown,
        }
    }

    /// Whether the process is one of which only the link is seen.
    pub(super) fn is_guest(&self) -> bool {
        !matches!(self, WorkerProcess::Child(_))
    }
}
