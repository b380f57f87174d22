//! The part of the shared state that the batcher's thread uses.

use selvedge_compiler::ExecError;

use super::{Answer, Entry, Phase, Shared, SharedState, tell};
use crate::error::{BatchError, discard};
use crate::options::OnBroken;
use crate::queue::{Moment, Ready, Waiting};
use crate::ticket::TicketPromise;

/// The items and tickets that the end of a graph affects.
pub(crate) struct Affected<I, O> {
    cause: ExecError,
    watchers: Vec<TicketPromise<ExecError>>,
    items: Vec<Waiting<Entry<I, O>>>,
}

impl<I, O> Shared<I, O> {
    /// Returns the reason why items on the last graph cannot go on.
    pub(crate) fn cause(&self) -> BatchError {
        let state = self.state.lock();
        let cause = state.broken.as_ref().or(state.ended_before.as_ref());
        cause.cloned().map_or(BatchError::Closed, BatchError::Failed)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// True if no item waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().queue.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Answers the items whose deadline has passed.
    pub(crate) fn expire(&self) {
        self.after_expiry(|_, _| ());
    }

    /// Takes the items of the next execution, if one should begin.
    pub(crate) fn take(&self) -> Vec<Waiting<Entry<I, O>>> {
        self.after_expiry(|state, now| {
            let ready = state.is_ready(now);
            let taken = if ready { state.queue.take() } else { Vec::new() };
            state.left_the_queue(now, &taken);
            taken
        })
    }

    /// Takes the first item.
    pub(crate) fn take_one(&self) -> Option<Waiting<Entry<I, O>>> {
        self.after_expiry(|state, now| {
            let taken = state.queue.take_one();
            state.left_the_queue(now, taken.as_slice());
            taken
        })
    }

    /// Removes the expired items and answers them, and returns the result of `act` on the rest. The clock is read under
    /// the lock, hence after every arrival.
    fn after_expiry<R>(&self, act: impl FnOnce(&mut SharedState<I, O>, Moment) -> R) -> R {
        let mut state = self.state.lock();
        let now = self.now();
        let expired = state.queue.expire(now);
        let result = act(&mut state, now);
        drop(state);
        self.turn_away(expired, |arrival| BatchError::Expired {
            waited: now.saturating_sub(arrival),
        });
        result
    }

    /// Answers waiting items with an error, which depends on their arrival, then drops them.
    fn turn_away(&self, waited: Vec<Waiting<Entry<I, O>>>, error: impl Fn(Moment) -> BatchError) {
        let entries = waited.into_iter().map(|it| {
            let answer = (it.value.promise, Err(error(it.arrival)));
            (answer, it.value.item)
        });
        let (answers, items): (_, Vec<_>) = entries.unzip();
        self.answer(answers);
        discard(items);
    }

    /// Counts answers, then gives them to their tickets.
    pub(crate) fn answer(&self, answers: Vec<Answer<O>>) {
        if answers.is_empty() {
            return;
        }
        self.count(|stats| {
            for (promise, answer) in &answers {
                match answer {
                    _ if promise.is_abandoned() => stats.withdrawn += 1,
                    Ok(_) => stats.answered += 1,
                    Err(error) => {
                        stats.failed += 1;
                        stats.expired += u64::from(matches!(error, BatchError::Expired { .. }));
                    }
                }
            }
        });
        for (promise, answer) in answers {
            // If the ticket was dropped, the answer is dropped here.
            promise.keep(answer);
        }
    }

    /// Records the end of the graph, unless it is known. The affected must be told when no lock is held.
    pub(crate) fn record_end(&self, cause: ExecError) -> Option<Affected<I, O>> {
        let mut state = self.state.lock();
        if state.broken.is_some() {
            return None;
        }
        state.broken = Some(cause.clone());
        Some(Affected {
            cause,
            watchers: std::mem::take(&mut state.watchers),
            items: match self.options.on_broken {
                OnBroken::Fail => state.queue.clear(),
                OnBroken::Keep => Vec::new(),
            },
        })
    }

    /// Answers the items and the tickets that the end of the graph affects.
    pub(crate) fn tell_end(&self, affected: Affected<I, O>) {
        let Affected {
            cause,
            watchers,
            items,
        } = affected;
        self.turn_away(items, |_| BatchError::Failed(cause.clone()));
        tell(watchers, &cause);
    }

    /// Records the numbers of items and of overdue executions, and whether an execution is overdue on this graph, in one
    /// step: whoever sees one sees the other. Returns the tickets that must be told when no lock is held.
    pub(crate) fn record_held(
        &self,
        held: (usize, usize),
        overdue: Option<ExecError>,
    ) -> Option<(ExecError, Vec<TicketPromise<ExecError>>)> {
        let mut state = self.state.lock();
        (state.stats.in_flight, state.stats.overdue) = held;
        state.overdue = overdue;
        let error = state.overdue.clone()?;
        Some((error, std::mem::take(&mut state.overdue_watchers)))
    }

    /// Returns the moment until which the thread may sleep. `room`: whether it could begin an execution. `own`: the
    /// moment at which it has to wake anyway.
    pub(crate) fn rest(&self, room: bool, own: Option<Moment>, now: Moment) -> Option<Moment> {
        let mut state = self.state.lock();
        state.hungry = room && state.broken.is_none();
        let ready = match state.queue.ready(now) {
            _ if !state.hungry => None,
            Ready::Empty => None,
            _ if state.is_ready(now) => Some(now),
            Ready::At(moment) => Some(moment),
            Ready::Now => Some(now),
        };
        let moments = [own, state.queue.next_deadline(), ready];
        state.wakes_at = moments.into_iter().flatten().min();
        state.wakes_at
    }

    /// Answers all waiting items with [`BatchError::Closed`], as the last act of the thread. `held`: the number of
    /// items that the thread held.
    pub(crate) fn end(&self, held: usize) {
        let mut state = self.state.lock();
        state.phase = Phase::Closed;
        let waited = state.queue.clear();
        let mut watchers = std::mem::take(&mut state.watchers);
        watchers.append(&mut state.overdue_watchers);
        state.left = held + waited.len();
        state.stats.failed += state.left as u64;
        state.stats.in_flight = 0;
        drop(state);
        discard(waited);
        drop(watchers);
        self.state.lock().ended = true;
        self.ended.notify_all();
    }
}

impl<I, O> SharedState<I, O> {
    fn left_the_queue(&mut self, now: Moment, taken: &[Waiting<Entry<I, O>>]) {
        for item in taken {
            let waited = now.saturating_sub(item.arrival).as_micros();
            self.stats
                .waits_us
                .record(u64::try_from(waited).unwrap_or(u64::MAX));
        }
    }
}
