//! The wait for a worker that loads programs.

use std::time::Instant;

use crate::lease::error::LeaseError;
use crate::process_name::ProcessName;
use crate::promise::Answer;
use crate::worker::link::{LinkLost, Response};

/// Programs that are being loaded by a worker.
#[must_use]
pub struct Loading {
    pub(super) worker: ProcessName,
    pub(super) answer: Answer<Result<Response, LinkLost>>,
}

impl Loading {
    /// Waits until the worker has started the programs.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] with the message of the loader, [`LeaseError::Dead`], [`LeaseError::Silent`]. After the
    /// last one, the programs may still start: the lanes count as running until the worker answers or dies.
    pub fn wait(mut self, deadline: Instant) -> Result<(), LeaseError> {
        let worker = self.worker;
        match self.answer.wait(Some(deadline)) {
            Some(Ok(Ok(Response::Loaded(Ok(_))))) => Ok(()),
            Some(Ok(Ok(Response::Loaded(Err(reason)))) | Ok(Err(LinkLost::NotSent(reason)))) => {
                Err(LeaseError::Refused { worker, reason })
            }
            Some(Ok(Err(LinkLost::Died(death)))) => Err(LeaseError::Dead(death)),
            Some(Ok(Ok(_))) => Err(LeaseError::Refused {
                worker,
                reason: "an answer to another question".to_owned(),
            }),
            Some(Err(_)) => Err(LeaseError::Shutdown),
            None => Err(LeaseError::Silent { worker }),
        }
    }
}

impl std::fmt::Debug for Loading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loading")
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}
