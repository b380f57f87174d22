//! The supervisor, which is the root of the control plane: it starts a node for each actor and worker and is told when
//! one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, SupervisionEvent};
use tokio::sync::watch;

use crate::actor_record::ActorRecord;
use crate::control::actor_node::ActorNode;
use crate::control::launch_threads::LaunchThreads;
use crate::control::messages::{NodeMessage, WorkerMessage};
use crate::control::supervisor_message::{ControlReport, SupervisorMessage};
use crate::control::worker_node::WorkerNode;
use crate::control::worker_start::WorkerArgs;
use crate::directory::Directory;
use crate::id::ActorId;
use crate::promise::Promise;
use crate::spawn_error::SpawnError;
use crate::worker::launch::Launcher;
use crate::worker::output::Printer;
use crate::worker::record::WorkerRecord;

/// The time after a shutdown's deadline at which the supervisor stops waiting for nodes.
const OVERDUE: Duration = Duration::from_secs(1);

pub(crate) struct Supervisor;

pub(crate) struct SupervisorState {
    directory: Arc<Directory>,
    printer: Option<Printer>,
    workers: Vec<Arc<WorkerRecord>>,
    /// The actor of each node, to find the actor of a node that failed.
    nodes: BTreeMap<ractor::ActorId, ActorId>,
    closing: Option<Closing>,
    launch_threads: Arc<LaunchThreads>,
    /// Set to `true` at shutdown, which wakes worker nodes that wait for a process.
    ends: watch::Sender<bool>,
}

struct Closing {
    reply: Promise<ControlReport>,
    /// The nodes of workers that have not ended yet. A node that stops for another reason is removed.
    awaited: BTreeSet<ractor::ActorId>,
    killed: Vec<String>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = Arc<Directory>;

    async fn pre_start(
        &self,
        _myself: ActorRef<SupervisorMessage>,
        directory: Arc<Directory>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        Ok(SupervisorState {
            directory,
            printer: None,
            workers: Vec::new(),
            nodes: BTreeMap::new(),
            closing: None,
            launch_threads: Arc::default(),
            ends: watch::Sender::new(false),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::AddActor { record, reply } => state.add_actor(&myself, &record, reply),
            SupervisorMessage::AddWorker {
                record,
                launcher,
                reply,
            } => {
                state.add_worker(&myself, &record, launcher, reply);
            }
            SupervisorMessage::Shutdown { deadline, reply } => state.shut_down(&myself, deadline, reply),
            SupervisorMessage::WorkerGone { node, killed } => {
                if let Some(closing) = &mut state.closing {
                    closing.killed.extend(killed);
                }
                state.no_longer_awaited(&myself, node);
            }
            SupervisorMessage::NodeStopped(node) => state.no_longer_awaited(&myself, node),
            SupervisorMessage::Overdue => {
                if let Some(closing) = &mut state.closing {
                    closing.awaited.clear();
                }
                state.finish_if_done(&myself);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        if let (
            SupervisionEvent::ActorFailed(node, _) | SupervisionEvent::ActorTerminated(node, ..),
            Some(_),
        ) = (&event, &state.closing)
        {
            // Supervision events overtake messages. This message is handled after the last messages of the node.
            let _ = myself.send_message(SupervisorMessage::NodeStopped(node.get_id()));
        }
        match event {
            SupervisionEvent::ActorFailed(node, error) => {
                if let Some(id) = state.nodes.remove(&node.get_id()) {
                    state.end_actor(id, &format!("its control node failed: {error}"));
                }
                for record in state.forget_worker(node.get_id()) {
                    // A shutdown would no longer reach this worker, so its process is killed; its watch does the rest.
                    record.kill();
                }
            }
            SupervisionEvent::ActorTerminated(node, ..) => {
                state.nodes.remove(&node.get_id());
                state.forget_worker(node.get_id());
            }
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    fn add_actor(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        record: &Arc<ActorRecord>,
        reply: Promise<Result<(), SpawnError>>,
    ) {
        if self.closing.is_some() {
            return reply.keep(Err(SpawnError::Shutdown));
        }
        let args = Arc::clone(record);
        match ActorRuntime::spawn_linked_instant(None, ActorNode, args, myself.get_cell()) {
            Ok((node, _)) => {
                self.nodes.insert(node.get_id(), record.id());
                // This is the first message to the node, which cannot have stopped yet.
                let _ = node.send_message(NodeMessage::Build(reply));
                let _ = record.node.set(node);
            }
            Err(error) => reply.keep(Err(SpawnError::Internal(error.to_string()))),
        }
    }

    fn add_worker(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
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
        let args = WorkerArgs {
            record: Arc::clone(record),
            directory: Arc::clone(&self.directory),
            supervisor: myself.clone(),
            printer: printer.lines(),
            launcher,
            launch_threads: Arc::clone(&self.launch_threads),
            closing: self.ends.subscribe(),
        };
        match ActorRuntime::spawn_linked_instant(None, WorkerNode, args, myself.get_cell()) {
            Ok((node, _)) => {
                let _ = node.send_message(WorkerMessage::Start(reply));
                let _ = record.node.set(node);
                self.workers.push(Arc::clone(record));
            }
            Err(error) => reply.keep(Err(SpawnError::Internal(error.to_string()))),
        }
    }

    fn shut_down(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        deadline: Instant,
        reply: Promise<ControlReport>,
    ) {
        if self.closing.is_some() {
            return;
        }
        let nodes = self.workers.iter().filter_map(|record| record.node.get());
        let told = nodes.filter(|node| node.send_message(WorkerMessage::Shutdown { deadline }).is_ok());
        self.ends.send_replace(true);
        let awaited = told.map(|node| node.get_id()).collect();
        self.closing = Some(Closing {
            reply,
            awaited,
            killed: Vec::new(),
        });
        let overdue = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until((deadline + OVERDUE).into()).await;
            let _ = overdue.send_message(SupervisorMessage::Overdue);
        });
        self.finish_if_done(myself);
    }

    fn no_longer_awaited(&mut self, myself: &ActorRef<SupervisorMessage>, node: ractor::ActorId) {
        if let Some(closing) = &mut self.closing {
            closing.awaited.remove(&node);
        }
        self.finish_if_done(myself);
    }

    /// Ends the shutdown once no node is awaited: stops all nodes, then the supervisor, which ends the control thread.
    fn finish_if_done(&mut self, myself: &ActorRef<SupervisorMessage>) {
        let done = self
            .closing
            .as_ref()
            .is_some_and(|closing| closing.awaited.is_empty());
        let Some(closing) = self.closing.take_if(|_| done) else {
            return;
        };
        for record in self.directory.records() {
            if let Some(node) = record.node.get() {
                node.stop(None);
            }
        }
        for record in &self.workers {
            if let Some(node) = record.node.get() {
                node.stop(None);
            }
        }
        myself.stop(None);
        closing.reply.keep(ControlReport {
            killed: closing.killed,
            printer: self.printer.take(),
        });
    }

    fn forget_worker(&mut self, node: ractor::ActorId) -> Vec<Arc<WorkerRecord>> {
        let is_its = |record: &mut Arc<WorkerRecord>| record.node.get().is_some_and(|it| it.get_id() == node);
        self.workers.extract_if(.., is_its).collect()
    }

    fn end_actor(&self, id: ActorId, why: &str) {
        let failed: Vec<_> = self
            .directory
            .records()
            .into_iter()
            .filter(|record| record.id() == id)
            .collect();
        self.directory.end_actors(&failed, why);
    }
}
