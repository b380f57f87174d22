//! Checkpoints: the state of an actor, saved where it survives the actor's process.
//!
//! Generated code does not know whether an actor's type has checkpoints, so it asks a [`TypeProbe`]: with both traits
//! in scope, method lookup finds [`SavedType`] if `A: Checkpoint`, and, one reference further, [`UnsavedType`] for every
//! other type, whose methods then cost nothing.

use selvedge_channels::{Traits, Wire};
use serde::{Deserialize, Serialize};

use crate::BoxError;
use crate::actor::arguments::{decoded, to_bytes};
use crate::actor::probe::TypeProbe;
use crate::cell::state::ActorState;
use crate::error_codec::ErrorCodec;
use crate::failure::{Failure, FailureReport};

/// An actor whose state survives its process: an actor that is [restarted](crate::Restart), or
/// [built again](crate::OnPanic::Rebuild) after a panic, continues from its last checkpoint.
///
/// [`Spawn::checkpoint_every`](crate::Spawn::checkpoint_every) says how often the state is saved. The new actor is built by its
/// constructor, which makes what cannot be saved, such as connections; [`restore`](Self::restore) then puts the saved state
/// into it.
pub trait Checkpoint: Sized + 'static {
    /// The part of the actor that is saved.
    type State: Wire;

    /// Returns the state as it is now. It runs on the actor's thread, after a method with `&mut self`.
    ///
    /// # Errors
    /// Any error; the method's caller then gets [`CheckpointError::NotSaved`], and the checkpoint before stays the last one.
    fn save(&self) -> Result<Self::State, BoxError>;

    /// Takes over a state that was saved, in an actor that its constructor has just built.
    ///
    /// # Errors
    /// Any error. In its next process, the actor then stays dead ([`Exit::NotRestored`](crate::Exit::NotRestored)); after a panic, in the same
    /// process, each later method tries again.
    fn restore(&mut self, state: Self::State) -> Result<(), BoxError>;
}

/// An error: a checkpoint failed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The method has run, and the state after it was not saved. The next method with `&mut self` tries again.
    #[error("a method of actor `{actor}` has run, and the state after it was not saved: {reason}")]
    NotSaved {
        /// The actor's name.
        actor: String,
        /// The reason: the error of `save`, or of the way to the driver.
        reason: String,
    },
    /// The actor was built again, and its last checkpoint was refused.
    #[error("the last checkpoint of actor `{actor}` cannot be restored: {reason}")]
    NotRestored {
        /// The actor's name.
        actor: String,
        /// The reason: the error of `restore`, or of decoding.
        reason: String,
    },
}

selvedge_channels::debug_is_report!(CheckpointError);

/// The codec of checkpoints' errors, which come back from other processes as themselves.
pub(crate) static CHECKPOINT_ERRORS: ErrorCodec = ErrorCodec::of::<CheckpointError>();

impl CheckpointError {
    /// The failure with this error.
    pub(crate) fn into_failure(self) -> Failure {
        Failure::encodable(std::sync::Arc::new(self), &CHECKPOINT_ERRORS)
    }

    /// Whether a report is one of such an error.
    pub(crate) fn is_in(report: &FailureReport) -> bool {
        report.type_name == CHECKPOINT_ERRORS.type_name()
    }
}

/// The functions that save and restore the state of one actor type.
#[derive(Debug)]
pub struct CheckpointEntry {
    /// Returns the encoded state.
    pub save: fn(&ActorState) -> Result<Vec<u8>, Failure>,
    /// Decodes a state and puts it into an actor.
    pub restore: fn(&mut ActorState, &[u8]) -> Result<(), Failure>,
}

impl CheckpointEntry {
    /// The functions for `A`.
    #[must_use]
    pub const fn of<A: Checkpoint>() -> Self {
        CheckpointEntry {
            save: |state| {
                let actor = state.shared::<A>().map_err(|failure| *failure)?;
                let saved = actor.save().map_err(Failure::from_error)?;
                to_bytes(&saved, &Traits::LETTER)
            },
            restore: |state, bytes| {
                let saved = decoded::<A::State>(bytes, &Traits::LETTER)?;
                let actor = state.receiver::<A>().map_err(|failure| *failure)?;
                actor.restore(saved).map_err(Failure::from_error)
            },
        }
    }
}

/// The answers of [`TypeProbe`] for types with checkpoints.
pub trait SavedType<A> {
    /// The functions of the type.
    fn checkpoint(&self) -> Option<&'static CheckpointEntry>;

    /// Notes that a method has changed the state.
    ///
    /// # Errors
    /// The errors of [`ActorState::changed`].
    fn changed(&self, state: &mut ActorState) -> Result<(), Box<Failure>>;
}

impl<A: Checkpoint> SavedType<A> for TypeProbe<A> {
    fn checkpoint(&self) -> Option<&'static CheckpointEntry> {
        Some(const { &CheckpointEntry::of::<A>() })
    }

    #[inline]
    fn changed(&self, state: &mut ActorState) -> Result<(), Box<Failure>> {
        state.changed()
    }
}

/// The answers of [`TypeProbe`] for all other types.
pub trait UnsavedType<A> {
    /// Returns `None`.
    fn checkpoint(&self) -> Option<&'static CheckpointEntry>;

    /// Does nothing.
    ///
    /// # Errors
    /// None.
    fn changed(&self, state: &mut ActorState) -> Result<(), Box<Failure>>;
}

impl<A> UnsavedType<A> for &TypeProbe<A> {
    fn checkpoint(&self) -> Option<&'static CheckpointEntry> {
        None
    }

    #[inline(always)]
    fn changed(&self, _: &mut ActorState) -> Result<(), Box<Failure>> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::needless_borrow, reason = "the reference chooses the trait")]
mod tests {
    use super::*;

    #[test]
    fn a_type_without_checkpoints_has_no_functions_and_is_not_saved() {
        let probe = TypeProbe::<u8>::of();
        assert!((&probe).checkpoint().is_none());
        assert!((&probe).changed(&mut ActorState::new(1_u8)).is_ok());
    }
}
