//! The start of a worker process: it is launched, its output and its link are connected, and it says hello.

use std::io;
use std::sync::Arc;

use selvedge_cluster::peer::{Incarnation, Peer};
use tokio::sync::watch;

use crate::boxed::boxed_task;
use crate::control::hosted::Hosted;
use crate::control::launch_threads::LaunchThreads;
use crate::control::messages::WorkerMessage;
use crate::control::no_hello::{NoHello, check_hello, too_slow};
use crate::control::node::NodeRef;
use crate::control::supervisor_message::SupervisorMessage;
use crate::control::watch::Watch;
use crate::control::worker_process::{ProcessHandle, WorkerProcess};
use crate::death::Exit;
use crate::directory::Directory;
#[cfg(feature = "hosts")]
use crate::hosts::host_key::Machine;
use crate::hub::post::Post;
use crate::platform::child::Process;
use crate::platform::link::{OutputPipe, OutputReader, Stream, connect, output};
use crate::spawn_error::SpawnError;
use crate::topology::Station;
use crate::worker::hello::Hello;
use crate::worker::launch::{Contact, Launched, LaunchedChild, Launcher};
use crate::worker::link::{Link, write_frames};
use crate::worker::output::{LineQueue, Pump, Target};
use crate::worker::protocol::ToWorker;
use crate::worker::record::{RunningProcess, WorkerRecord};
use crate::worker::words::Words;

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

/// A process that was started, under its name among the peers.
pub(super) struct NewProcess {
    pub(super) peer: Peer,
    /// The pid of the child; `None` for a guest.
    pub(super) child: Option<u32>,
    pub(super) handle: ProcessHandle,
    pub(super) process: WorkerProcess,
    /// `None` for a guest, whose output is its own.
    pub(super) stderr: Option<Arc<Pump>>,
    pub(super) hosted: Hosted,
}

/// A process that has introduced itself.
pub(super) struct Met {
    pub(super) words: Words,
    pub(super) link: Arc<Link>,
    /// `None` for a guest, whose output is its own.
    pub(super) stdout: Option<Arc<Pump>>,
    /// The pid of the worker on its host.
    pub(super) pid: u32,
    pub(super) sentinels: Vec<u32>,
    /// How other workers reach the worker; `None` for a child, which takes ends of pairs.
    pub(super) station: Option<Station>,
    /// The machine of the worker; `None` for a child, which is on this one.
    #[cfg(feature = "hosts")]
    pub(super) machine: Option<Machine>,
}

impl WorkerArgs {
    /// Launches the process, waits for its hello, and watches it from then on.
    pub(super) async fn start(&mut self, node: &NodeRef<WorkerMessage>) -> Result<(), SpawnError> {
        #[cfg(feature = "hosts")]
        if let Some(guests) = self.launcher.guests() {
            return self.start_guest(node, guests).await;
        }
        let Launched { child, contact } = self.launch().await?;
        let mut hosted = Hosted::launched(&self.record, &self.launcher);
        let LaunchedChild {
            pid,
            mut process,
            stdout,
            stderr,
        } = child;
        let Some(child) = process.watch() else {
            return Err(SpawnError::Internal("a child without a descriptor".to_owned()));
        };
        let process = Process::new(&child).map_err(SpawnError::Control)?;
        let stderr = match self.pump(stderr, pid, Target::Err) {
            Ok(stderr) => stderr,
            Err(error) => {
                end(&process).await;
                return Err(SpawnError::Control(error));
            }
        };
        let peer = self.next_peer();
        let met = match contact {
            Contact::Pair(stream) => self.meet_child(pid, stream, stdout).await,
            #[cfg(feature = "hosts")]
            Contact::Announced(dialing) => self.meet_host(peer, dialing, stdout, &mut hosted).await,
        };
        let met = match met {
            Ok(met) => met,
            Err(refused) => {
                hosted.failed();
                return Err(self.refused(refused, &process, &stderr).await);
            }
        };
        let started = NewProcess {
            peer,
            child: Some(pid),
            handle: ProcessHandle::Child(child),
            process: WorkerProcess::Child(process),
            stderr: Some(stderr),
            hosted,
        };
        self.join(node, started, met);
        Ok(())
    }

    /// Makes a process that has introduced itself a member, and watches it.
    pub(super) fn join(&self, node: &NodeRef<WorkerMessage>, started: NewProcess, met: Met) {
        let NewProcess {
            peer,
            child,
            handle,
            mut process,
            stderr,
            mut hosted,
        } = started;
        #[cfg(feature = "hosts")]
        if let Some(machine) = met.machine {
            self.directory.hub.note_cores(peer, machine.believed_cores());
            self.record.note_machine(machine);
        }
        let (pid, link) = (met.pid, met.link);
        process.watch_sentinels(pid, &met.sentinels);
        // If the worker is gone already, its watch detects the death.
        let _ = link.tell(&self.welcome(peer));
        let (record, killed) = (Arc::clone(&self.record), Arc::default());
        let running = RunningProcess {
            pid,
            is_child: child == Some(pid),
            peer,
            handle,
            link: Arc::clone(&link),
            name: record.process_name(),
            hub: Arc::downgrade(&self.directory.hub),
            killed: Arc::clone(&killed),
        };
        let courier = Arc::new(running.clone());
        self.tell_hub(peer, courier, met.station);
        record.set_current(Some(running));
        if record.is_told_to_end() && !self.directory.is_closed() {
            self.directory.hub.leaves(peer);
        }
        hosted.joined();
        let watch = Watch {
            record,
            directory: Arc::clone(&self.directory),
            node: node.clone(),
            pid,
            peer,
            process,
            link,
            killed,
            stdout: met.stdout,
            stderr,
            hosted,
        };
        tokio::spawn(boxed_task(watch.run(met.words)));
    }

    /// Tells the hub that a worker or a job has joined.
    fn tell_hub(&self, peer: Peer, courier: Arc<RunningProcess>, station: Option<Station>) {
        let hub = &self.directory.hub;
        #[cfg(feature = "hosts")]
        if self.launcher.guests().is_some_and(|guests| guests.are_a_job()) {
            return hub.job_joined(peer, courier, station);
        }
        hub.joined(peer, courier, station);
    }

    /// Connects an output of a new process with the printer.
    fn pump(&self, pipe: OutputPipe, pid: u32, target: Target) -> io::Result<Arc<Pump>> {
        let (name, printer) = (self.record.name(), &self.printer);
        Ok(pump(name, pid, output(pipe)?, &[], target, printer))
    }

    /// Connects the link of a child with the reactor, and hears its hello.
    async fn meet_child(&mut self, pid: u32, stream: Stream, stdout: OutputPipe) -> Result<Met, NoHello> {
        let (reading, writing) = connect(stream).map_err(NoHello::Io)?;
        let stdout = self.pump(stdout, pid, Target::Out).map_err(NoHello::Io)?;
        let (link, queue) = Link::new();
        tokio::spawn(boxed_task(write_frames(queue, writing)));
        let mut words = Words::Socket(reading);
        let sentinels = self.hear_hello(&mut words).await?;
        Ok(Met {
            words,
            link: Arc::new(link),
            stdout: Some(stdout),
            pid,
            sentinels,
            station: None,
            #[cfg(feature = "hosts")]
            machine: None,
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
            spin: self.directory.limits().spin,
        }
    }

    /// The name of a new process among the peers: its place, and a number that no earlier process had there.
    pub(super) fn next_peer(&mut self) -> Peer {
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
            NoHello::Io(error) => return SpawnError::Control(error),
            NoHello::Ended => format!("it ended before it said hello: {exit}"),
            NoHello::Said(reason) => reason,
        };
        SpawnError::NoHello {
            worker: self.record.process_name(),
            reason,
            stderr_tail: stderr.tail(),
        }
    }

    /// Starts a process on a launch thread, because the start may take any time.
    async fn launch(&mut self) -> Result<Launched, SpawnError> {
        let (record, launcher) = (Arc::clone(&self.record), Arc::clone(&self.launcher));
        let limit = self.launcher.time_limit(self.directory.limits().hello);
        let worker = self.record.process_name();
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
                worker: record.process_name(),
                reason: "it was told to end".to_owned(),
            },
        }
    }

    /// Waits for a worker's hello and returns the worker's sentinels.
    async fn hear_hello(&mut self, words: &mut Words) -> Result<Vec<u32>, NoHello> {
        let limit = self.directory.limits().hello;
        let hello = tokio::time::timeout(limit, words.next());
        tokio::select! {
            hello = hello => check_hello(hello, limit),
            unwanted = self.unwanted() => Err(NoHello::Unwanted(Box::new(unwanted))),
        }
    }
}

/// Connects an output whose first bytes were read already with the printer.
pub(super) fn pump(
    name: &str,
    pid: u32,
    pipe: OutputReader,
    begun: &[u8],
    target: Target,
    printer: &LineQueue,
) -> Arc<Pump> {
    let prefix = format!("[{name} pid {pid}] ");
    let pump = Arc::new(Pump::new(pipe, begun, prefix, target, printer.clone()));
    tokio::spawn(boxed_task(Arc::clone(&pump).run()));
    pump
}

/// Kills and reaps a process that is of no use.
async fn end(process: &Process) -> Exit {
    process.kill();
    process.reap().await
}
