//! The part of the shared state that clients and owners use.

use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use selvedge_compiler::ExecError;

use super::{Entry, Phase, Shared, SharedState};
use crate::error::{BatchError, Refused};
use crate::options::{Batching, OnBroken, SubmitOptions};
use crate::queue::{Key, Moment, Ready, Waiting};
use crate::ticket::{Ticket, TicketPromise, Withdraw, ticket};

/// The time that user code may block the thread before a wait gives up.
const GRACE: Duration = Duration::from_secs(1);

impl<I, O> Shared<I, O> {
    /// Queues an item.
    pub(crate) fn submit(
        self: &Arc<Self>,
        item: I,
        cost: usize,
        options: SubmitOptions,
    ) -> Result<Ticket<O>, Refused<I>>
    where
        Self: Withdraw + 'static,
    {
        let limits = [self.options.max_wait, self.options.timeout, self.options.stay()];
        let most = limits.into_iter().fold(GRACE, Duration::saturating_add);
        let (ticket, promise) = ticket(most);
        let deadline = options
            .deadline
            .map(|at| at.saturating_duration_since(self.began));
        let mut state = self.state.lock();
        if let Some(error) = state.refusal(&self.options) {
            drop(state);
            return Err(Refused { value: item, error });
        }
        let arrival = self.now();
        let latest = arrival.saturating_add(self.options.max_wait);
        let waiting = Waiting {
            value: Entry {
                item,
                promise,
                deadline,
            },
            cost,
            arrival,
            deadline: deadline.map_or(latest, |deadline| deadline.min(latest)),
        };
        let expires = waiting.deadline;
        match state.queue.push(waiting, options.priority) {
            Err(entry) => {
                let error = state.overloaded(self.options.queue);
                drop(state);
                Err(Refused {
                    value: entry.item,
                    error,
                })
            }
            Ok(key) => {
                state.stats.accepted += 1;
                if state.is_news(expires, arrival) {
                    drop(state);
                    self.thread.wake_by_ref();
                }
                let queue: Weak<Self> = Arc::downgrade(self);
                Ok(ticket.queued(queue, key))
            }
        }
    }

    pub(crate) fn broken(&self) -> Option<ExecError> {
        self.state.lock().broken.clone()
    }

    /// Returns a ticket that is answered when the graph has ended.
    pub(crate) fn breakage(&self) -> Ticket<ExecError> {
        self.watch(|state| (&state.broken, &mut state.watchers))
    }

    /// Returns a ticket that is answered when an execution is overdue.
    pub(crate) fn overdue(&self) -> Ticket<ExecError> {
        self.watch(|state| (&state.overdue, &mut state.overdue_watchers))
    }

    /// Returns a ticket that is answered with an event: at once if it has happened already, else as one of the watchers.
    fn watch(
        &self,
        event: impl FnOnce(&mut SharedState<I, O>) -> (&Option<ExecError>, &mut Vec<TicketPromise<ExecError>>),
    ) -> Ticket<ExecError> {
        let (ticket, promise) = ticket(Duration::MAX);
        let mut state = self.state.lock();
        let is_closed = state.phase == Phase::Closed;
        let (happened, watchers) = event(&mut state);
        match happened.clone() {
            Some(error) => {
                drop(state);
                promise.keep(Ok(error));
            }
            None if is_closed => drop(state),
            None => {
                watchers.retain(|watcher| !watcher.is_abandoned());
                watchers.push(promise);
            }
        }
        ticket
    }

    /// Records that there is a new graph. `torn_down`: the reason for the items on the old one, if it had not ended.
    pub(crate) fn record_replacement(&self, torn_down: Option<ExecError>) {
        let mut state = self.state.lock();
        state.ended_before = state.broken.take().or(torn_down);
        state.overdue = None;
        drop(state);
        self.thread.wake_by_ref();
    }

    /// Advances to a later phase, and wakes the thread.
    pub(crate) fn advance(&self, phase: Phase) {
        let mut state = self.state.lock();
        if (state.phase as u8) < phase as u8 {
            state.phase = phase;
        }
        drop(state);
        self.thread.wake_by_ref();
    }

    /// Waits until the thread has answered every item. Returns `false` if the thread has not done so by `deadline`.
    pub(crate) fn wait_ended(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.ended {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return state.ended;
            }
        }
        true
    }

    pub(crate) fn left(&self) -> usize {
        self.state.lock().left
    }
}

impl<I, O> SharedState<I, O> {
    fn refusal(&self, options: &Batching) -> Option<BatchError> {
        if self.phase != Phase::Open {
            return Some(BatchError::Closed);
        }
        let failing = options.on_broken == OnBroken::Fail;
        self.broken.clone().filter(|_| failing).map(BatchError::Failed)
    }

    fn overloaded(&mut self, limit: usize) -> BatchError {
        self.stats.refused += 1;
        let queued = self.queue.len();
        BatchError::Overloaded {
            queued,
            limit,
            retry_after: self.rate.time_for(queued),
        }
    }

    /// Returns whether the thread has to wake for an item that came `now` and expires at `expires`. If it has to, the
    /// moment is recorded as known to the thread.
    fn is_news(&mut self, expires: Moment, now: Moment) -> bool {
        let ready = match self.queue.ready(now) {
            _ if !self.hungry => None,
            Ready::Now => Some(now),
            Ready::At(moment) => Some(moment),
            Ready::Empty => None,
        };
        let matters = ready.map_or(expires, |ready| ready.min(expires));
        let sooner = self.wakes_at.is_none_or(|wakes| matters < wakes);
        if sooner {
            self.wakes_at = Some(matters);
        }
        sooner
    }
}

impl<I: Send, O: Send> Withdraw for Shared<I, O> {
    fn withdraw(&self, key: Key) {
        let mut state = self.state.lock();
        let item = state.queue.withdraw(key);
        state.stats.withdrawn += u64::from(item.is_some());
        let drained = state.phase == Phase::Draining && state.queue.is_empty();
        drop(state);
        if drained {
            self.thread.wake_by_ref();
        }
        drop(item);
    }
}
