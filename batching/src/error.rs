//! Errors: the reasons why an item has no answer, and why there is no batcher.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use selvedge_compiler::{ExecError, dispose, panic_message};
use thiserror::Error;

/// The reason why an item has no answer. Match the variant; texts may change.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The queue is full; the item was not queued.
    #[error(
        "{queued} items wait and the queue is limited to {limit}: come again in {retry_after:?}, or raise Batching::queue"
    )]
    Overloaded {
        /// The number of waiting items.
        queued: usize,
        /// The limit, [`Batching::queue`](crate::Batching::queue).
        limit: usize,
        /// The estimated time until the items that wait now have been executed, from the recent rate.
        retry_after: Duration,
    },
    /// The item costs more than an execution may cost; the item was not queued.
    #[error(
        "the item costs {cost} and an execution may cost {max_cost}: raise Batching::max_cost, or cut the item"
    )]
    TooLarge {
        /// The cost of the item.
        cost: usize,
        /// The limit, [`Batching::max_cost`](crate::Batching::max_cost).
        max_cost: usize,
    },
    /// The item's deadline passed before its execution began, or before the sequence was done with its steps.
    #[error("the item's deadline has passed after {waited:?}")]
    Expired {
        /// The time since the item was submitted.
        waited: Duration,
    },
    /// The item's execution gave no value.
    #[error("{0}")]
    Failed(ExecError),
    /// User code panicked: the cost function, a value of the graph, an item's `Clone`, or the sequence. A `Drop` that
    /// panics fails no item.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// The user code that panicked.
        what: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The graph gave a number of answers other than the number of items.
    #[error("{items} items went in and {answers} answers came out: there must be one for each, in order")]
    Miscounted {
        /// The number of items in the execution.
        items: usize,
        /// The number of answers.
        answers: usize,
    },
    /// The sequence reported that it is cancelled ([`Sequence::is_cancelled`](crate::Sequence::is_cancelled)).
    #[error("the sequence was cancelled")]
    Cancelled,
    /// The batcher was closed or dropped.
    #[error("the batcher has been closed")]
    Closed,
    /// The answer did not come in time. The caller may wait for it again.
    #[error("no answer after {waited:?}")]
    Timeout {
        /// The duration of the wait.
        waited: Duration,
    },
    /// The answer has been taken already.
    #[error("the answer has been taken already")]
    Taken,
}

selvedge_compiler::debug_is_report!(BatchError);

impl BatchError {
    /// Runs user code; a panic in it becomes an error, which names the code (`what`).
    pub(crate) fn catch<R>(what: &'static str, run: impl FnOnce() -> R) -> Result<R, BatchError> {
        // Unwind safe: nothing that `run` was given is used again after a panic, except by user code.
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| BatchError::Panicked {
            what,
            message: panic_message(panic),
        })
    }
}

/// The reason why there is no batcher.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BatcherError {
    /// An option lets no item through.
    #[error(
        "`Batching::{option}(0)` lets no item through: set it to 1 or more, or leave it out for its default"
    )]
    Zero {
        /// The name of the option, a method of [`Batching`](crate::Batching).
        option: &'static str,
    },
    /// Every batch that does not fill expires before it begins.
    #[error(
        "`Batching::max_delay` ({delay:?}) is not shorter than `max_wait` ({wait:?}), so items that wait for others expire first: lower `max_delay`, or raise `max_wait`"
    )]
    DelayTooLong {
        /// [`Batching::max_delay`](crate::Batching::max_delay).
        delay: Duration,
        /// [`Batching::max_wait`](crate::Batching::max_wait).
        wait: Duration,
    },
    /// An option has no effect in a batcher of this kind.
    #[error("`Batching::{option}` would have no effect: {reason}")]
    OptionWithoutEffect {
        /// The name of the option, a method of [`Batching`](crate::Batching).
        option: &'static str,
        /// The reason, and the help.
        reason: &'static str,
    },
    /// No thread can have the name.
    #[error(
        "the name {name:?} has a zero byte, so no thread can have it: choose another for `Batching::named`"
    )]
    Name {
        /// The name of [`Batching::named`](crate::Batching::named).
        name: String,
    },
    /// The system could not start the batcher's thread.
    #[error("the thread of the batcher could not be started: {0}")]
    Thread(io::Error),
}

selvedge_compiler::debug_is_report!(BatcherError);

impl From<io::Error> for BatcherError {
    fn from(error: io::Error) -> Self {
        BatcherError::Thread(error)
    }
}

/// Drops values of user-defined types, one by one: a drop that panics does not keep the others from being dropped.
pub(crate) fn discard<T>(values: impl IntoIterator<Item = T>) {
    values.into_iter().for_each(dispose);
}

/// An item that was not accepted, with the reason.
#[derive(thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Refused<I> {
    /// The item, unchanged.
    pub value: I,
    /// The reason for the refusal.
    pub error: BatchError,
}

impl<I> fmt::Debug for Refused<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}
