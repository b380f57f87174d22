//! Actor records: the driver's data about one user actor, that is its blueprint, its home and its liveness.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::cell::guarded::Guarded;
use crate::cell::{ActorCell, Blueprint};
use crate::control::messages::NodeMessage;
use crate::death::Death;
use crate::home::placement::Restart;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::lane::mailbox::LaneMessage;
use crate::lane::thread::LaneThread;
use crate::worker::protocol::ToWorker;
use crate::worker::record::WorkerRecord;

/// The home of an actor's state.
pub(crate) enum Home {
    /// In this process, on the thread of each caller.
    Inline(Arc<Guarded<ActorCell>>),
    /// On a lane of this process.
    Lane(Arc<LaneThread>),
    /// On a lane of a worker process.
    Worker {
        worker: Arc<WorkerRecord>,
        lane: LaneId,
        lane_name: Arc<str>,
    },
}

/// The liveness of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    /// The actor's worker has died, and a new one is being started.
    Restarting,
    Dead(Death),
}

struct Life {
    vital: Liveness,
    last_death: Option<Death>,
    restarts: u32,
    /// Set when the user has ended the actor, which prevents a restart.
    retired: bool,
}

pub(crate) struct ActorRecord {
    pub(crate) blueprint: Blueprint,
    pub(crate) home: Home,
    pub(crate) restart: Restart,
    /// The actor's node on the control thread; inline actors have none.
    pub(crate) node: OnceLock<ractor::ActorRef<NodeMessage>>,
    life: Mutex<Life>,
}

impl ActorRecord {
    pub(crate) fn new(blueprint: Blueprint, home: Home, restart: Restart) -> Self {
        let life = Life {
            vital: Liveness::Alive,
            last_death: None,
            restarts: 0,
            retired: false,
        };
        Self {
            blueprint,
            home,
            restart,
            node: OnceLock::new(),
            life: Mutex::new(life),
        }
    }

    pub(crate) fn id(&self) -> ActorId {
        self.blueprint.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.blueprint.name
    }

    pub(crate) fn lane(&self) -> LaneId {
        match &self.home {
            Home::Inline(_) => LaneId::DRIVER,
            Home::Lane(lane) => lane.id(),
            Home::Worker { lane, .. } => *lane,
        }
    }

    pub(crate) fn process(&self) -> ProcessId {
        match &self.home {
            Home::Inline(_) | Home::Lane(_) => ProcessId::DRIVER,
            Home::Worker { worker, .. } => worker.id(),
        }
    }

    pub(crate) fn vital(&self) -> Liveness {
        self.life.lock().vital.clone()
    }

    pub(crate) fn last_death(&self) -> Option<Death> {
        self.life.lock().last_death.clone()
    }

    /// Removes the actor from its lane, if it is there, after everything that the lane was asked before.
    pub(crate) fn leave(&self) {
        let actor = self.id();
        match &self.home {
            Home::Inline(_) => {}
            // A lane or a worker that has ended has no actors.
            Home::Lane(lane) => drop(lane.push(LaneMessage::Remove(actor))),
            Home::Worker { worker, lane, .. } => {
                let lane = *lane;
                let told = worker
                    .link()
                    .map(|link| link.tell(&ToWorker::Remove { lane, actor }));
                drop(told);
            }
        }
    }

    /// Makes the actor's next death its last.
    pub(crate) fn retire(&self) {
        self.life.lock().retired = true;
    }

    /// Records a death of the actor. The restart policy decides whether the actor restarts.
    pub(crate) fn note_death(&self, death: &Death, may_restart: bool) {
        let mut life = self.life.lock();
        if matches!(life.vital, Liveness::Dead(_)) {
            return;
        }
        life.last_death = Some(death.clone());
        let allowed = match self.restart {
            Restart::Never => 0,
            Restart::OnFailure { max } => max,
        };
        if may_restart && !life.retired && life.restarts < allowed {
            life.restarts += 1;
            life.vital = Liveness::Restarting;
        } else {
            life.vital = Liveness::Dead(death.clone());
        }
    }

    /// Records that the actor was rebuilt.
    pub(crate) fn note_revival(&self) {
        let mut life = self.life.lock();
        if life.vital == Liveness::Restarting {
            life.vital = Liveness::Alive;
        }
    }
}
