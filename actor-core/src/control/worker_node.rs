//! Worker nodes, one for each worker process: a node launches the process, restarts it, and ends it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, watch};

use crate::actor_record::{ActorRecord, Liveness};
use crate::control::launchers::Launchers;
use crate::control::messages::WorkerMessage;
use crate::control::supervisor_message::SupervisorMessage;
use crate::control::watch::{Process, Watch};
use crate::death::Exit;
use crate::directory::Directory;
use crate::home::keep::LaneKeep;
use crate::spawn_error::SpawnError;
use crate::worker::exit::EXIT_STUCK;
use crate::worker::hello::Hello;
use crate::worker::launch::{Launched, launch};
use crate::worker::link::{Link, read_frame, write_frames};
use crate::worker::output::{Line, Pump, Target};
use crate::worker::protocol::{FrameError, FromWorker, ToWorker};
use crate::worker::record::{Incarnation, WorkerRecord};

/// The pause after a restart that failed. It doubles after each further failure, up to a second.
const RESTART_PAUSE: Duration = Duration::from_millis(10);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct WorkerArgs {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) supervisor: ActorRef<SupervisorMessage>,
    pub(crate) printer: mpsc::Sender<Line>,
    pub(crate) depth: u32,
    pub(crate) launchers: Arc<Launchers>,
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
        let launched = self.launch().await?;
        let Some(pidfd) = launched.process.watch() else {
            return Err(SpawnError::Internal("a child without a descriptor".to_owned()));
        };
        let pidfd = Arc::new(pidfd);
        let mut process = Process::new(Arc::clone(&pidfd)).map_err(SpawnError::Control)?;
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
        match self.hear_hello(&mut reading).await {
            Ok(sentinels) => process.heed(launched.pid, &sentinels),
            Err(refused) => {
                let exit = end(&process).await;
                stderr.drain();
                let reason = match refused {
                    NoHello::Unwanted(unwanted) => return Err(*unwanted),
                    NoHello::Ended => format!("it ended before it said hello: {exit}"),
                    NoHello::Said(reason) => reason,
                };
                return Err(SpawnError::NoHello {
                    worker: record.name().to_owned(),
                    reason,
                    stderr_tail: stderr.tail(),
                });
            }
        }
        let welcome = ToWorker::Welcome {
            hello: Hello::mine(),
            process: record.id(),
            name: record.name().to_owned(),
        };
        // If the worker is gone already, its watch detects the death.
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

    /// Starts a process on a launcher thread, because the start may take any time.
    async fn launch(&mut self) -> Result<Launched, SpawnError> {
        let (record, depth) = (Arc::clone(&self.args.record), self.args.depth);
        let limit = self.args.directory.limits().hello;
        let worker = self.args.record.name().to_owned();
        let failed = |error| SpawnError::Launch { worker, error };
        let work = move || launch(record.name(), &record.env, depth);
        let launched = self.args.launchers.start(work).map_err(SpawnError::Control)?;
        tokio::select! {
            launched = launched => match launched {
                Ok(launched) => launched.map_err(failed),
                Err(_) => Err(SpawnError::Internal("the thread that starts processes has ended".to_owned())),
            },
            () = tokio::time::sleep(limit) => {
                let text = format!(
                    "its process has not reached the program within {limit:?} (is it stopped, or the file system slow? \
                     help: Runtime::hello_timeout sets this time)"
                );
                Err(failed(std::io::Error::new(std::io::ErrorKind::TimedOut, text)))
            }
            unwanted = self.unwanted() => Err(unwanted),
        }
    }

    /// Waits until no process is wanted any more, and returns the reason.
    async fn unwanted(&mut self) -> SpawnError {
        let record = Arc::clone(&self.args.record);
        tokio::select! {
            biased;
            // An error means that the supervisor is gone.
            _ = self.args.closing.wait_for(|closing| *closing) => SpawnError::Shutdown,
            () = record.told_to_end() => SpawnError::Worker {
                worker: record.name().to_owned(),
                reason: "it was told to end".to_owned(),
            },
        }
    }

    /// Waits for a worker's hello and returns the worker's sentinels.
    async fn hear_hello(&mut self, reading: &mut OwnedReadHalf) -> Result<Vec<u32>, NoHello> {
        let limit = self.args.directory.limits().hello;
        let hello = tokio::time::timeout(limit, read_frame::<FromWorker>(reading));
        tokio::select! {
            hello = hello => check_hello(hello, limit),
            unwanted = self.unwanted() => Err(NoHello::Unwanted(Box::new(unwanted))),
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
        let runs = self.restart(myself, &residents).await;
        directory.tell_nodes(&residents);
        directory.forget_dead(&residents);
        if !runs {
            self.over(myself, false);
        }
    }

    /// Restarts the process for the actors that restart. A start that fails is a death like any other: the actors'
    /// policies decide whether there is another attempt. Returns whether a process runs.
    async fn restart(&mut self, myself: &ActorRef<WorkerMessage>, residents: &[Arc<ActorRecord>]) -> bool {
        let directory = Arc::clone(&self.args.directory);
        let mut pause = RESTART_PAUSE;
        loop {
            let restarting: Vec<Arc<ActorRecord>> = residents
                .iter()
                .filter(|resident| resident.vital() == Liveness::Restarting)
                .cloned()
                .collect();
            if restarting.is_empty() {
                return false;
            }
            let error = match self.start(myself).await {
                Ok(()) => {
                    restarting
                        .iter()
                        .for_each(|resident| revive(&directory, resident));
                    return true;
                }
                Err(error) => error,
            };
            let why = format!("its worker did not start again: {error}");
            let ends = matches!(error, SpawnError::Shutdown | SpawnError::Worker { .. });
            directory.note_deaths(&restarting, &why, !ends);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.unwanted() => {}
            }
            pause = RESTART_PAUSE_MAX.min(pause * 2);
        }
    }

    /// Records that no process of the worker will run any more, and stops the node.
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

/// A message and its body.
type Framed = (FromWorker, Vec<u8>);

/// The reason that there was no hello.
enum NoHello {
    /// The process is no longer wanted.
    Unwanted(Box<SpawnError>),
    /// The process closed its link.
    Ended,
    /// The first message was wrong or did not arrive; the text gives the reason.
    Said(String),
}

fn check_hello(
    hello: Result<Result<Option<Framed>, FrameError>, tokio::time::error::Elapsed>,
    limit: Duration,
) -> Result<Vec<u32>, NoHello> {
    match hello {
        Ok(Ok(Some((FromWorker::Hello { hello, sentinels }, _)))) => Hello::mine()
            .check(&hello)
            .map(|()| sentinels)
            .map_err(|error| NoHello::Said(error.to_string())),
        Ok(Ok(Some(_))) => Err(NoHello::Said("it spoke before it said hello".to_owned())),
        Ok(Ok(None)) => Err(NoHello::Ended),
        Ok(Err(error)) => Err(NoHello::Said(error.to_string())),
        Err(_) => Err(NoHello::Said(format!(
            "it started but never called `selvedge::init()` ({limit:?} passed; help: Runtime::hello_timeout sets this time)"
        ))),
    }
}

/// Kills and reaps a process that is of no use.
async fn end(process: &Process) -> Exit {
    process.kill();
    process.reap().await
}

/// Rebuilds an actor in its new process, unless the actor was ended meanwhile.
fn revive(directory: &Arc<Directory>, resident: &Arc<ActorRecord>) {
    let is_wanted = |resident: &ActorRecord| resident.vital() == Liveness::Restarting;
    let Some(keep) = directory.keep_of(resident.id()).filter(|_| is_wanted(resident)) else {
        return;
    };
    let (directory, revived) = (Arc::clone(directory), Arc::clone(resident));
    let done = move |result| match result {
        // The new process has died too. The handling of that death decides.
        Err(SpawnError::Worker { .. }) => {}
        _ if !is_wanted(&revived) => dismiss(&revived, &keep),
        Ok(()) => {
            revived.note_revival();
            directory.tell_nodes(std::slice::from_ref(&revived));
        }
        Err(error) => {
            let why = match error {
                SpawnError::Constructor { failure, .. } => format!("its constructor failed: {failure}"),
                error => format!("it was not built again: {error}"),
            };
            directory.end_actors(std::slice::from_ref(&revived), &why);
        }
    };
    resident.home.build(&resident.blueprint, Box::new(done));
}

/// Removes an actor that was built in a new process although it had been ended meanwhile. Ends its lane if neither a
/// handle nor an actor keeps the lane alive.
fn dismiss(resident: &ActorRecord, keep: &Weak<LaneKeep>) {
    resident.leave();
    if let Some(worker) = resident.home.worker().filter(|_| keep.strong_count() == 0) {
        worker.end_lane(resident.lane(), Box::new(|_| {}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Blueprint;
    use crate::home::handles::Worker;
    use crate::home::placement::Restart;
    use crate::id::ProcessId;
    use crate::runtime::Runtime;
    use crate::worker::link::{Outgoing, Response};
    use crate::worker::protocol::{FRAME_HEADER_BYTES, read_head};

    /// Returns the next message to the worker.
    fn sent(queue: &mut mpsc::UnboundedReceiver<Outgoing>) -> Option<ToWorker> {
        let message = queue.try_recv().ok()?;
        message
            .front
            .get(FRAME_HEADER_BYTES..)
            .map(|head| read_head(head).unwrap())
    }

    #[test]
    fn an_actor_that_is_ended_while_its_process_restarts_is_not_there_afterwards() {
        let runtime = Runtime::new();
        let directory = &runtime.inner().directory;
        let record = Arc::new(WorkerRecord::new(ProcessId::next(), "w", Vec::new()));
        let worker = Worker::new(&runtime, Arc::clone(&record));
        for built in [false, true] {
            let (link, mut queue) = Link::new();
            let link = Arc::new(link);
            let pidfd = Arc::new(std::fs::File::open("/dev/null").unwrap().into());
            let runs = Incarnation {
                pid: 0,
                pidfd,
                link: Arc::clone(&link),
            };
            let lane = worker.lane("l");
            let (home, keep) = lane.home().unwrap();
            let restart = Restart::OnFailure { max: 1 };
            let resident = Arc::new(ActorRecord::new(Blueprint::of_nothing("a"), home, restart));
            directory.add_resident(&resident, Some(keep));
            let residents = [Arc::clone(&resident)];
            directory.note_deaths(&residents, "its process has died", true);
            assert_eq!(resident.vital(), Liveness::Restarting);
            if built {
                record.set_current(Some(runs.clone()));
                revive(directory, &resident);
                assert!(matches!(sent(&mut queue), Some(ToWorker::Create { .. })));
                record.set_current(None);
            }
            // The end is not sent to any process.
            directory.end_actors(&residents, "it was killed");
            drop(lane);
            assert!(sent(&mut queue).is_none());
            record.set_current(Some(runs));
            if built {
                link.answer(0, Response::Created(Ok(())));
                assert!(matches!(sent(&mut queue), Some(ToWorker::Remove { .. })));
                assert!(matches!(sent(&mut queue), Some(ToWorker::EndLane { .. })));
            } else {
                revive(directory, &resident);
            }
            assert!(sent(&mut queue).is_none());
            record.set_current(None);
        }
    }
}
