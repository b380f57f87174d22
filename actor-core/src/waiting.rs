//! The wait of a function for something that another process or thread answers.

use std::time::{Duration, Instant};

use crate::cancel::{Unwanted, cancellation};
use crate::current::{NoBlocking, blocking};
use crate::promise::{Answer, NoAnswer};

/// The reason that a wait ended without its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The call of the function that waited is no longer wanted.
    Cancelled,
    /// The time is over.
    TimedOut {
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// The function must not block.
    Refused(NoBlocking),
}

/// Waits for an answer, at most `timeout`. A remote function that waits gives its place to another call meanwhile.
pub(crate) fn wait_for<T>(
    answer: &mut Answer<T>,
    timeout: Duration,
) -> Result<Result<T, NoAnswer>, Unanswered> {
    let (started, call) = (Instant::now(), cancellation());
    if call.is_cancelled() {
        return Err(Unanswered::Cancelled);
    }
    if let Some(answered) = answer.taken() {
        return Ok(answered);
    }
    match blocking(|| call.wait_for(answer, started.checked_add(timeout))) {
        Ok(Ok(Some(answered))) => Ok(answered),
        Ok(Ok(None)) => Err(Unanswered::TimedOut {
            waited: started.elapsed(),
        }),
        Ok(Err(Unwanted)) => Err(Unanswered::Cancelled),
        Err(refused) => Err(Unanswered::Refused(refused)),
    }
}
