//! Why an item has no answer.

use std::fmt;
use std::time::Duration;

use selvedge_compiler::ExecError;
use thiserror::Error;

/// Why an item has no answer. Match the variant; texts may change.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// As many items wait as may; nothing was queued.
    #[error(
        "{queued} items wait and the queue is limited to {limit}: come again in {retry_after:?}, or raise Batching::queue"
    )]
    Overloaded {
        /// Items that wait.
        queued: usize,
        /// The limit, [`Batching::queue`](crate::Batching::queue).
        limit: usize,
        /// In how long those that wait now will have been executed, by the rate of late.
        retry_after: Duration,
    },
    /// The item costs more than an execution may; nothing was queued.
    #[error(
        "the item costs {cost} and an execution may cost {max_cost}: raise Batching::max_cost, or cut the item"
    )]
    TooLarge {
        /// What it costs.
        cost: usize,
        /// The limit, [`Batching::max_cost`](crate::Batching::max_cost).
        max_cost: usize,
    },
    /// Its deadline passed before it was executed, or before it was done with its steps.
    #[error("the item's deadline has passed after {waited:?}")]
    Expired {
        /// Since it was submitted.
        waited: Duration,
    },
    /// The execution that it was in gave no value.
    #[error("{0}")]
    Failed(#[source] ExecError),
    /// The user's code panicked: the cost function, a value's `Clone`, or the sequence. A `Drop` that panics fails nobody.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// Whose code.
        what: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The graph gave another number of answers than items went in.
    #[error("{items} items went in and {answers} answers came out: there must be one for each, in order")]
    Miscounted {
        /// Items of the execution.
        items: usize,
        /// Its answers.
        answers: usize,
    },
    /// The sequence said that nobody wants it any more.
    #[error("the sequence was cancelled")]
    Cancelled,
    /// The batcher was closed or dropped.
    #[error("the batcher has been closed")]
    Closed,
    /// The answer did not come in time. It may be waited for again.
    #[error("no answer after {waited:?}")]
    Timeout {
        /// How long the wait lasted.
        waited: Duration,
    },
    /// The answer has been taken already.
    #[error("the answer has been taken already")]
    Taken,
}

selvedge_compiler::debug_is_report!(BatchError);

/// An item that was not accepted, with the reason.
pub struct Refused<I> {
    /// The item, unchanged.
    pub item: I,
    /// Why it was refused.
    pub error: BatchError,
}

impl<I> fmt::Debug for Refused<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<I> fmt::Display for Refused<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<I> std::error::Error for Refused<I> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
