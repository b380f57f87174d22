//! Tickets and promises: the client's end of an item, and the end that answers it. Every item is answered exactly once.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::contained::contained;
use crate::error::BatchError;
use crate::queue::Key;

/// A limit longer than any wait, and short enough to be added to an `Instant`.
const WAIT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

enum TicketState<O> {
    Waiting(Option<Waker>),
    Answered(Result<O, BatchError>),
    Taken,
    /// The ticket was dropped, so the answer is not wanted any more.
    Abandoned,
}

struct Cell<O> {
    state: Mutex<TicketState<O>>,
    answered: Condvar,
}

/// The queue of a ticket's item, for a ticket that is dropped.
pub(crate) trait Withdraw: Send + Sync {
    /// Takes the item out of the queue, if it still waits.
    fn withdraw(&self, key: Key);
}

/// The right to an item's answer. Fetch the answer with [`wait`](Self::wait), [`wait_timeout`](Self::wait_timeout) or
/// `.await`.
///
/// Dropping the ticket takes the item out of the queue. If the item is being executed already, its answer is dropped,
/// and a sequence leaves before the next step. A task that awaits the ticket is woken on the batcher's thread, which
/// serves all clients: a user-defined waker must not block.
#[must_use = "dropping a ticket withdraws its item"]
pub struct Ticket<O> {
    cell: Arc<Cell<O>>,
    place: Option<(Weak<dyn Withdraw>, Key)>,
    limit: Duration,
}

/// The end of a ticket that answers it. Dropping the promise unanswered answers with [`BatchError::Closed`].
pub(crate) struct Promise<O>(Arc<Cell<O>>);

/// Creates both ends. [`Ticket::wait`] waits at most `limit`.
pub(crate) fn ticket<O>(limit: Duration) -> (Ticket<O>, Promise<O>) {
    let cell = Arc::new(Cell {
        state: Mutex::new(TicketState::Waiting(None)),
        answered: Condvar::new(),
    });
    let promise = Promise(Arc::clone(&cell));
    let ticket = Ticket {
        cell,
        place: None,
        limit,
    };
    (ticket, promise)
}

impl<O> Promise<O> {
    pub(crate) fn answer(self, answer: Result<O, BatchError>) {
        self.settle(answer);
    }

    /// True if the ticket was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(*self.0.state.lock(), TicketState::Abandoned)
    }

    fn settle(&self, answer: Result<O, BatchError>) {
        let mut state = self.0.state.lock();
        let TicketState::Waiting(waker) = &mut *state else {
            return;
        };
        let waker = waker.take();
        *state = TicketState::Answered(answer);
        drop(state);
        self.0.answered.notify_all();
        // The waker is user code: its panic is caught and ignored.
        let _ = contained("a waker", || waker.map(Waker::wake));
    }
}

impl<O> Drop for Promise<O> {
    fn drop(&mut self) {
        self.settle(Err(BatchError::Closed));
    }
}

impl<O> Ticket<O> {
    /// Returns a ticket that is answered with `error` already.
    pub(crate) fn refused(error: BatchError) -> Self {
        let (ticket, promise) = ticket(Duration::ZERO);
        promise.answer(Err(error));
        ticket
    }

    pub(crate) fn placed(mut self, queue: Weak<dyn Withdraw>, key: Key) -> Self {
        self.place = Some((queue, key));
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
        let deadline = began + timeout.min(WAIT_MAX);
        let mut state = self.cell.state.lock();
        while matches!(*state, TicketState::Waiting(_)) {
            if self.cell.answered.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        take(&mut state).unwrap_or_else(|| {
            Err(BatchError::Timeout {
                waited: began.elapsed(),
            })
        })
    }
}

/// Takes the answer, if it is there.
fn take<O>(state: &mut TicketState<O>) -> Option<Result<O, BatchError>> {
    match std::mem::replace(state, TicketState::Taken) {
        TicketState::Answered(answer) => Some(answer),
        TicketState::Taken | TicketState::Abandoned => Some(Err(BatchError::Taken)),
        waiting @ TicketState::Waiting(_) => {
            *state = waiting;
            None
        }
    }
}

impl<O> Future for Ticket<O> {
    type Output = Result<O, BatchError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.cell.state.lock();
        match &*state {
            TicketState::Waiting(Some(known)) if known.will_wake(context.waker()) => return Poll::Pending,
            TicketState::Waiting(_) => {}
            _ => return take(&mut state).map_or(Poll::Pending, Poll::Ready),
        }
        drop(state);
        // The clone and the drop of a waker are user code, so the lock is not held while they run.
        let waker = context.waker().clone();
        let mut state = self.cell.state.lock();
        let TicketState::Waiting(known) = &mut *state else {
            return take(&mut state).map_or(Poll::Pending, Poll::Ready);
        };
        let before = known.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl<O> Drop for Ticket<O> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *self.cell.state.lock(), TicketState::Abandoned);
        if let (TicketState::Waiting(_), Some((queue, key))) = (left, &self.place)
            && let Some(queue) = queue.upgrade()
        {
            queue.withdraw(*key);
        }
    }
}

impl<O> std::fmt::Debug for Ticket<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}
