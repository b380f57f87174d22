//! Worker records: the driver's data about one worker process, that is its place in the plan, its present pid and link.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use selvedge_cluster::peer::Peer;
use tokio::sync::watch;

use crate::control::messages::WorkerMessage;
use crate::control::node::NodeRef;
use crate::control::worker_process::ProcessHandle;
use crate::death::Exit;
#[cfg(feature = "hosts")]
use crate::hosts::host_key::Machine;
use crate::hub::Hub;
use crate::hub::broker::Courier;
use crate::hub::notice::Notice;
use crate::id::{HostId, LaneId, ProcessId};
use crate::platform::peer_socket::PeerEnd;
use crate::platform::signal::is_forced;
use crate::process_end::ProcessEnd;
use crate::process_name::{NameBook, ProcessName};
use crate::worker::exit::EXIT_STUCK;
use crate::worker::link::{Link, OnResponse};
use crate::worker::protocol::ToWorker;

/// The process behind a record, from its hello to its death.
#[derive(Clone)]
pub(crate) struct RunningProcess {
    pub(crate) pid: u32,
    /// Whether the process is the child itself, and no program such as `ssh` leads to it.
    pub(crate) is_child: bool,
    pub(crate) peer: Peer,
    pub(crate) handle: ProcessHandle,
    pub(crate) link: Arc<Link>,
    pub(crate) name: ProcessName,
    pub(crate) hub: Weak<Hub>,
    /// The exit that is told of the process, once the runtime has killed it.
    pub(crate) killed: Arc<OnceLock<Exit>>,
}

impl RunningProcess {
    /// Ends the process, by SIGKILL or by the end of its link. This exit is told of it.
    fn kill_as(&self, exit: Exit) {
        // A process that ends already has lost its link by that. Else the first reason is the one.
        if self.handle.ends_by(self.pid).is_none() {
            let _ = self.killed.set(exit);
        }
        self.handle.kill();
    }
}

impl Courier for RunningProcess {
    fn tell(&self, notice: Notice, end: Option<PeerEnd>) {
        // A worker that is gone is told nothing.
        let _ = self.link.tell_with(&ToWorker::Notice(notice), end);
    }

    fn kill(&self, why: &str) {
        self.kill_as(Exit::Severed(why.to_owned()));
    }

    fn seen_end(&self) -> Option<ProcessEnd> {
        let exit = self.handle.ends_by(self.pid).filter(|_| self.is_child)?;
        let exit = match (&exit, self.killed.get()) {
            // A worker that does not end in time says so by its code, of which its watch tells.
            (Exit::Code(EXIT_STUCK), _) => return None,
            (_, Some(killed)) if is_forced(&exit) => killed.clone(),
            _ => exit,
        };
        Some(ProcessEnd {
            pid: Some(self.pid),
            ..ProcessEnd::of(exit)
        })
    }

    fn name(&self) -> Option<ProcessName> {
        Some(self.name.clone())
    }
}

pub(crate) struct WorkerRecord {
    id: ProcessId,
    name: Arc<str>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) node: OnceLock<NodeRef<WorkerMessage>>,
    current: Mutex<Option<RunningProcess>>,
    /// The end of the last process, in words.
    ended: Mutex<Option<String>>,
    /// The machine of the processes; unset for children, which are on this host.
    #[cfg(feature = "hosts")]
    machine: OnceLock<(Machine, HostId)>,
    /// The machine as the manager calls it.
    #[cfg(feature = "hosts")]
    pub(crate) place: Option<Arc<str>>,
    #[cfg(feature = "hosts")]
    pub(crate) is_guest: bool,
    /// Becomes true when the worker is told to end.
    told: watch::Sender<bool>,
    /// Set when no process of the worker will run any more: `true` if the last process had to be killed.
    over: OnceLock<bool>,
}

impl Drop for WorkerRecord {
    fn drop(&mut self) {
        NameBook::of_all_runtimes().forget(self.id.among_peers());
    }
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
            #[cfg(feature = "hosts")]
            machine: OnceLock::new(),
            #[cfg(feature = "hosts")]
            place: None,
            #[cfg(feature = "hosts")]
            is_guest: false,
            told: watch::Sender::new(false),
            over: OnceLock::new(),
        }
    }

    /// Whether the worker is a guest: it has dialled in, so nobody can kill it or start it again.
    pub(crate) fn is_guest(&self) -> bool {
        #[cfg(feature = "hosts")]
        return self.is_guest;
        #[cfg(not(feature = "hosts"))]
        false
    }

    /// The name of the host, unless it is this one: as the manager calls it, or else as the worker does.
    fn host_name(&self) -> Option<Arc<str>> {
        #[cfg(feature = "hosts")]
        {
            let machine = self.machine();
            if machine.is_some() && self.host() == HostId::DRIVER {
                return None;
            }
            let place = self.place.clone();
            place.or_else(|| Some(machine?.shown_name().into()))
        }
        #[cfg(not(feature = "hosts"))]
        None
    }

    /// The worker, as errors name it.
    pub(crate) fn process_name(&self) -> ProcessName {
        ProcessName::of_worker(self.id.among_peers(), Arc::clone(&self.name), self.host_name())
    }

    /// Notes the machine of the process that has joined.
    #[cfg(feature = "hosts")]
    pub(crate) fn note_machine(&self, machine: Machine) {
        let host = machine.host.number();
        // A worker that is started again is on the same machine, by the same command.
        let _ = self.machine.set((machine, host));
    }

    /// The machine of a worker that was started by a command and has joined.
    #[cfg(feature = "hosts")]
    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.machine.get().map(|(machine, _)| machine)
    }

    /// The number of the worker's host.
    pub(crate) fn host(&self) -> HostId {
        #[cfg(feature = "hosts")]
        if let Some((_, host)) = self.machine.get() {
            return *host;
        }
        HostId::DRIVER
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.current.lock().as_ref().map(|running| running.pid)
    }

    /// The name of the process among the peers.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.current.lock().as_ref().map(|running| running.peer)
    }

    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.current
            .lock()
            .as_ref()
            .map(|running| Arc::clone(&running.link))
    }

    pub(crate) fn set_current(&self, running: Option<RunningProcess>) {
        *self.current.lock() = running;
    }

    /// Records that the process of the present incarnation has ended.
    pub(crate) fn note_end(&self, pid: u32, exit: &Exit) {
        *self.ended.lock() = Some(format!("its process {pid} has ended: {exit}"));
        self.set_current(None);
    }

    /// The reason that no process runs, in words.
    pub(crate) fn why_gone(&self) -> String {
        let ended = self.ended.lock().clone();
        ended.unwrap_or_else(|| "no process of it has run".to_owned())
    }

    /// Whether the worker had to be killed; `None` as long as it has not ended for good.
    pub(crate) fn over(&self) -> Option<bool> {
        self.over.get().copied()
    }

    pub(crate) fn set_over(&self, killed: bool) {
        // The first value is the right one.
        let _ = self.over.set(killed);
    }

    /// Asks the worker to end a lane, after everything that it was asked before. If the worker is gone, and its lanes with
    /// it, `on_response` is dropped.
    pub(crate) fn end_lane(&self, lane: LaneId, on_response: OnResponse) {
        if let Some(link) = self.link() {
            link.request(
                |request| ToWorker::EndLane { request, lane },
                Vec::new(),
                on_response,
            );
        }
    }

    /// Interrupts the functions that run in the worker.
    pub(crate) fn interrupt(&self) {
        if let Some(node) = self.node.get() {
            // A node that has stopped has no process.
            node.send(WorkerMessage::Interrupt);
        }
    }

    /// Ends the worker while the runtime goes on: as [`end`](Self::end), but first has the calls that name no process go to others.
    pub(crate) fn leave(&self, deadline: Instant) {
        // First, so that a process that joins meanwhile is seen to leave by whoever has it join.
        self.told.send_replace(true);
        let current = self.current.lock().clone();
        if let Some(running) = current
            && let Some(hub) = running.hub.upgrade()
        {
            hub.leaves(running.peer);
        }
        self.end(deadline);
    }

    /// Asks the worker to end, by force after the deadline. Returns whether its node runs: one that has stopped has no process.
    pub(crate) fn end(&self, deadline: Instant) -> bool {
        // Set first, because a node that is starting a process reads no messages until it has finished.
        self.told.send_replace(true);
        let tell = |node: &NodeRef<WorkerMessage>| node.send(WorkerMessage::Shutdown { deadline });
        self.node.get().is_some_and(tell)
    }

    pub(crate) fn is_told_to_end(&self) -> bool {
        *self.told.borrow()
    }

    /// Waits until the worker is told to end.
    pub(crate) async fn told_to_end(&self) {
        // The sender lives as long as this record, so there is no error.
        let _ = self.told.subscribe().wait_for(|told| *told).await;
    }

    /// Sends SIGQUIT to the process, if there is one.
    #[cfg(feature = "hosts")]
    pub(crate) fn quit(&self) {
        let current = self.current.lock().clone();
        if let Some(running) = current {
            running.handle.quit();
        }
    }

    /// Ends the process, if there is one, as [`kill`](Self::kill) does; its exit tells that the runtime has done it, and why.
    pub(crate) fn kill_because(&self, why: &str) {
        let current = self.current.lock().clone();
        if let Some(running) = current {
            running.kill_as(Exit::Killed(why.to_owned()));
        }
    }

    /// Ends the process, if there is one, by SIGKILL or by the end of its link. The death is detected like any other.
    pub(crate) fn kill(&self) {
        let current = self.current.lock().clone();
        if let Some(running) = current {
            running.handle.kill();
        }
    }
}
