//! Saving: when the state of an actor is saved, where to, and how an actor is built again from it.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::actor::ActorEntry;
use crate::actor::checkpoint::{CheckpointEntry, CheckpointError};
use crate::cell::state::ActorState;
use crate::failure::Failure;

/// Takes an encoded state to where it survives this process; the error says in words why it cannot.
pub(crate) type Survivor = Box<dyn Fn(&Bytes) -> Result<(), String> + Send + Sync>;

/// When an actor is saved, and what for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointRules {
    /// The number of methods with `&mut self` from one checkpoint to the next.
    pub(crate) every: NonZeroU32,
    /// True if the next process of the actor continues from them.
    pub(crate) outlive_process: bool,
    /// True if the state after a panic continues from them: the actor's process then keeps the last one.
    pub(crate) outlive_panic: bool,
}

/// The checkpoints of one actor, as its blueprint has them.
pub(crate) struct Checkpoints {
    pub(crate) rules: CheckpointRules,
    /// The way out of the actor's process; `None` in the driver.
    survivor: Option<Survivor>,
    last: Mutex<Option<Bytes>>,
}

impl Checkpoints {
    pub(crate) fn new(rules: CheckpointRules) -> Self {
        Checkpoints {
            rules,
            survivor: None,
            last: Mutex::default(),
        }
    }

    /// Has the checkpoints sent to where they survive this process.
    pub(crate) fn send_to(self, survivor: Survivor) -> Self {
        Checkpoints {
            survivor: Some(survivor),
            ..self
        }
    }

    /// The last checkpoint.
    pub(crate) fn last(&self) -> Option<Bytes> {
        self.last.lock().clone()
    }

    /// Sets the last checkpoint; `None` forgets it.
    pub(crate) fn set_last(&self, checkpoint: Option<Bytes>) {
        *self.last.lock() = checkpoint;
    }

    /// Restores the last checkpoint in a state that was just built, and has its methods saved from now on.
    pub(crate) fn begin(
        self: &Arc<Self>,
        actor: &Arc<str>,
        entry: &ActorEntry,
        state: &mut ActorState,
    ) -> Result<(), Failure> {
        let Some(functions) = (entry.checkpoint)() else {
            let text = format!("`{}` has no checkpoints in this process", entry.full_name());
            return Err(Failure::Internal(text));
        };
        if let Some(last) = self.last() {
            let restored = Failure::catch(|| (functions.restore)(state, &last));
            restored.map_err(|failure| {
                let (actor, reason) = (actor.to_string(), reason(failure));
                CheckpointError::NotRestored { actor, reason }.into_failure()
            })?;
        }
        if !self.rules.outlive_panic {
            self.set_last(None);
        }
        if self.rules.outlive_panic || self.survivor.is_some() {
            let mut counted = Counted {
                actor: Arc::clone(actor),
                functions,
                checkpoints: Arc::clone(self),
                left: self.rules.every.get(),
            };
            state.save_with(Box::new(move |state| counted.changed(state)));
        }
        Ok(())
    }
}

/// A state that is saved: the count of the methods that have changed it.
struct Counted {
    actor: Arc<str>,
    functions: &'static CheckpointEntry,
    checkpoints: Arc<Checkpoints>,
    /// The number of methods before the next checkpoint.
    left: u32,
}

impl Counted {
    /// Counts a method that has run on `state`, and saves the state if it is time. After a failure the next method saves.
    fn changed(&mut self, state: &ActorState) -> Result<(), Failure> {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return Ok(());
        }
        self.save(state).map_err(|reason| {
            let actor = self.actor.to_string();
            CheckpointError::NotSaved { actor, reason }.into_failure()
        })?;
        self.left = self.checkpoints.rules.every.get();
        Ok(())
    }

    fn save(&self, state: &ActorState) -> Result<(), String> {
        let saved = Failure::catch(|| (self.functions.save)(state)).map_err(reason)?;
        let saved = Bytes::from(saved);
        if let Some(survivor) = &self.checkpoints.survivor {
            survivor(&saved)?;
        }
        if self.checkpoints.rules.outlive_panic {
            self.checkpoints.set_last(Some(saved));
        }
        Ok(())
    }
}

/// A failure in words. The drop of its error is user code.
fn reason(failure: Failure) -> String {
    failure.into_report().to_string()
}
