//! The connection of a rank to the devices of the other ranks, from its begin to its end.

use std::time::Instant;

use selvedge_channels::{Doorbell, Waiting};

use super::NAME;
use super::connect::{Connecting, Linked};
use crate::error::CommError;

/// The connection of a rank.
pub(super) enum Connection {
    Connecting(Connecting),
    Linked(Box<Linked>),
    Failed(CommError),
    Closed,
}

impl Connection {
    /// Returns the link, or `None` while the rank connects. Never waits.
    pub(super) fn poll(&mut self) -> Result<Option<&mut Linked>, CommError> {
        if let Connection::Connecting(connecting) = self
            && let Some(outcome) = connecting.outcome()
        {
            *self = match outcome {
                Ok(linked) => Connection::Linked(Box::new(linked)),
                Err(error) => Connection::Failed(error),
            };
        }
        match self {
            Connection::Connecting(_) => Ok(None),
            Connection::Linked(linked) => Ok(Some(linked)),
            Connection::Failed(error) => Err(copy(error)),
            Connection::Closed => Err(lost("the rank has come to its end".to_owned())),
        }
    }

    /// Waits for the link. Returns `None` if the deadline passes.
    pub(super) fn wait(
        &mut self,
        bell: &Doorbell,
        deadline: Option<Instant>,
    ) -> Result<Option<&mut Linked>, CommError> {
        // The thread that connects watches the other ranks.
        bell.wait(&Waiting::Park, deadline, || !matches!(self.poll(), Ok(None)));
        self.poll()
    }

    /// Returns the link if there is one, and closes the connection.
    pub(super) fn close(&mut self) -> Option<Linked> {
        match std::mem::replace(self, Connection::Closed) {
            Connection::Linked(linked) => Some(*linked),
            _ => None,
        }
    }
}

fn lost(reason: String) -> CommError {
    CommError::Backend {
        backend: NAME,
        reason,
    }
}

/// Returns the reason why a connection failed once more.
fn copy(error: &CommError) -> CommError {
    match *error {
        CommError::PeerLost { rank, pid } => CommError::PeerLost { rank, pid },
        CommError::PeerLeft { rank } => CommError::PeerLeft { rank },
        CommError::Aborted { rank } => CommError::Aborted { rank },
        ref other => lost(other.to_string()),
    }
}
