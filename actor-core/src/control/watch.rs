//! Waits for a worker's death and spreads the news: first to whoever waits, then to the worker's node.

#![allow(unsafe_code, reason = "registers a descriptor with the reactor")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ractor::ActorRef;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::OwnedReadHalf;

use crate::control::worker_node::WorkerMessage;
use crate::death::{Death, Exit};
use crate::directory::Directory;
use crate::worker::link::{Link, read_frames};
use crate::worker::output::Pump;
use crate::worker::record::WorkerRecord;

/// One incarnation of a worker, from its hello to its end.
pub(crate) struct Watch {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) node: ActorRef<WorkerMessage>,
    pub(crate) pid: u32,
    pub(crate) pidfd: Arc<OwnedFd>,
    pub(crate) link: Arc<Link>,
    pub(crate) stdout: Arc<Pump>,
    pub(crate) stderr: Arc<Pump>,
}

impl Watch {
    /// Reads the link until the worker is dead, then tells everybody.
    pub(crate) async fn run(self, socket: OwnedReadHalf) {
        let leases = &self.directory.leases;
        let frames = read_frames(socket, &self.link, |lane, panic| {
            leases.ended(&[lane], panic.as_deref())
        });
        tokio::select! {
            () = frames => {
                // Without a link a worker is of no use; most often it is dead already.
                let _ = pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL);
            }
            () = exited(&self.pidfd) => {}
        }
        exited(&self.pidfd).await;
        let exit = reap(&self.pidfd);
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
        self.record.set_current(None);
        self.directory.process_died(self.record.id(), &death);
        if self.directory.is_closed() {
            self.link.drop_requests();
        } else {
            self.link.lose(&death);
        }
        // A node that has stopped has nothing to restart.
        let _ = self.node.send_message(WorkerMessage::Died);
    }
}

/// Waits until the process is a zombie: a pidfd is readable then.
pub(crate) async fn exited(pidfd: &Arc<OwnedFd>) {
    let Ok(copy) = pidfd.try_clone() else { return };
    // SAFETY: `OwnedFd` gives the same open descriptor as long as it exists, and the `AsyncFd` owns it.
    let registered = unsafe { AsyncFd::register_with_interest(copy, tokio::io::Interest::READABLE) };
    if let Ok(pidfd) = registered {
        let _ = pidfd.readable().await;
    }
}

/// Takes the exit status, so that no zombie is left.
pub(crate) fn reap(pidfd: &OwnedFd) -> Exit {
    match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Unknown,
        },
        _ => Exit::Unknown,
    }
}
