//! The life of a worker, as its manager sees it.

use std::fmt;

use thiserror::Error;

/// An event that a manager is told of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManageEvent {
    /// The worker has joined.
    Register,
    /// The work that the worker does now is to be interrupted.
    Interrupt,
    /// The worker is no member any more, or will not become one.
    Deregister,
    /// The process has ended: release what the manager holds for it. Nothing comes after this event.
    Finalize,
}

/// An effect that the owner of a [`WorkerSetUp`] has to perform, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetUpAction<E> {
    /// Tell the manager.
    Manage(ManageEvent),
    /// Begin to kill the process.
    Kill,
    /// Give the error to whoever wanted the worker.
    Fail(E),
}

/// The stage of a worker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The process was launched, and has not announced its address.
    Launched,
    /// The address is known, and the link is being made.
    Connecting,
    /// The worker is a member.
    Registered,
    /// The worker is no member, and its process is being killed.
    Deregistered,
    /// The process has ended.
    Finalized,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Launched => "was launched and has not announced its address",
            Stage::Connecting => "is being connected",
            Stage::Registered => "is a member",
            Stage::Deregistered => "is being killed",
            Stage::Finalized => "has ended",
        })
    }
}

/// A step that does not belong to the stage of the worker. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a worker cannot {step} when it {stage}")]
pub struct OutOfTurn {
    /// The step.
    pub step: &'static str,
    /// The stage of the worker.
    pub stage: Stage,
}

/// The order in which one worker is launched, connected, registered and ended (JMGR-02, JMGR-17, JMGR-18).
///
/// ```
/// use selvedge_cluster::manager::{ManageEvent, SetUpAction, WorkerSetUp};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut worker = WorkerSetUp::launched();
/// worker.announced()?;
/// let actions = worker.failed("no route to the host")?;
/// let deregister = SetUpAction::Manage(ManageEvent::Deregister);
/// assert_eq!(actions, [deregister, SetUpAction::Kill, SetUpAction::Fail("no route to the host")]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerSetUp {
    stage: Stage,
}

impl WorkerSetUp {
    /// A worker whose process was launched.
    pub fn launched() -> Self {
        WorkerSetUp {
            stage: Stage::Launched,
        }
    }

    /// The stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The address of the worker is known: connect.
    ///
    /// # Errors
    /// [`OutOfTurn`] unless the worker was just launched.
    pub fn announced(&mut self) -> Result<(), OutOfTurn> {
        self.expect("announce itself", &[Stage::Launched])?;
        self.stage = Stage::Connecting;
        Ok(())
    }

    /// The link is made, and the handshake is over.
    ///
    /// # Errors
    /// [`OutOfTurn`] unless the worker is being connected.
    pub fn connected<E>(&mut self) -> Result<Vec<SetUpAction<E>>, OutOfTurn> {
        self.expect("join", &[Stage::Connecting])?;
        self.stage = Stage::Registered;
        Ok(vec![SetUpAction::Manage(ManageEvent::Register)])
    }

    /// The worker will not become a member, because there is no announcement or no link.
    ///
    /// # Errors
    /// [`OutOfTurn`] unless the worker was launched or is being connected.
    pub fn failed<E>(&mut self, error: E) -> Result<Vec<SetUpAction<E>>, OutOfTurn> {
        self.expect("fail to join", &[Stage::Launched, Stage::Connecting])?;
        self.stage = Stage::Deregistered;
        let deregister = SetUpAction::Manage(ManageEvent::Deregister);
        Ok(vec![deregister, SetUpAction::Kill, SetUpAction::Fail(error)])
    }

    /// The work of the worker is to be interrupted.
    ///
    /// # Errors
    /// [`OutOfTurn`] unless the worker is a member.
    pub fn interrupt<E>(&mut self) -> Result<Vec<SetUpAction<E>>, OutOfTurn> {
        self.expect("be interrupted", &[Stage::Registered])?;
        Ok(vec![SetUpAction::Manage(ManageEvent::Interrupt)])
    }

    /// The worker is to leave, or was declared dead.
    ///
    /// # Errors
    /// [`OutOfTurn`] unless the worker is a member.
    pub fn remove<E>(&mut self) -> Result<Vec<SetUpAction<E>>, OutOfTurn> {
        self.expect("be removed", &[Stage::Registered])?;
        self.stage = Stage::Deregistered;
        let deregister = SetUpAction::Manage(ManageEvent::Deregister);
        Ok(vec![deregister, SetUpAction::Kill])
    }

    /// The process has ended, at any stage. `error` says so to whoever still waits for the worker to join.
    ///
    /// # Errors
    /// [`OutOfTurn`] if this was said before.
    pub fn exited<E>(&mut self, error: impl FnOnce() -> E) -> Result<Vec<SetUpAction<E>>, OutOfTurn> {
        let deregister = SetUpAction::Manage(ManageEvent::Deregister);
        let finalize = SetUpAction::Manage(ManageEvent::Finalize);
        let actions = match self.stage {
            Stage::Launched | Stage::Connecting => vec![deregister, finalize, SetUpAction::Fail(error())],
            Stage::Registered => vec![deregister, finalize],
            Stage::Deregistered => vec![finalize],
            Stage::Finalized => return Err(self.out_of_turn("end")),
        };
        self.stage = Stage::Finalized;
        Ok(actions)
    }

    fn expect(&self, step: &'static str, stages: &[Stage]) -> Result<(), OutOfTurn> {
        match stages.contains(&self.stage) {
            true => Ok(()),
            false => Err(self.out_of_turn(step)),
        }
    }

    fn out_of_turn(&self, step: &'static str) -> OutOfTurn {
        let stage = self.stage;
        OutOfTurn { step, stage }
    }
}
