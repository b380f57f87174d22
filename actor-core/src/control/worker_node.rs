//! One for each worker process: launches it, launches it again, ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, watch};

use crate::control::actor_node::{BuildFault, build_in_worker};
use crate::control::supervisor::SupervisorMessage;
use crate::control::watch::{Process, Watch};
use crate::death::Exit;
use crate::directory::Directory;
use crate::promise::Promise;
use crate::resident::{Resident, Vital};
use crate::spawn::SpawnError;
use crate::worker::hello::Hello;
use crate::worker::launch::launch;
use crate::worker::link::{Link, read_frame, write_frames};
use crate::worker::output::{Line, Pump, Target};
use crate::worker::premain::EXIT_STUCK;
use crate::worker::protocol::{FrameError, FromWorker, ToWorker};
use crate::worker::record::{Incarnation, WorkerRecord};

/// How long a worker may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) enum WorkerMessage {
    /// Launch the process for the first time.
    Start(Promise<Result<(), SpawnError>>),
    /// The process is dead, in this way, and everybody knows.
    Died(Exit),
    /// End the process, by force after the deadline.
    Shutdown { deadline: Instant },
}

pub(crate) struct WorkerArgs {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) supervisor: ActorRef<SupervisorMessage>,
    pub(crate) printer: mpsc::Sender<Line>,
    pub(crate) depth: u32,
    /// Becomes true when the control plane ends.
    pub(crate) closing: watch::Receiver<bool>,
}

pub(crate) struct WorkerNode;

pub(crate) struct WorkerState {
    args: WorkerArgs,
    closing: Option<Instant>,
}

impl Actor for WorkerNode {
    type Msg = WorkerMessage;
    type State = WorkerState;
    type Arguments = WorkerArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<WorkerMessage>,
        args: WorkerArgs,
    ) -> Result<WorkerState, ActorProcessingErr> {
        Ok(WorkerState { args, closing: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<WorkerMessage>,
        message: WorkerMessage,
        state: &mut WorkerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WorkerMessage::Start(reply) => {
                let started = state.start(&myself).await;
                let failed = started.is_err();
                reply.keep(started);
                if failed {
                    state.over(&myself, false);
                }
            }
            WorkerMessage::Died(exit) => state.died(&myself, &exit).await,
            WorkerMessage::Shutdown { deadline } => state.shut_down(&myself, deadline),
        }
        Ok(())
    }
}

impl WorkerState {
    /// Launches the process and waits for its hello.
    async fn start(&mut self, myself: &ActorRef<WorkerMessage>) -> Result<(), SpawnError> {
        let record = Arc::clone(&self.args.record);
        let worker = record.name().to_owned();
        let launched = launch(&worker, &record.env, self.args.depth)
            .map_err(|error| SpawnError::Launch { worker, error })?;
        let pidfd = Arc::new(launched.pidfd);
        let process = Process::new(Arc::clone(&pidfd)).map_err(SpawnError::Control)?;
        let prefix = format!("[{} pid {}] ", record.name(), launched.pid);
        let pump = |fd, target| {
            let pump = Arc::new(Pump::new(fd, prefix.clone(), target, self.args.printer.clone())?);
            tokio::spawn(Arc::clone(&pump).run());
            std::io::Result::Ok(pump)
        };
        let watched = || {
            launched.stream.set_nonblocking(true)?;
            let socket = UnixStream::from_std(launched.stream)?;
            Ok((
                pump(launched.stdout, Target::Out)?,
                pump(launched.stderr, Target::Err)?,
                socket,
            ))
        };
        let (stdout, stderr, socket) = match watched() {
            Ok(watched) => watched,
            Err(error) => {
                end(&process).await;
                return Err(SpawnError::Control(error));
            }
        };
        let (mut reading, writing) = socket.into_split();
        let (link, queue) = Link::new();
        let link = Arc::new(link);
        tokio::spawn(write_frames(queue, writing));
        if let Err(refused) = self.hear_hello(&mut reading).await {
            end(&process).await;
            stderr.drain();
            return Err(
                refused.map_or(SpawnError::Shutdown, |reason| SpawnError::NoHello {
                    worker: record.name().to_owned(),
                    reason,
                    stderr_tail: stderr.tail(),
                }),
            );
        }
        let welcome = ToWorker::Welcome {
            hello: Hello::mine(),
            process: record.id(),
            name: record.name().to_owned(),
        };
        // A worker that is gone again shows by its death.
        let _ = link.tell(&welcome);
        let incarnation = Incarnation {
            pid: launched.pid,
            pidfd,
            link: Arc::clone(&link),
        };
        record.set_current(Some(incarnation));
        let directory = Arc::clone(&self.args.directory);
        let (node, pid) = (myself.clone(), launched.pid);
        tokio::spawn(
            Watch {
                record,
                directory,
                node,
                pid,
                process,
                link,
                stdout,
                stderr,
            }
            .run(reading),
        );
        Ok(())
    }

    /// Waits for a worker's hello: what is wrong with it, or nothing where the runtime ends meanwhile.
    async fn hear_hello(&mut self, reading: &mut OwnedReadHalf) -> Result<(), Option<String>> {
        let hello = tokio::time::timeout(HELLO_TIMEOUT, read_frame::<FromWorker>(reading));
        tokio::select! {
            hello = hello => check_hello(hello).map_err(Some),
            // An error means that the supervisor is gone.
            _ = self.args.closing.wait_for(|closing| *closing) => Err(None),
        }
    }

    async fn died(&mut self, myself: &ActorRef<WorkerMessage>, exit: &Exit) {
        let directory = Arc::clone(&self.args.directory);
        let residents = directory.residents_in(self.args.record.id());
        if self.closing.is_some() {
            let forced = [Exit::Signal(libc::SIGKILL), Exit::Code(EXIT_STUCK)];
            let killed = forced.contains(exit);
            let name = killed.then(|| self.args.record.name().to_owned());
            let _ = self.args.supervisor.send_message(SupervisorMessage::WorkerGone {
                node: myself.get_id(),
                killed: name,
            });
            directory.tell_nodes(&residents);
            if !directory.is_closed() {
                directory.end_actors(&residents, "its worker was ended");
                directory.forget_dead(&residents);
            }
            return self.over(myself, killed);
        }
        let restarting: Vec<Arc<Resident>> = residents
            .iter()
            .filter(|resident| resident.vital() == Vital::Restarting)
            .cloned()
            .collect();
        if restarting.is_empty() {
            directory.tell_nodes(&residents);
            directory.forget_dead(&residents);
            return self.over(myself, false);
        }
        match self.start(myself).await {
            Ok(()) => restarting
                .iter()
                .for_each(|resident| revive(&directory, resident)),
            Err(error) => {
                directory.end_actors(&restarting, &format!("its worker did not start again: {error}"))
            }
        }
        directory.tell_nodes(&residents);
        directory.forget_dead(&residents);
    }

    /// No process of the worker will run any more.
    fn over(&self, myself: &ActorRef<WorkerMessage>, killed: bool) {
        self.args.record.set_over(killed);
        self.args.directory.leases.wake();
        myself.stop(None);
    }

    fn shut_down(&mut self, myself: &ActorRef<WorkerMessage>, deadline: Instant) {
        let deadline = self.closing.map_or(deadline, |earlier| earlier.min(deadline));
        self.closing = Some(deadline);
        let record = Arc::clone(&self.args.record);
        let Some(link) = record.link() else {
            let _ = self.args.supervisor.send_message(SupervisorMessage::WorkerGone {
                node: myself.get_id(),
                killed: None,
            });
            return self.over(myself, false);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let grace_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let _ = link.tell(&ToWorker::Shutdown { grace_ms });
        tokio::spawn(async move {
            tokio::time::sleep_until(deadline.into()).await;
            record.kill();
        });
    }
}

/// A message with its body.
type Framed = (FromWorker, Vec<u8>);

fn check_hello(
    hello: Result<Result<Option<Framed>, FrameError>, tokio::time::error::Elapsed>,
) -> Result<(), String> {
    match hello {
        Ok(Ok(Some((FromWorker::Hello(hello), _)))) => {
            Hello::mine().check(&hello).map_err(|error| error.to_string())
        }
        Ok(Ok(Some(_))) => Err("it spoke before it said hello".to_owned()),
        Ok(Ok(None)) => Err("it ended before it said hello".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "it started but never called `selvedge::init()` ({HELLO_TIMEOUT:?} passed)"
        )),
    }
}

/// Kills and reaps a process that is of no use.
async fn end(process: &Process) {
    process.kill();
    process.reap().await;
}

/// Builds an actor again in its new process.
fn revive(directory: &Arc<Directory>, resident: &Arc<Resident>) {
    let (directory, revived) = (Arc::clone(directory), Arc::clone(resident));
    build_in_worker(resident, move |result| match result {
        Ok(()) => {
            revived.note_revival();
            directory.tell_nodes(std::slice::from_ref(&revived));
        }
        Err(BuildFault::Constructor(report)) => {
            directory.end_actors(
                std::slice::from_ref(&revived),
                &format!("its constructor failed: {report}"),
            );
        }
        // The new process died too: its own death decides.
        Err(BuildFault::Lost(_)) => {}
    });
}
