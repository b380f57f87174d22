//! Tickets: the client's end of an item. The batcher's end is a promise; every item is answered exactly once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use selvedge_compiler::{Answer, NoAnswer, Promise, promise};

use crate::error::BatchError;
use crate::queue::Key;

/// The end of a ticket that answers it. Dropping the promise unanswered answers with [`BatchError::Closed`].
pub(crate) type TicketPromise<O> = Promise<Result<O, BatchError>>;

/// The queue of a ticket's item, for a ticket that is dropped.
pub(crate) trait Withdraw: Send + Sync {
    /// Takes the item out of the queue, if it still waits.
    fn withdraw(&self, key: Key);
}

/// An item that may still be in the queue; dropping this withdraws the item.
struct Queued(Option<(Weak<dyn Withdraw>, Key)>);

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some((queue, key)) = self.0.take()
            && let Some(queue) = queue.upgrade()
        {
            queue.withdraw(key);
        }
    }
}

/// The right to an item's answer. Fetch the answer with [`wait`](Self::wait), [`wait_timeout`](Self::wait_timeout) or
/// `.await`.
///
/// Dropping the ticket takes the item out of the queue. If the item is being executed already, its answer is dropped,
/// and a sequence leaves before the next step. A task that awaits the ticket is woken on the batcher's thread, which
/// serves all clients: a user-defined waker must not block.
#[must_use = "dropping a ticket withdraws its item"]
pub struct Ticket<O> {
    // The answer is dropped first: withdrawing the item drops its promise, which wakes whoever waits for the answer.
    answer: Answer<Result<O, BatchError>>,
    queued: Queued,
    limit: Duration,
}

/// Creates both ends. [`Ticket::wait`] waits at most `limit`.
pub(crate) fn ticket<O>(limit: Duration) -> (Ticket<O>, TicketPromise<O>) {
    let (promise, answer) = promise();
    let queued = Queued(None);
    (
        Ticket {
            answer,
            queued,
            limit,
        },
        promise,
    )
}

impl<O> Ticket<O> {
    /// Returns a ticket that is answered with `error` already.
    pub(crate) fn refused(error: BatchError) -> Self {
        Ticket {
            answer: Answer::ready(Err(error)),
            queued: Queued(None),
            limit: Duration::ZERO,
        }
    }

    pub(crate) fn queued(mut self, queue: Weak<dyn Withdraw>, key: Key) -> Self {
        self.queued = Queued(Some((queue, key)));
        self
    }

    /// Waits for the answer. Every item is answered in the end: see [`Batching::max_wait`](crate::Batching::max_wait),
    /// [`Batching::timeout`](crate::Batching::timeout) and [`Batching::max_stay`](crate::Batching::max_stay). The sum
    /// of these three and one second limits this wait too.
    ///
    /// # Errors
    /// The reason why there is no answer; [`BatchError::Timeout`] if user code blocks the batcher's own thread.
    pub fn wait(mut self) -> Result<O, BatchError> {
        let limit = self.limit;
        self.wait_timeout(limit)
    }

    /// Waits for the answer for at most `timeout`; zero polls once. After [`BatchError::Timeout`] the caller may wait
    /// again; after any other outcome, the answer is [`BatchError::Taken`].
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<O, BatchError> {
        let began = Instant::now();
        let answer = self.answer.wait(began.checked_add(timeout));
        answer.map_or_else(
            || {
                let waited = began.elapsed();
                Err(BatchError::Timeout { waited })
            },
            |answer| self.answered(answer),
        )
    }

    /// Returns the answer if it has arrived, without waiting for it. Once the answer was returned, the next one is
    /// [`BatchError::Taken`].
    pub fn try_get(&mut self) -> Option<Result<O, BatchError>> {
        let answer = self.answer.try_take()?;
        Some(self.answered(answer))
    }

    fn answered(&mut self, answer: Result<Result<O, BatchError>, NoAnswer>) -> Result<O, BatchError> {
        self.queued.0 = None;
        answer.unwrap_or_else(|reason| {
            Err(match reason {
                NoAnswer::Broken => BatchError::Closed,
                NoAnswer::Taken => BatchError::Taken,
            })
        })
    }
}

impl<O> Future for Ticket<O> {
    type Output = Result<O, BatchError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.poll(context).map(|answer| self.answered(answer))
    }
}

impl<O> std::fmt::Debug for Ticket<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}
