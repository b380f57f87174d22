//! Watches: a watch waits for a worker's death and announces it, first to the threads that wait, then to the worker's
//! node.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use selvedge_cluster::peer::Peer;
use tokio::time::{Instant, timeout_at};

use crate::control::hosted::Hosted;
use crate::control::messages::WorkerMessage;
use crate::control::node::NodeRef;
use crate::control::silence::Silence;
use crate::control::worker_process::WorkerProcess;
use crate::death::{Death, Exit, LATE, WORKER_ENDED};
use crate::directory::Directory;
use crate::platform::signal::is_forced;
use crate::process_end::ProcessEnd;
use crate::worker::exit::EXIT_STUCK;
use crate::worker::link::{Link, read_words};
use crate::worker::output::Pump;
use crate::worker::record::WorkerRecord;
use crate::worker::words::Words;

/// The time limit for reading the last frames of a dying worker, and for waiting for its last thread. As a rule, both
/// come at once.
const LAST_FRAMES_TIMEOUT: Duration = Duration::from_millis(20);

/// The time that a worker without a link may take to report the reason and to end.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// The watch over one incarnation of a worker, from its hello to its end.
pub(crate) struct Watch {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) node: NodeRef<WorkerMessage>,
    pub(crate) pid: u32,
    /// The name of the process among the peers.
    pub(crate) peer: Peer,
    pub(crate) process: WorkerProcess,
    pub(crate) link: Arc<Link>,
    /// The exit that is told of the process, if the runtime has killed it.
    pub(crate) killed: Arc<OnceLock<Exit>>,
    pub(crate) stdout: Option<Arc<Pump>>,
    pub(crate) stderr: Option<Arc<Pump>>,
    pub(crate) hosted: Hosted,
}

impl Watch {
    /// Reads the link until the worker is dead, then announces the death.
    pub(crate) async fn run(mut self, mut words: Words) {
        let Directory { leases, hub, .. } = &*self.directory;
        let (silence, limit) = (Silence::new(), self.directory.limits().silence);
        let (mut is_silent, mut has_left) = (false, false);
        let mut frames = pin!(read_words(
            &mut words,
            &self.link,
            || silence.hear(),
            |lane, panic| leases.ended_in(self.record.id(), lane, panic.as_deref()),
            |about, failed| match failed {
                None => hub.asked(self.peer, about),
                Some(why) => hub.not_linked(self.peer, about, why),
            },
            |actor, state| self.directory.note_checkpoint(self.record.id(), actor, state),
        ));
        let soon = || Instant::now() + LAST_FRAMES_TIMEOUT;
        let until = tokio::select! {
            biased;
            // A worker without a link is of no use. It is dead already, or it reports the reason and ends.
            () = &mut frames => {
                has_left = self.record.is_told_to_end();
                let _ = tokio::time::timeout(LAST_WORDS_TIMEOUT, self.process.exited_after_its_link()).await;
                soon()
            }
            () = self.process.exited() => {
                // The last messages of the worker are still in the socket. The limit is for a child of the worker that
                // holds the other end open.
                let until = soon();
                let _ = timeout_at(until, frames).await;
                until
            }
            () = silence.lasts(limit, &self.record, &self.link, || hub.has_progressed(self.peer)) => {
                is_silent = true;
                soon()
            }
        };
        let ended_before = self.process.ends_by(self.pid).is_some();
        // The process is dead, or of no use without its link.
        self.process.kill();
        let exit = match self.process.ends_by(self.pid) {
            // As a rule, the process is gone by now. The release of much memory takes longer, and only a restart waits
            // for that.
            Some(exit) => timeout_at(until, self.process.reap()).await.unwrap_or(exit),
            None => self.process.reap().await,
        };
        let exit = self.explained(exit, is_silent.then_some(limit), has_left, ended_before);
        let outputs = [&self.stdout, &self.stderr].into_iter().flatten();
        outputs.for_each(|output| output.drain());
        let death = self.death(exit);
        self.record.note_end(self.pid, &death.exit);
        self.directory.process_died(self.record.id(), &death);
        let end = ProcessEnd::of_death(&death);
        self.directory.bury(self.peer, end).await;
        self.hosted.left();
        if self.directory.is_closed() {
            self.link.drop_requests();
        } else {
            self.link.lose(&death);
        }
        // Once the process is gone, its resources are free for the next process.
        let _ = self.process.reap().await;
        self.hosted.end().await;
        // A node that has stopped has nothing to restart.
        self.node.send(WorkerMessage::Died(death.exit));
    }

    /// How the process ended: the reason that it was killed for, if it was. `silent_for`: it gave no sign of life for this time.
    /// `has_left`: it was told to end, and its link has ended. `ended_before`: it was seen to end before the watch killed it.
    fn explained(
        &self,
        exit: Exit,
        silent_for: Option<Duration>,
        has_left: bool,
        ended_before: bool,
    ) -> Exit {
        match (self.killed.get(), silent_for) {
            (killed, _) if self.process.is_guest() => end_of_guest(killed, silent_for, has_left),
            (_, Some(limit)) => Exit::Silent(limit),
            // The worker has ended as it was told; only the program that led to it, such as `ssh`, was still there.
            _ if has_left && self.hosted.is_announced() && is_forced(&exit) => Exit::Unknown,
            _ if self.record.is_told_to_end() => match exit {
                Exit::Code(0) => Exit::Ended(WORKER_ENDED.to_owned()),
                Exit::Code(EXIT_STUCK) => Exit::Killed(LATE.to_owned()),
                exit if is_forced(&exit) => match self.killed.get() {
                    Some(killed) => killed.clone(),
                    None if ended_before => exit,
                    None => Exit::Killed(LATE.to_owned()),
                },
                exit => exit,
            },
            (Some(killed), _) if is_forced(&exit) => killed.clone(),
            _ => exit,
        }
    }

    /// The death of the process, and of the actors in it.
    fn death(&self, exit: Exit) -> Death {
        let records = self.directory.records_in(self.record.id());
        Death {
            actor: records
                .first()
                .map_or_else(|| self.record.name().to_owned(), |it| it.name().to_owned()),
            actors: records.iter().map(|record| record.id()).collect(),
            worker: Some(self.record.process_name()),
            pid: Some(self.pid),
            exit,
            stderr_tail: self
                .stderr
                .as_ref()
                .map(|stderr| stderr.tail())
                .unwrap_or_default(),
        }
    }
}

/// How a guest has ended, of which only the link is seen. `has_left`: it was told to end, and its link has ended.
fn end_of_guest(killed: Option<&Exit>, silent_for: Option<Duration>, has_left: bool) -> Exit {
    match (silent_for, killed) {
        (Some(limit), _) => Exit::Fenced(format!(
            "it gave no sign of life for {limit:?} (was it stopped, or frozen? help: Runtime::silence_timeout sets this time)"
        )),
        (None, Some(Exit::Severed(why))) => Exit::Fenced(why.clone()),
        (None, Some(killed)) => killed.clone(),
        (None, None) if has_left => Exit::Unknown,
        (None, None) => Exit::Fenced("it has closed its end of the link, or has died".to_owned()),
    }
}
