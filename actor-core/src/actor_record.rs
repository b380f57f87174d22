//! Actor records: the driver's data about one user actor, that is its blueprint, its home and its liveness.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::cell::Blueprint;
use crate::control::messages::NodeMessage;
use crate::control::node::NodeRef;
use crate::death::Death;
use crate::home::Home;
use crate::home::placement::Restart;
use crate::id::{ActorId, LaneId, ProcessId};

/// The liveness of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    /// The actor's worker has died, and a new one is being started.
    Restarting,
    Dead(Death),
}

struct Life {
    liveness: Liveness,
    last_death: Option<Death>,
    restarts: u32,
    /// Set when the user has ended the actor, which prevents a restart.
    retired: bool,
}

pub(crate) struct ActorRecord {
    pub(crate) blueprint: Blueprint,
    pub(crate) home: Box<dyn Home>,
    pub(crate) restart: Restart,
    /// The actor's node on the control thread; inline actors have none.
    pub(crate) node: OnceLock<NodeRef<NodeMessage>>,
    life: Mutex<Life>,
}

impl ActorRecord {
    pub(crate) fn new(blueprint: Blueprint, home: Box<dyn Home>, restart: Restart) -> Self {
        let life = Life {
            liveness: Liveness::Alive,
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
        self.home.address().lane
    }

    pub(crate) fn process(&self) -> ProcessId {
        self.home.address().process
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.life.lock().liveness.clone()
    }

    pub(crate) fn last_death(&self) -> Option<Death> {
        self.life.lock().last_death.clone()
    }

    /// Removes the actor from its home, if it is there, after everything that the home was asked before.
    pub(crate) fn leave(&self) {
        self.home.remove(self.id());
    }

    /// Makes the actor's next death its last.
    pub(crate) fn retire(&self) {
        self.life.lock().retired = true;
    }

    /// Records a death of the actor. The restart policy decides whether the actor restarts.
    pub(crate) fn note_death(&self, death: &Death, may_restart: bool) {
        let mut life = self.life.lock();
        if matches!(life.liveness, Liveness::Dead(_)) {
            return;
        }
        life.last_death = Some(death.clone());
        let allowed = match self.restart {
            Restart::Never => 0,
            Restart::OnFailure { max } => max,
        };
        if may_restart && !life.retired && life.restarts < allowed {
            life.restarts += 1;
            life.liveness = Liveness::Restarting;
        } else {
            life.liveness = Liveness::Dead(death.clone());
            if let Some(checkpoints) = &self.blueprint.checkpoints {
                checkpoints.set_last(None);
            }
        }
    }

    /// Records that the actor was rebuilt.
    pub(crate) fn note_revival(&self) {
        let mut life = self.life.lock();
        if life.liveness == Liveness::Restarting {
            life.liveness = Liveness::Alive;
        }
    }
}
