//! The start of a worker process: it is launched, its output and its link are connected, and it says hello.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::peer::{Incarnation, Peer};
use tokio::sync::watch;

use crate::control::launch_threads::LaunchThreads;
use crate::control::messages::WorkerMessage;
use crate::control::node::NodeRef;
use crate::control::supervisor_message::SupervisorMessage;
use crate::control::watch::{Process, Watch};
use crate::death::Exit;
use crate::directory::Directory;
use crate::hub::post::Post;
use crate::platform::link::{LinkReader, LinkWriter, connect};
use crate::spawn_error::SpawnError;
use crate::worker::hello::Hello;
use crate::worker::launch::{Launched, Launcher};
use crate::worker::link::{Link, read_frame, write_frames};
use crate::worker::output::{LineQueue, Pump, Target};
use crate::worker::protocol::{FrameError, FromWorker, ToWorker};
use crate::worker::record::{RunningProcess, WorkerRecord};

/// The data of a worker's node.
pub(crate) struct WorkerArgs {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) supervisor: NodeRef<SupervisorMessage>,
    pub(crate) printer: LineQueue,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) launch_threads: Arc<LaunchThreads>,
    /// The number of the last process that was started.
    pub(crate) incarnation: Incarnation,
    /// Becomes true when the control plane ends.
    pub(crate) closing: watch::Receiver<bool>,
}

/// The ends of a new process that the driver holds.
struct Connected {
    stdout: Arc<Pump>,
    stderr: Arc<Pump>,
    reading: LinkReader,
    writing: LinkWriter,
}

impl WorkerArgs {
    /// Launches the process, waits for its hello, and watches it from then on.
    pub(super) async fn start(&mut self, node: &NodeRef<WorkerMessage>) -> Result<(), SpawnError> {
        let mut launched = self.launch().await?;
        let pid = launched.pid;
        let Some(child) = launched.process.watch() else {
            return Err(SpawnError::Internal("a child without a descriptor".to_owned()));
        };
        let mut process = Process::new(&child).map_err(SpawnError::Control)?;
        let Connected {
            stdout,
            stderr,
            mut reading,
            writing,
        } = match self.connect(launched) {
            Ok(connected) => connected,
            Err(error) => {
                end(&process).await;
                return Err(SpawnError::Control(error));
            }
        };
        let (link, queue) = Link::new();
        let link = Arc::new(link);
        tokio::spawn(write_frames(queue, writing));
        match self.hear_hello(&mut reading).await {
            Ok(sentinels) => process.watch_sentinels(pid, &sentinels),
            Err(refused) => return Err(self.refused(refused, &process, &stderr).await),
        }
        let peer = self.next_peer();
        // If the worker is gone already, its watch detects the death.
        let _ = link.tell(&self.welcome(peer));
        let record = Arc::clone(&self.record);
        let running = RunningProcess {
            pid,
            peer,
            child,
            link: Arc::clone(&link),
        };
        self.directory.hub.joined(peer, Arc::new(running.clone()));
        record.set_current(Some(running));
        let watch = Watch {
            record,
            directory: Arc::clone(&self.directory),
            node: node.clone(),
            pid,
            peer,
            process,
            link,
            stdout,
            stderr,
        };
        tokio::spawn(watch.run(reading));
        Ok(())
    }

    /// Connects the output of a new process with the printer, and its link with the reactor.
    fn connect(&self, launched: Launched) -> io::Result<Connected> {
        let prefix = format!("[{} pid {}] ", self.record.name(), launched.pid);
        let pump = |fd, target| {
            let pump = Arc::new(Pump::new(fd, prefix.clone(), target, self.printer.clone())?);
            tokio::spawn(Arc::clone(&pump).run());
            io::Result::Ok(pump)
        };
        let (reading, writing) = connect(launched.stream)?;
        Ok(Connected {
            reading,
            writing,
            stdout: pump(launched.stdout, Target::Out)?,
            stderr: pump(launched.stderr, Target::Err)?,
        })
    }

    /// Returns the driver's answer to a hello.
    fn welcome(&self, peer: Peer) -> ToWorker {
        ToWorker::Welcome {
            hello: Hello::mine(),
            process: self.record.id(),
            name: self.record.name().to_owned(),
            peer,
            driver: self.directory.hub.me(),
        }
    }

    /// The name of a new process among the peers: its place, and a number that no earlier process had there.
    fn next_peer(&mut self) -> Peer {
        self.incarnation = Incarnation(self.incarnation.0.saturating_add(1));
        Peer {
            process: self.record.id().among_peers(),
            incarnation: self.incarnation,
        }
    }

    /// Ends a process that has not said hello as expected, and returns the error of the start.
    async fn refused(&self, refused: NoHello, process: &Process, stderr: &Pump) -> SpawnError {
        let exit = end(process).await;
        stderr.drain();
        let reason = match refused {
            NoHello::Unwanted(unwanted) => return *unwanted,
            NoHello::Ended => format!("it ended before it said hello: {exit}"),
            NoHello::Said(reason) => reason,
        };
        SpawnError::NoHello {
            worker: self.record.name().to_owned(),
            reason,
            stderr_tail: stderr.tail(),
        }
    }

    /// Starts a process on a launch thread, because the start may take any time.
    async fn launch(&mut self) -> Result<Launched, SpawnError> {
        let (record, launcher) = (Arc::clone(&self.record), Arc::clone(&self.launcher));
        let limit = self.directory.limits().hello;
        let worker = self.record.name().to_owned();
        let failed = |error| SpawnError::Launch { worker, error };
        let work = move || launcher.launch(record.name(), &record.env);
        let launched = self.launch_threads.start(work).map_err(SpawnError::Control)?;
        tokio::select! {
            launched = launched => match launched {
                Ok(launched) => launched.map_err(failed),
                Err(_) => Err(SpawnError::Internal("the thread that starts processes has ended".to_owned())),
            },
            () = tokio::time::sleep(limit) => Err(failed(too_slow(limit))),
            unwanted = self.unwanted() => Err(unwanted),
        }
    }

    /// Waits until no process is wanted any more, and returns the reason.
    pub(super) async fn unwanted(&mut self) -> SpawnError {
        let record = Arc::clone(&self.record);
        tokio::select! {
            biased;
            // An error means that the supervisor is gone.
            _ = self.closing.wait_for(|closing| *closing) => SpawnError::Shutdown,
            () = record.told_to_end() => SpawnError::Worker {
                worker: record.name().to_owned(),
                reason: "it was told to end".to_owned(),
            },
        }
    }

    /// Waits for a worker's hello and returns the worker's sentinels.
    async fn hear_hello(&mut self, reading: &mut LinkReader) -> Result<Vec<u32>, NoHello> {
        let limit = self.directory.limits().hello;
        let hello = tokio::time::timeout(limit, read_frame::<FromWorker>(reading));
        tokio::select! {
            hello = hello => check_hello(hello, limit),
            unwanted = self.unwanted() => Err(NoHello::Unwanted(Box::new(unwanted))),
        }
    }
}

fn too_slow(limit: Duration) -> io::Error {
    let text = format!(
        "its process has not reached the program within {limit:?} (is it stopped, or the file system slow? \
         help: Runtime::hello_timeout sets this time)"
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
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
