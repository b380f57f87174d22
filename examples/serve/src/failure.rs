//! What a batcher's error means to a client.

use selvedge::{Cause, ExecError};
use selvedge_batching::BatchError;

use crate::error::Error;

/// The error that a client is told.
pub fn told(error: BatchError) -> Error {
    match error {
        BatchError::Overloaded { retry_after, .. } => Error::Overloaded { retry_after },
        BatchError::Expired { .. } => Error::Expired,
        BatchError::Closed => Error::ShuttingDown,
        BatchError::Failed(error) => executed(&error),
        other => Error::Failed {
            cause: other.to_string(),
        },
    }
}

/// A failure of the user's code is this request's own; all else means that the graph is gone.
fn executed(error: &ExecError) -> Error {
    let own = error.as_task().is_some_and(|task| {
        matches!(
            task.cause(),
            Cause::Error { .. } | Cause::Panic { .. } | Cause::Payload { .. } | Cause::Argument { .. }
        )
    });
    let cause = first_line(&error.to_string());
    if own {
        Error::Failed { cause }
    } else {
        Error::Lost { cause }
    }
}

/// What follows is for who runs the service: places in its source, last words of a worker.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
