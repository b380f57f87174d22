//! The control plane of a driver: one thread, `selvedge-control`, with a tokio runtime and a task for each node.
//!
//! - `node`: the tasks, with their queues and the report of their end. All of the following are such tasks.
//! - `supervisor`: the root. It starts the other nodes, stops them at shutdown, and is told when one of them fails.
//! - `actor_node`: one for each user actor. It routes calls to the actor's lane or worker, and holds them while the
//!   actor restarts.
//! - `worker_node`: one for each worker process. It restarts the process and ends it.
//! - `worker_start`: the start of a process, up to its hello; `host_start`: that of one on another host; `tunnel`: the way to it
//!   by `ssh`; `hosted`: its life and its tunnel; `guest_start`, `guest`: a worker that dials in.
//! - `worker_process`: the process of a worker, a child or a guest.
//! - `messages`, `supervisor_message`: the messages to nodes and to the supervisor.
//! - `watch`: waits for a worker's death and announces it.
//! - `launch_threads`: the threads that start worker processes. They live as long as the control thread, because a
//!   worker is killed when the thread that started it ends.
//!
//! The control thread must never block, because it detects deaths.

pub(crate) mod actor_node;
#[cfg(feature = "hosts")]
mod guest;
#[cfg(feature = "hosts")]
mod guest_start;
#[cfg(feature = "hosts")]
mod host_start;
mod hosted;
pub(crate) mod launch_threads;
pub(crate) mod messages;
mod no_hello;
pub(crate) mod node;
pub(crate) mod silence;
pub(crate) mod supervisor;
pub(crate) mod supervisor_message;
#[cfg(feature = "hosts")]
mod tunnel;
pub(crate) mod watch;
pub(crate) mod worker_node;
pub(crate) mod worker_process;
pub(crate) mod worker_start;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::boxed::boxed_run;
use crate::control::node::NodeRef;
use crate::control::supervisor::Supervisor;
use crate::control::supervisor_message::SupervisorMessage;
use crate::directory::Directory;
use crate::inspect::serve::{Answers, serve};
use crate::promise::{Promise, promise};

/// The control thread, as used by other threads.
pub(crate) struct Control {
    supervisor: NodeRef<SupervisorMessage>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

type Started = io::Result<NodeRef<SupervisorMessage>>;

impl Control {
    /// Starts the thread and its root node. From then on other processes can ask for what `answers` has.
    pub(crate) fn start(directory: Arc<Directory>, answers: Answers) -> io::Result<Self> {
        let (started, mut answer) = promise();
        let run = move || live(directory, answers, started);
        let thread = thread::Builder::new()
            .name("selvedge-control".to_owned())
            .spawn(boxed_run(run))?;
        match answer.wait(None) {
            Some(Ok(Ok(supervisor))) => Ok(Self {
                supervisor,
                thread: Mutex::new(Some(thread)),
            }),
            Some(Ok(Err(error))) => Err(error),
            _ => Err(io::Error::other("the control thread ended before it began")),
        }
    }

    /// Sends a message to the root; returns `false` once the root has stopped.
    pub(crate) fn send(&self, message: SupervisorMessage) -> bool {
        self.supervisor.send(message)
    }

    /// The root, for those that send to it later.
    #[cfg(feature = "hosts")]
    pub(crate) fn supervisor(&self) -> NodeRef<SupervisorMessage> {
        self.supervisor.clone()
    }

    /// Whether the caller runs on the control thread, which must not wait for itself.
    pub(crate) fn is_current(&self) -> bool {
        let thread = self.thread.lock();
        thread
            .as_ref()
            .is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// Waits for the thread to end, after the supervisor was told to shut down.
    pub(crate) fn join(&self) {
        if self.is_current() {
            return;
        }
        if let Some(thread) = self.thread.lock().take() {
            // Panics of nodes are caught. Any other panic has been printed and changes nothing here.
            let _ = thread.join();
        }
    }
}

fn live(directory: Arc<Directory>, answers: Answers, started: Promise<Started>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return started.keep(Err(error)),
    };
    runtime.block_on(async move {
        directory.hub.set_reactor(tokio::runtime::Handle::current());
        let (end, ended) = oneshot::channel();
        let supervisor = node::start(Supervisor::new(directory), |_| {
            // The receiver is the rest of this function.
            let _ = end.send(());
        });
        serve(answers);
        started.keep(Ok(supervisor));
        // The end of this function ends the runtime and, with it, the nodes that are left.
        let _ = ended.await;
    });
}
