//! What the driver knows of one worker process: its place in the plan, its present pid and link.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::sync::watch;

use crate::control::worker_node::WorkerMessage;
use crate::death::Exit;
use crate::id::ProcessId;
use crate::worker::link::Link;

/// The process behind a record, from its hello to its death.
#[derive(Clone)]
pub(crate) struct Incarnation {
    pub(crate) pid: u32,
    /// Signals go by this descriptor: a pid may have been given to somebody else.
    pub(crate) pidfd: Arc<OwnedFd>,
    pub(crate) link: Arc<Link>,
}

pub(crate) struct WorkerRecord {
    id: ProcessId,
    name: Arc<str>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) node: OnceLock<ractor::ActorRef<WorkerMessage>>,
    current: Mutex<Option<Incarnation>>,
    /// How the last process ended, in words.
    ended: Mutex<Option<String>>,
    /// Becomes true when the worker is told to end.
    told: watch::Sender<bool>,
    /// Set when no process of the worker will run any more: whether the last one had to be killed to end.
    over: OnceLock<bool>,
}

impl WorkerRecord {
    pub(crate) fn new(id: ProcessId, name: &str, env: Vec<(String, String)>) -> Self {
        Self {
            id,
            name: name.into(),
            env,
            node: OnceLock::new(),
            current: Mutex::new(None),
            ended: Mutex::new(None),
            told: watch::Sender::new(false),
            over: OnceLock::new(),
        }
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.current.lock().as_ref().map(|incarnation| incarnation.pid)
    }

    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.current
            .lock()
            .as_ref()
            .map(|incarnation| Arc::clone(&incarnation.link))
    }

    pub(crate) fn set_current(&self, incarnation: Option<Incarnation>) {
        *self.current.lock() = incarnation;
    }

    /// The process of the present incarnation has ended.
    pub(crate) fn note_end(&self, pid: u32, exit: &Exit) {
        *self.ended.lock() = Some(format!("its process {pid} has ended: {exit}"));
        self.set_current(None);
    }

    /// Why no process runs, in words.
    pub(crate) fn why_gone(&self) -> String {
        let ended = self.ended.lock().clone();
        ended.unwrap_or_else(|| "no process of it has run".to_owned())
    }

    /// Whether the worker has ended for good, and if so, whether it had to be killed.
    pub(crate) fn over(&self) -> Option<bool> {
        self.over.get().copied()
    }

    pub(crate) fn set_over(&self, killed: bool) {
        // What was known first is right.
        let _ = self.over.set(killed);
    }

    /// Asks the worker to end, by force after the deadline.
    pub(crate) fn end(&self, deadline: Instant) {
        // First: a node that starts a process looks at no message before it has.
        self.told.send_replace(true);
        if let Some(node) = self.node.get() {
            // A node that has stopped has no process.
            let _ = node.send_message(WorkerMessage::Shutdown { deadline });
        }
    }

    /// Returns when the worker was told to end.
    pub(crate) async fn told_to_end(&self) {
        // The sender is here for as long as anybody asks.
        let _ = self.told.subscribe().wait_for(|told| *told).await;
    }

    /// Sends SIGKILL to the process, if there is one. Its death is noticed as any other.
    pub(crate) fn kill(&self) {
        let current = self.current.lock().clone();
        if let Some(incarnation) = current {
            // An error means that it is dead already.
            let _ = pidfd_send_signal(&*incarnation.pidfd, Signal::KILL);
        }
    }
}
