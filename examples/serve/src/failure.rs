//! The conversion of a batcher's error to the error of a client.

use selvedge::{Cause, ExecError};
use selvedge_batching::BatchError;

use crate::error::Error;

/// Returns the error that a client receives.
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

/// Converts the error of an execution: a failure of user code belongs to this request alone; any other error means that
/// the graph is lost.
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

/// Keeps the first line: the others are for the operator of the service, such as source locations and the last words of
/// a worker.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
