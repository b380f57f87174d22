//! Worker nodes, one for each worker process: a node has the process started, restarts it, and ends it.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

#[cfg(feature = "hosts")]
use selvedge_cluster::manager::ManageEvent;

use crate::actor::checkpoint::CheckpointError;
use crate::actor_record::{ActorRecord, Liveness};
use crate::boxed::boxed_task;
use crate::control::messages::WorkerMessage;
use crate::control::node::{Node, NodeRef};
use crate::control::supervisor_message::SupervisorMessage;
use crate::control::worker_start::WorkerArgs;
use crate::death::{Exit, LATE, WORKER_ENDED};
use crate::directory::Directory;
use crate::home::keep::LaneKeep;
use crate::spawn_error::SpawnError;
use crate::worker::protocol::ToWorker;

/// The pause after a restart that failed. It doubles after each further failure, up to a second.
const RESTART_PAUSE: Duration = Duration::from_millis(10);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct WorkerNode {
    args: WorkerArgs,
    closing: Option<Instant>,
    /// Whether the process had died by itself before it was told to end.
    was_dead: bool,
}

impl Node for WorkerNode {
    type Message = WorkerMessage;

    async fn handle(&mut self, myself: &NodeRef<WorkerMessage>, message: WorkerMessage) -> ControlFlow<()> {
        match message {
            WorkerMessage::Start(reply) => {
                let started = self.args.start(myself).await;
                let failed = started.is_err();
                reply.keep(started);
                if failed {
                    return self.over(false);
                }
                ControlFlow::Continue(())
            }
            WorkerMessage::Died(exit) => self.died(myself, &exit).await,
            WorkerMessage::Interrupt => {
                self.interrupt();
                ControlFlow::Continue(())
            }
            WorkerMessage::Shutdown { deadline } => self.shut_down(deadline),
        }
    }
}

impl WorkerNode {
    pub(crate) fn new(args: WorkerArgs) -> Self {
        Self {
            args,
            closing: None,
            was_dead: false,
        }
    }

    async fn died(&mut self, myself: &NodeRef<WorkerMessage>, exit: &Exit) -> ControlFlow<()> {
        let directory = Arc::clone(&self.args.directory);
        let records = directory.records_in(self.args.record.id());
        if self.closing.is_some() {
            let is_late = matches!(exit, Exit::Killed(_) | Exit::Fenced(_));
            let killed = is_late && !self.was_dead;
            let name = killed.then(|| self.args.record.name().to_owned());
            self.args.supervisor.send(SupervisorMessage::WorkerGone {
                worker: self.args.record.id(),
                killed: name,
            });
            directory.tell_nodes(&records);
            if !directory.is_closed() {
                directory.end_actors(&records, WORKER_ENDED);
                directory.forget_dead(&records);
            }
            return self.over(killed);
        }
        let runs = self.restart(myself, &records).await;
        directory.tell_nodes(&records);
        directory.forget_dead(&records);
        if !runs {
            return self.over(false);
        }
        ControlFlow::Continue(())
    }

    /// Restarts the process for the actors that restart. A start that fails is a death like any other: the actors'
    /// policies decide whether there is another attempt. Returns whether a process runs.
    async fn restart(&mut self, myself: &NodeRef<WorkerMessage>, records: &[Arc<ActorRecord>]) -> bool {
        let directory = Arc::clone(&self.args.directory);
        let mut pause = RESTART_PAUSE;
        loop {
            let restarting: Vec<Arc<ActorRecord>> = records
                .iter()
                .filter(|record| record.liveness() == Liveness::Restarting)
                .cloned()
                .collect();
            if restarting.is_empty() {
                return false;
            }
            let error = match self.args.start(myself).await {
                Ok(()) => {
                    restarting.iter().for_each(|record| revive(&directory, record));
                    self.limit_revival(&restarting);
                    return true;
                }
                Err(error) => error,
            };
            let why = format!("its worker did not start again: {error}");
            let ends = matches!(error, SpawnError::Shutdown | SpawnError::Worker { .. });
            directory.note_deaths(&restarting, Exit::Ended(why), !ends);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.args.unwanted() => {}
            }
            pause = RESTART_PAUSE_MAX.min(pause * 2);
        }
    }

    /// Ends the actors that are not built in the new process in time. Those of a lane are built one after the other, so
    /// the time is that of all of them.
    fn limit_revival(&self, restarting: &[Arc<ActorRecord>]) {
        let limit = self.args.directory.limits().build;
        let all = u32::try_from(restarting.len())
            .ok()
            .and_then(|actors| limit.checked_mul(actors));
        let end = all.and_then(|all| Instant::now().checked_add(all));
        let (Some(end), Some(link)) = (end, self.args.record.link()) else {
            return;
        };
        let (worker, link) = (Arc::downgrade(&self.args.record), Arc::downgrade(&link));
        let directory = Arc::downgrade(&self.args.directory);
        let restarting: Vec<Weak<ActorRecord>> = restarting.iter().map(Arc::downgrade).collect();
        tokio::spawn(boxed_task(async move {
            tokio::time::sleep_until(end.into()).await;
            let now = worker.upgrade().and_then(|worker| worker.link());
            let Some(directory) = directory.upgrade() else {
                return;
            };
            // A process that has died meanwhile has ended this revival.
            if now.is_none_or(|now| !std::ptr::eq(Arc::as_ptr(&now), link.as_ptr())) {
                return;
            }
            let late = restarting.iter().filter_map(Weak::upgrade);
            for record in late.filter(|record| record.liveness() == Liveness::Restarting) {
                let actor = record.name().to_owned();
                let exit = not_built_again(&SpawnError::Timeout { actor, limit });
                directory.end_actors_by(std::slice::from_ref(&record), exit);
            }
        }));
    }

    /// Records that no process of the worker will run any more, and ends the node.
    fn over(&self, killed: bool) -> ControlFlow<()> {
        self.args.record.set_over(killed);
        self.args.directory.leases.wake();
        ControlFlow::Break(())
    }

    /// Interrupts the functions of the process, and tells its manager. Nothing happens if no process runs.
    fn interrupt(&self) {
        if let Some(link) = self.args.record.link() {
            let _ = link.tell(&ToWorker::Interrupt);
            #[cfg(feature = "hosts")]
            self.args
                .launcher
                .tell(self.args.record.id().among_peers(), ManageEvent::Interrupt);
        }
    }

    fn shut_down(&mut self, deadline: Instant) -> ControlFlow<()> {
        let is_first = self.closing.is_none();
        let deadline = self.closing.map_or(deadline, |earlier| earlier.min(deadline));
        self.closing = Some(deadline);
        let record = Arc::clone(&self.args.record);
        let Some(link) = record.link() else {
            // The process is dead, and its watch reports that when the process is reaped. Before that, the control thread
            // must not end, or a zombie would be left.
            self.was_dead |= is_first;
            return ControlFlow::Continue(());
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let grace_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let ends_runtime = self.args.directory.is_closed();
        let _ = link.tell(&ToWorker::Shutdown {
            grace_ms,
            ends_runtime,
        });
        #[cfg(feature = "hosts")]
        let quit_pause = self.args.launcher.quit_pause();
        tokio::spawn(boxed_task(async move {
            tokio::time::sleep_until(deadline.into()).await;
            #[cfg(feature = "hosts")]
            if let Some(pause) = quit_pause {
                record.quit();
                tokio::time::sleep(pause).await;
            }
            record.kill_because(LATE);
        }));
        ControlFlow::Continue(())
    }
}

/// Rebuilds an actor in its new process, unless the actor was ended meanwhile.
fn revive(directory: &Arc<Directory>, record: &Arc<ActorRecord>) {
    let is_wanted = |record: &ActorRecord| record.liveness() == Liveness::Restarting;
    let Some(keep) = directory.keep_of(record.id()).filter(|_| is_wanted(record)) else {
        return;
    };
    let (directory, revived) = (Arc::clone(directory), Arc::clone(record));
    let done = move |result| match result {
        // The new process has died too. The handling of that death decides.
        Err(SpawnError::Worker { .. }) => {}
        _ if !is_wanted(&revived) => dismiss(&revived, &keep),
        Ok(()) => {
            revived.note_revival();
            directory.tell_nodes(std::slice::from_ref(&revived));
        }
        Err(error) => {
            let exit = match error {
                SpawnError::Constructor { failure, .. } => {
                    let report = failure.into_report();
                    match CheckpointError::is_in(&report) {
                        true => Exit::NotRestored(report.to_string()),
                        false => Exit::Ended(format!("its constructor failed: {report}")),
                    }
                }
                error => not_built_again(&error),
            };
            directory.end_actors_by(std::slice::from_ref(&revived), exit);
        }
    };
    record.home.build(&record.blueprint, Box::new(done));
}

fn not_built_again(why: &SpawnError) -> Exit {
    Exit::Ended(format!("it was not built again: {why}"))
}

/// Removes an actor that was built in a new process although it had been ended meanwhile. Ends its lane if neither a
/// handle nor an actor keeps the lane alive.
fn dismiss(record: &ActorRecord, keep: &Weak<LaneKeep>) {
    record.leave();
    if let Some(worker) = record.home.worker().filter(|_| keep.strong_count() == 0) {
        worker.end_lane(record.lane(), Box::new(|_| {}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Blueprint;
    use crate::control::worker_process::ProcessHandle;
    use crate::home::handles::Worker;
    use crate::home::placement::Restart;
    use crate::hub::post::Post;
    use crate::id::ProcessId;
    use crate::platform::child::ChildHandle;
    use crate::runtime::Runtime;
    use tokio::sync::mpsc;

    use crate::worker::link::{Link, Outgoing, Response};
    use crate::worker::protocol::read_head;
    use crate::worker::record::{RunningProcess, WorkerRecord};

    /// Returns the next message to the worker.
    fn sent(queue: &mut mpsc::UnboundedReceiver<Outgoing>) -> Option<ToWorker> {
        let message = queue.try_recv().ok()?;
        Some(read_head(message.head()).unwrap())
    }

    #[test]
    fn an_actor_that_is_ended_while_its_process_restarts_is_not_there_afterwards() {
        let runtime = Runtime::new();
        let directory = &runtime.inner().directory;
        let process = Arc::new(WorkerRecord::new(ProcessId::next(), "w", Vec::new()));
        let worker = Worker::new(&runtime, Arc::clone(&process));
        for built in [false, true] {
            let (link, mut queue) = Link::new();
            let link = Arc::new(link);
            let runs = RunningProcess {
                pid: 0,
                is_child: false,
                peer: directory.hub.me(),
                handle: ProcessHandle::Child(ChildHandle::of_nobody()),
                link: Arc::clone(&link),
                name: process.process_name(),
                hub: Arc::downgrade(&directory.hub),
                killed: Arc::default(),
            };
            let lane = worker.lane("l");
            let (home, keep) = lane.home().unwrap();
            let restart = Restart::OnFailure { max: 1 };
            let record = Arc::new(ActorRecord::new(Blueprint::of_nothing("a"), home, restart));
            directory.add_record(&record, Some(keep));
            let records = [Arc::clone(&record)];
            directory.note_deaths(&records, Exit::Ended("its process has died".to_owned()), true);
            assert_eq!(record.liveness(), Liveness::Restarting);
            if built {
                process.set_current(Some(runs.clone()));
                revive(directory, &record);
                assert!(matches!(sent(&mut queue), Some(ToWorker::Create { .. })));
                process.set_current(None);
            }
            // The end is not sent to any process.
            directory.end_actors(&records, "it was killed");
            drop(lane);
            assert!(sent(&mut queue).is_none());
            process.set_current(Some(runs));
            if built {
                link.answer(0, Response::Created(Ok(())));
                assert!(matches!(sent(&mut queue), Some(ToWorker::Remove { .. })));
                assert!(matches!(sent(&mut queue), Some(ToWorker::EndLane { .. })));
            } else {
                revive(directory, &record);
            }
            assert!(sent(&mut queue).is_none());
            process.set_current(None);
        }
    }
}
