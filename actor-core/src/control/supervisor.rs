//! The supervisor, which is the root of the control plane: it starts a node for each actor and worker and is told when
//! one fails.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_cluster::id_map::IdSet;
use selvedge_cluster::peer::Incarnation;
use tokio::sync::watch;

use crate::actor_record::ActorRecord;
use crate::boxed::boxed_task;
use crate::control::actor_node::ActorNode;
use crate::control::launch_threads::LaunchThreads;
use crate::control::messages::{NodeMessage, WorkerMessage};
use crate::control::node::{self, Node, NodeRef};
use crate::control::supervisor_message::{ControlReport, SupervisorMessage};
use crate::control::worker_node::WorkerNode;
use crate::control::worker_start::WorkerArgs;
use crate::directory::Directory;
use crate::id::ProcessId;
use crate::promise::Promise;
use crate::spawn_error::SpawnError;
use crate::worker::launch::Launcher;
use crate::worker::output::Printer;
use crate::worker::record::WorkerRecord;

/// The time that the processes which a shutdown kills may take to be gone; then the supervisor stops waiting for them.
const OVERDUE: Duration = Duration::from_secs(1);

pub(crate) struct Supervisor {
    directory: Arc<Directory>,
    printer: Option<Printer>,
    workers: Vec<Arc<WorkerRecord>>,
    closing: Option<Closing>,
    launch_threads: Arc<LaunchThreads>,
    /// The longest time for which a worker here may be quit before it is killed.
    quit_pause: Duration,
    /// Set to `true` at shutdown, which wakes worker nodes that wait for a process.
    ends: watch::Sender<bool>,
}

struct Closing {
    reply: Promise<ControlReport>,
    /// The workers whose nodes have not ended yet. A worker whose node ends for another reason is removed.
    awaited: IdSet<ProcessId>,
    killed: Vec<String>,
}

impl Node for Supervisor {
    type Message = SupervisorMessage;

    async fn handle(
        &mut self,
        myself: &NodeRef<SupervisorMessage>,
        message: SupervisorMessage,
    ) -> ControlFlow<()> {
        match message {
            SupervisorMessage::AddActor { record, reply } => self.add_actor(myself, &record, reply),
            SupervisorMessage::AddWorker {
                record,
                launcher,
                reply,
            } => self.add_worker(myself, &record, launcher, reply),
            SupervisorMessage::Shutdown { deadline, reply } => self.shut_down(myself, deadline, reply),
            SupervisorMessage::WorkerGone { worker, killed } => {
                if let Some(closing) = &mut self.closing {
                    closing.killed.extend(killed);
                    closing.awaited.remove(&worker);
                }
            }
            SupervisorMessage::ActorNodeEnded { actor, failure } => {
                if let (Some(failure), Some(record)) = (failure, self.directory.record(actor)) {
                    let why = format!("its control node failed: {failure}");
                    self.directory.end_actors(&[record], &why);
                }
            }
            SupervisorMessage::WorkerNodeEnded { worker, failure } => {
                self.worker_node_ended(worker, failure.is_some());
            }
            SupervisorMessage::Overdue => {
                if let Some(closing) = &mut self.closing {
                    closing.awaited.clear();
                }
            }
        }
        self.finish_if_done()
    }
}

impl Supervisor {
    pub(crate) fn new(directory: Arc<Directory>) -> Self {
        Self {
            directory,
            printer: None,
            workers: Vec::new(),
            closing: None,
            launch_threads: Arc::default(),
            quit_pause: Duration::ZERO,
            ends: watch::Sender::new(false),
        }
    }

    fn add_actor(
        &mut self,
        myself: &NodeRef<SupervisorMessage>,
        record: &Arc<ActorRecord>,
        reply: Promise<Result<(), SpawnError>>,
    ) {
        if self.closing.is_some() {
            return reply.keep(Err(SpawnError::Shutdown));
        }
        let (supervisor, actor) = (myself.clone(), record.id());
        let node = node::start(ActorNode::new(Arc::clone(record)), move |failure| {
            supervisor.send(SupervisorMessage::ActorNodeEnded { actor, failure });
        });
        // This is the first message to the node, which cannot have ended yet.
        node.send(NodeMessage::Build(reply));
        let _ = record.node.set(node);
    }

    fn add_worker(
        &mut self,
        myself: &NodeRef<SupervisorMessage>,
        record: &Arc<WorkerRecord>,
        launcher: Arc<dyn Launcher>,
        reply: Promise<Result<(), SpawnError>>,
    ) {
        if self.closing.is_some() {
            return reply.keep(Err(SpawnError::Shutdown));
        }
        let printer = match &self.printer {
            Some(printer) => printer,
            None => match Printer::start() {
                Ok(printer) => self.printer.insert(printer),
                Err(error) => return reply.keep(Err(SpawnError::Control(error))),
            },
        };
        #[cfg(feature = "hosts")]
        {
            self.quit_pause = self.quit_pause.max(launcher.quit_pause().unwrap_or_default());
        }
        let args = WorkerArgs {
            record: Arc::clone(record),
            directory: Arc::clone(&self.directory),
            supervisor: myself.clone(),
            printer: printer.queue(),
            launcher,
            launch_threads: Arc::clone(&self.launch_threads),
            incarnation: Incarnation(0),
            closing: self.ends.subscribe(),
        };
        let (supervisor, worker) = (myself.clone(), record.id());
        let node = node::start(WorkerNode::new(args), move |failure| {
            supervisor.send(SupervisorMessage::WorkerNodeEnded { worker, failure });
        });
        node.send(WorkerMessage::Start(reply));
        let _ = record.node.set(node);
        self.workers.push(Arc::clone(record));
    }

    fn shut_down(
        &mut self,
        myself: &NodeRef<SupervisorMessage>,
        deadline: Instant,
        reply: Promise<ControlReport>,
    ) {
        if self.closing.is_some() {
            return;
        }
        let told = self.workers.iter().filter(|record| record.end(deadline));
        let awaited = told.map(|record| record.id()).collect();
        self.ends.send_replace(true);
        self.closing = Some(Closing {
            reply,
            awaited,
            killed: Vec::new(),
        });
        let overdue = myself.clone();
        // Not before the last of them is killed.
        let last = deadline + self.quit_pause + OVERDUE;
        tokio::spawn(boxed_task(async move {
            tokio::time::sleep_until(last.into()).await;
            overdue.send(SupervisorMessage::Overdue);
        }));
    }

    /// Ends the shutdown, and with it the supervisor and the control thread, once no worker is awaited.
    fn finish_if_done(&mut self) -> ControlFlow<()> {
        let is_done = |closing: &mut Closing| closing.awaited.is_empty();
        let Some(closing) = self.closing.take_if(is_done) else {
            return ControlFlow::Continue(());
        };
        closing.reply.keep(ControlReport {
            killed: closing.killed,
            printer: self.printer.take(),
        });
        ControlFlow::Break(())
    }

    fn worker_node_ended(&mut self, worker: ProcessId, has_failed: bool) {
        if let Some(closing) = &mut self.closing {
            closing.awaited.remove(&worker);
        }
        for record in self.workers.extract_if(.., |record| record.id() == worker) {
            if has_failed {
                // A shutdown would no longer reach this worker, so its process is killed; its watch does the rest.
                record.kill();
            }
        }
    }
}
