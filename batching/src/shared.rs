//! What the clients and the batcher's thread share: the queue, the graph, and how the thread is woken.
//!
//! The lock is held for moments, and never while code of the user's runs: values are dropped and tickets answered after it. The
//! thread sleeps by `park`, whose token is not lost when somebody unparks it before it sleeps.

use std::sync::{Arc, OnceLock, Weak};
use std::task::Wake;
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_compiler::{ExecError, Graph};

use crate::error::{BatchError, Refused};
use crate::options::{Batching, OnBroken, Terms};
use crate::queue::{Key, Moment, Queue, Ready, Waiting};
use crate::stats::{Rate, Stats};
use crate::ticket::{Promise, Ticket, Withdraw, ticket};

/// What the thread may be held up by the user's code before a wait gives up.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// What is here is executed, nothing new comes in.
    Draining,
    Closed,
}

/// An item and who waits for its answer.
pub(crate) struct Entry<I, O> {
    pub(crate) item: I,
    pub(crate) promise: Promise<O>,
    /// The client's own; [`Batching::max_wait`] counts in the queue only.
    pub(crate) deadline: Option<Moment>,
}

/// An answer on its way out.
pub(crate) type Answer<O> = (Promise<O>, Result<O, BatchError>);

struct State<I, O, In, Out> {
    queue: Queue<Entry<I, O>>,
    phase: Phase,
    graph: Option<Arc<Graph<In, Out>>>,
    broken: Option<ExecError>,
    watchers: Vec<Promise<ExecError>>,
    stats: Stats,
    rate: Rate,
    /// Whether the thread could begin an execution, and when it means to wake.
    hungry: bool,
    wakes_at: Option<Moment>,
    ended: bool,
    /// Items that were here when the thread ended.
    left: usize,
}

pub(crate) struct Shared<I, O, In, Out> {
    began: Instant,
    pub(crate) options: Batching,
    state: Mutex<State<I, O, In, Out>>,
    ended: Condvar,
    thread: Arc<Sleeper>,
}

/// Wakes the batcher's thread; executions hold it as their waker.
#[derive(Default)]
pub(crate) struct Sleeper(OnceLock<Thread>);

impl Sleeper {
    /// Called by the thread itself, first thing.
    pub(crate) fn settle(&self) {
        let _ = self.0.set(std::thread::current());
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before it has begun there is nothing to wake: its first look sees everything.
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

impl<I, O, In, Out> Shared<I, O, In, Out> {
    pub(crate) fn new(options: Batching, graph: Graph<In, Out>) -> Self {
        Shared {
            began: Instant::now(),
            state: Mutex::new(State {
                queue: Queue::new(&options),
                phase: Phase::Open,
                graph: Some(Arc::new(graph)),
                broken: None,
                watchers: Vec::new(),
                stats: Stats::default(),
                rate: Rate::default(),
                hungry: true,
                wakes_at: None,
                ended: false,
                left: 0,
            }),
            ended: Condvar::new(),
            thread: Arc::default(),
            options,
        }
    }

    pub(crate) fn sleeper(&self) -> &Arc<Sleeper> {
        &self.thread
    }

    pub(crate) fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// How long to sleep until `moment`.
    pub(crate) fn until(&self, moment: Moment) -> Duration {
        moment.saturating_sub(self.now())
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.lock();
        Stats {
            queued: state.queue.len(),
            ..state.stats
        }
    }

    /// Changes counters.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.state.lock().stats);
    }

    /// So many items went through in such a time.
    pub(crate) fn went_through(&self, items: usize, took: Duration) {
        self.state.lock().rate.record(items, took);
    }

    // The clients' side.

    /// Queues an item.
    pub(crate) fn submit(
        self: &Arc<Self>,
        item: I,
        cost: usize,
        terms: Terms,
    ) -> Result<Ticket<O>, Refused<I>>
    where
        Self: Withdraw + 'static,
    {
        let most = self.options.max_wait + self.options.timeout + self.options.max_stay + GRACE;
        let (ticket, promise) = ticket(most);
        let deadline = terms.deadline.map(|at| at.saturating_duration_since(self.began));
        let mut state = self.state.lock();
        if let Some(error) = state.refusal(&self.options) {
            drop(state);
            return Err(Refused { item, error });
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
        match state.queue.push(waiting, terms.priority) {
            Err(entry) => {
                let error = state.overloaded(self.options.queue);
                drop(state);
                Err(Refused {
                    item: entry.item,
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
                Ok(ticket.placed(queue, key))
            }
        }
    }

    pub(crate) fn broken(&self) -> Option<ExecError> {
        self.state.lock().broken.clone()
    }

    /// Answered when the graph has ended.
    pub(crate) fn breakage(&self) -> Ticket<ExecError> {
        let (ticket, promise) = ticket(Duration::MAX);
        let mut state = self.state.lock();
        match state.broken.clone() {
            Some(cause) => {
                drop(state);
                promise.answer(Ok(cause));
            }
            None if state.ended => drop(state),
            None => {
                state.watchers.retain(|watcher| !watcher.is_abandoned());
                state.watchers.push(promise);
            }
        }
        ticket
    }

    /// Goes on with another graph; gives the one that it had.
    pub(crate) fn replace(&self, graph: Arc<Graph<In, Out>>) -> Option<Arc<Graph<In, Out>>> {
        let mut state = self.state.lock();
        state.broken = None;
        let old = state.graph.replace(graph);
        drop(state);
        self.thread.wake_by_ref();
        old
    }

    /// The graph, broken or not.
    pub(crate) fn graph(&self) -> Option<Arc<Graph<In, Out>>> {
        self.state.lock().graph.clone()
    }

    /// Takes the graph out, for good.
    pub(crate) fn release(&self) -> Option<Arc<Graph<In, Out>>> {
        self.state.lock().graph.take()
    }

    /// Moves on to a later phase.
    pub(crate) fn advance(&self, phase: Phase) {
        let mut state = self.state.lock();
        if (state.phase as u8) < phase as u8 {
            state.phase = phase;
        }
        drop(state);
        self.thread.wake_by_ref();
    }

    /// Waits until the thread has answered everybody; `false` when it had not in time.
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

    // The thread's side.

    /// The graph, if it runs.
    pub(crate) fn running(&self) -> Option<Arc<Graph<In, Out>>> {
        let state = self.state.lock();
        state.graph.clone().filter(|_| state.broken.is_none())
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().queue.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Answers what waited too long.
    pub(crate) fn expire(&self, now: Moment) {
        let mut state = self.state.lock();
        let expired = state.queue.expire(now);
        if expired.is_empty() {
            return;
        }
        let cause = state.broken.clone();
        drop(state);
        let answers = expired.into_iter().map(|it| {
            let waited = now.saturating_sub(it.arrival);
            let error = cause
                .clone()
                .map_or(BatchError::Expired { waited }, BatchError::Failed);
            (it.value.promise, Err(error))
        });
        self.answer(answers.collect());
    }

    /// The items of the next execution, if one is to begin.
    pub(crate) fn take(&self, now: Moment) -> Vec<Waiting<Entry<I, O>>> {
        let mut state = self.state.lock();
        if state.is_ready(now) {
            let taken = state.queue.take();
            state.left_the_queue(now, &taken);
            return taken;
        }
        Vec::new()
    }

    /// The first item.
    pub(crate) fn take_one(&self, now: Moment) -> Option<Waiting<Entry<I, O>>> {
        let mut state = self.state.lock();
        let taken = state.queue.take_one()?;
        state.left_the_queue(now, std::slice::from_ref(&taken));
        Some(taken)
    }

    /// Answers items, and counts them first.
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
        answers
            .into_iter()
            .for_each(|(promise, answer)| promise.answer(answer));
    }

    /// Looks whether the graph has ended; then everybody hears of it whom it concerns.
    pub(crate) fn check_graph(&self) {
        let mut state = self.state.lock();
        let ended = state.graph.as_ref().and_then(|graph| graph.ended());
        let Some(cause) = ended.filter(|_| state.broken.is_none()) else {
            return;
        };
        state.broken = Some(cause.clone());
        let watchers = std::mem::take(&mut state.watchers);
        let failed = match self.options.on_broken {
            OnBroken::Fail => state.queue.clear(),
            OnBroken::Keep => Vec::new(),
        };
        drop(state);
        let failed = failed.into_iter().map(|it| it.value.promise);
        self.answer(
            failed
                .map(|promise| (promise, Err(BatchError::Failed(cause.clone()))))
                .collect(),
        );
        watchers
            .into_iter()
            .for_each(|watcher| watcher.answer(Ok(cause.clone())));
    }

    /// Says until when the thread may sleep: `room` is whether it could begin an execution, `own` when it has to wake anyway.
    pub(crate) fn rest(&self, room: bool, own: Option<Moment>, now: Moment) -> Option<Moment> {
        let mut state = self.state.lock();
        state.hungry = room && state.graph.is_some() && state.broken.is_none();
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

    /// The thread's last act: whoever waits yet hears that the batcher is closed. `held` items were with the thread.
    pub(crate) fn end(&self, held: usize) {
        let mut state = self.state.lock();
        state.phase = Phase::Closed;
        let (waited, watchers) = (state.queue.clear(), std::mem::take(&mut state.watchers));
        state.left = held + waited.len();
        state.stats.failed += state.left as u64;
        state.stats.in_flight = 0;
        drop(state);
        drop((waited, watchers));
        self.state.lock().ended = true;
        self.ended.notify_all();
    }
}

impl<I, O, In, Out> State<I, O, In, Out> {
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

    fn is_ready(&self, now: Moment) -> bool {
        match self.queue.ready(now) {
            Ready::Now => true,
            Ready::At(_) => self.phase == Phase::Draining,
            Ready::Empty => false,
        }
    }

    /// Whether the thread has to know at once of an item that came `now` and expires then.
    fn is_news(&self, expires: Moment, now: Moment) -> bool {
        let sooner = |moment: Moment| self.wakes_at.is_none_or(|wakes| moment < wakes);
        let ready = match self.queue.ready(now) {
            Ready::Now => now,
            Ready::At(moment) => moment,
            Ready::Empty => return false,
        };
        sooner(expires) || (self.hungry && sooner(ready))
    }

    fn left_the_queue(&mut self, now: Moment, taken: &[Waiting<Entry<I, O>>]) {
        for item in taken {
            let waited = now.saturating_sub(item.arrival).as_micros();
            self.stats
                .waits_us
                .record(u64::try_from(waited).unwrap_or(u64::MAX));
        }
    }
}

impl<I: Send, O: Send, In, Out> Withdraw for Shared<I, O, In, Out> {
    fn withdraw(&self, key: Key) {
        let mut state = self.state.lock();
        let item = state.queue.withdraw(key);
        state.stats.withdrawn += u64::from(item.is_some());
        drop(state);
        drop(item);
    }
}
