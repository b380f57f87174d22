//! The announcement of deaths: an actor's record changes first, then the watchers of its lease are called, then its
//! node is told.

use std::sync::Arc;

use crate::actor_record::{ActorRecord, Liveness};
use crate::control::messages::NodeMessage;
use crate::death::{Death, Exit};
use crate::directory::Directory;
use crate::id::{ActorId, ProcessId};

impl Directory {
    /// Handles the death of a worker process, as far as it must happen at once on the calling thread: updates the
    /// actors' state, calls the watchers, and ends the programs. The worker's node does the rest (restart, messages to
    /// the actors' nodes). While the runtime shuts down, workers end because they were told to, so no death is
    /// recorded.
    pub(crate) fn process_died(&self, process: ProcessId, death: &Death) {
        let records = self.records_in(process);
        if !self.is_closed() {
            for record in &records {
                record.note_death(death, true);
            }
            self.leases.died(death);
        }
        // By process, not by actor, because the actors of a worker that was ended are no longer listed.
        self.leases.ended_with(process);
    }

    /// Ends actors for good: updates their state, calls the watchers, and tells their nodes. `why` is the reason in
    /// words.
    pub(crate) fn end_actors(&self, records: &[Arc<ActorRecord>], why: &str) {
        self.end_actors_by(records, Exit::Ended(why.to_owned()));
    }

    /// Ends actors as [`end_actors`](Self::end_actors) does, in the way that `exit` says.
    pub(crate) fn end_actors_by(&self, records: &[Arc<ActorRecord>], exit: Exit) {
        self.note_deaths(records, exit, false);
        self.tell_nodes(records);
        self.forget_dead(records);
    }

    /// Records a death of actors that no death of a process explains, and calls the watchers.
    pub(crate) fn note_deaths(&self, records: &[Arc<ActorRecord>], exit: Exit, may_restart: bool) {
        let alive: Vec<_> = records
            .iter()
            .filter(|record| !matches!(record.liveness(), Liveness::Dead(_)))
            .collect();
        let Some(first) = alive.first() else { return };
        let death = Death {
            actor: first.name().to_owned(),
            actors: alive.iter().map(|record| record.id()).collect(),
            worker: None,
            pid: None,
            exit,
            stderr_tail: Vec::new(),
        };
        for record in &alive {
            record.note_death(&death, may_restart);
        }
        // The watchers of actors that still restart were called when the process died.
        if alive
            .iter()
            .any(|record| matches!(record.liveness(), Liveness::Dead(_)))
        {
            self.leases.died(&death);
        }
    }

    /// Keeps a checkpoint that a worker process has sent: that of an actor which lives there.
    pub(crate) fn note_checkpoint(&self, process: ProcessId, actor: ActorId, checkpoint: Vec<u8>) {
        let record = self.record(actor).filter(|record| record.process() == process);
        let checkpoints = record
            .as_ref()
            .and_then(|record| record.blueprint.checkpoints.as_ref());
        if let Some(checkpoints) = checkpoints {
            checkpoints.set_last(Some(checkpoint.into()));
        }
    }

    /// Makes the nodes of the actors check the actors' state again.
    pub(crate) fn tell_nodes(&self, records: &[Arc<ActorRecord>]) {
        for record in records {
            if let Some(node) = record.node.get() {
                // A node that has stopped has nothing to check.
                node.send(NodeMessage::Changed);
            }
        }
        self.leases.wake();
    }

    /// Removes the entries of dead actors; a lane ends with its last entry. References to an actor keep the actor's
    /// record alive.
    pub(crate) fn forget_dead(&self, records: &[Arc<ActorRecord>]) {
        for record in records {
            if matches!(record.liveness(), Liveness::Dead(_)) {
                record.leave();
                self.remove_record(record.id());
            }
        }
    }

    /// Tells every holder of a lease that the runtime shuts down, so that its programs can end.
    pub(crate) fn announce_shutdown(&self) {
        let records = self.records();
        for actors in self.leases.held() {
            let named = records.iter().find(|record| actors.contains(&record.id()));
            self.leases.died(&Death {
                actor: named.map_or_else(String::new, |record| record.name().to_owned()),
                actors: actors.into(),
                worker: None,
                pid: None,
                exit: Exit::Shutdown,
                stderr_tail: Vec::new(),
            });
        }
    }
}
