//! What the clients and the batcher's thread share: the queue, the graph, and how the thread is woken.
//!
//! The lock is held for moments, and never while code of the user's runs: values are dropped and tickets answered after it. Who
//! changes something that the thread has to know rings afterwards, and the thread looks at everything after each ring.

mod clients;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_compiler::{ExecError, Graph};

use crate::error::BatchError;
use crate::options::Batching;
use crate::queue::{Moment, Queue, Ready};
use crate::stats::{Rate, Stats};
use crate::ticket::Promise;

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
    /// How many graphs it has had before.
    generation: u64,
    /// The last one whose end wakes the thread.
    watched: Option<u64>,
    /// How the graph ended, and how the one before it did.
    broken: Option<ExecError>,
    ended_before: Option<ExecError>,
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
pub(crate) struct Sleeper {
    thread: OnceLock<Thread>,
    /// Beside the token of `park`, which code of the user's that runs on the thread may use up.
    rung: AtomicBool,
}

impl Sleeper {
    /// Called by the thread itself, first thing.
    pub(crate) fn settle(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// Whether it is the thread that calls.
    pub(crate) fn is_current(&self) -> bool {
        let thread = self.thread.get();
        thread.is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    /// Sleeps until somebody wakes it, at most so long; at once where somebody has since it last woke.
    pub(crate) fn sleep(&self, most: Option<Duration>) {
        // No code of the user's runs between the look and the sleep, so the token of whoever rings in between is there.
        if !self.rung.load(Ordering::Acquire) {
            most.map_or_else(std::thread::park, std::thread::park_timeout);
        }
        // Acquire: what was done before it rang is seen by the looks that follow.
        self.rung.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        // Before it has begun there is nothing to wake: its first look sees everything.
        if let Some(thread) = self.thread.get() {
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
                generation: 0,
                watched: None,
                broken: None,
                ended_before: None,
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
}

impl<I, O, In, Out> State<I, O, In, Out> {
    /// Whether an execution should begin.
    fn is_ready(&self, now: Moment) -> bool {
        match self.queue.ready(now) {
            Ready::Now => true,
            Ready::At(_) => self.phase == Phase::Draining,
            Ready::Empty => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs on the thread may park there too, as a channel of the standard library does, and use up the token.
    #[test]
    fn a_ring_is_not_lost_with_the_token_of_park() {
        let sleeper = Arc::new(Sleeper::default());
        sleeper.settle();
        Arc::clone(&sleeper).wake();
        std::thread::park();
        sleeper.sleep(None);
        sleeper.sleep(Some(Duration::from_millis(1)));
        sleeper.wake_by_ref();
        sleeper.sleep(None);
    }
}
