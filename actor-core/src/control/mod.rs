//! The control plane of a driver: one thread, `selvedge-control`, with ractor actors on a tokio runtime.
//!
//! - `supervisor`: the root; starts the others, stops them at shutdown, and notices when one of them fails.
//! - `actor_node`: one for each user actor; routes calls to its lane or worker, holds them while it restarts.
//! - `worker_node`: one for each worker process; launches it, restarts it, ends it.
//! - `watch`: waits for a worker's death and spreads the news.
//!
//! - `launchers`: the threads that start worker processes. They live as long as the control thread, because workers are killed
//!   when the thread that started them ends.
//!
//! The control thread must never block: it is what notices deaths.

pub(crate) mod supervisor;

pub(crate) mod actor_node;

pub(crate) mod worker_node;

pub(crate) mod watch;

pub(crate) mod launchers;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use ractor::{Actor, ActorRef};

use crate::control::supervisor::{Supervisor, SupervisorMessage};
use crate::directory::Directory;
use crate::promise::{Promise, promise};

/// The control thread, as seen from others.
pub(crate) struct Control {
    supervisor: ActorRef<SupervisorMessage>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

type Started = io::Result<ActorRef<SupervisorMessage>>;

impl Control {
    /// Starts the thread and its root actor.
    pub(crate) fn start(directory: Arc<Directory>) -> io::Result<Self> {
        let (started, mut answer) = promise();
        let run = move || live(directory, started);
        let thread = thread::Builder::new()
            .name("selvedge-control".to_owned())
            .spawn(run)?;
        match answer.wait(None) {
            Some(Ok(Ok(supervisor))) => Ok(Self {
                supervisor,
                thread: Mutex::new(Some(thread)),
            }),
            Some(Ok(Err(error))) => Err(error),
            _ => Err(io::Error::other("the control thread ended before it began")),
        }
    }

    /// Sends to the root; `false` once it has stopped.
    pub(crate) fn send(&self, message: SupervisorMessage) -> bool {
        self.supervisor.send_message(message).is_ok()
    }

    /// Whether the caller is the control thread itself, which must not wait for itself.
    pub(crate) fn is_current(&self) -> bool {
        let thread = self.thread.lock();
        thread
            .as_ref()
            .is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// Waits for the thread's end, after the supervisor was told to shut down.
    pub(crate) fn join(&self) {
        if self.is_current() {
            return;
        }
        if let Some(thread) = self.thread.lock().take() {
            // Its work is guarded by ractor; a panic beyond that has been printed and changes nothing here.
            let _ = thread.join();
        }
    }
}

fn live(directory: Arc<Directory>, started: Promise<Started>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return started.keep(Err(error)),
    };
    runtime.block_on(async move {
        match Supervisor::spawn(None, Supervisor, directory).await {
            Ok((supervisor, ended)) => {
                started.keep(Ok(supervisor));
                // Ends when the supervisor stops; how is of no interest any more.
                let _ = ended.await;
            }
            Err(error) => started.keep(Err(io::Error::other(error.to_string()))),
        }
    });
}
