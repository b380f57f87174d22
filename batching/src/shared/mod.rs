//! The state that clients and the batcher's thread share: the queue, the end of the graph, and the wake-up of the thread.
//!
//! The lock is held briefly, and never while user code runs: values are dropped and tickets answered after its release.
//! A caller that changes something the thread has to know rings the thread afterwards, and the thread checks everything
//! after each ring.

mod clients;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_compiler::ExecError;

use crate::error::BatchError;
use crate::options::Batching;
use crate::queue::{Moment, Queue, Ready};
use crate::stats::{Rate, Stats};
use crate::ticket::TicketPromise;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Accepted items are executed, new items are refused.
    Draining,
    Closed,
}

/// Answers tickets that wait for an event of the graph.
pub(crate) fn tell(watchers: Vec<TicketPromise<ExecError>>, error: &ExecError) {
    for watcher in watchers {
        watcher.keep(Ok(error.clone()));
    }
}

/// An item and the promise of its answer.
pub(crate) struct Entry<I, O> {
    pub(crate) item: I,
    pub(crate) promise: TicketPromise<O>,
    /// The client's own deadline; [`Batching::max_wait`] limits the time in the queue only.
    pub(crate) deadline: Option<Moment>,
}

/// An answer and the promise that it is for.
pub(crate) type Answer<O> = (TicketPromise<O>, Result<O, BatchError>);

struct SharedState<I, O> {
    queue: Queue<Entry<I, O>>,
    phase: Phase,
    /// The causes that ended this graph and the one before it.
    broken: Option<ExecError>,
    ended_before: Option<ExecError>,
    watchers: Vec<TicketPromise<ExecError>>,
    /// The error of an execution that is overdue on this graph.
    overdue: Option<ExecError>,
    overdue_watchers: Vec<TicketPromise<ExecError>>,
    stats: Stats,
    rate: Rate,
    /// Whether the thread could begin an execution, and the moment at which it will wake.
    hungry: bool,
    wakes_at: Option<Moment>,
    ended: bool,
    /// The number of items without an answer when the thread ended.
    left: usize,
}

pub(crate) struct Shared<I, O> {
    began: Instant,
    pub(crate) options: Batching,
    state: Mutex<SharedState<I, O>>,
    ended: Condvar,
    thread: Arc<Sleeper>,
}

/// The waker of the batcher's thread. Executions hold it too.
#[derive(Default)]
pub(crate) struct Sleeper {
    thread: OnceLock<Thread>,
    /// Set by each ring, beside the token of `park`: user code on the thread may use up the token.
    rung: AtomicBool,
}

impl Sleeper {
    /// Stores the current thread as the thread to wake. The thread calls this first.
    pub(crate) fn settle(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// True if the caller is the batcher's thread.
    pub(crate) fn is_current(&self) -> bool {
        let thread = self.thread.get();
        thread.is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    /// Sleeps until a ring, for at most `most`. Returns at once if there was a ring since the last sleep.
    pub(crate) fn sleep(&self, most: Option<Duration>) {
        // Acquire: pairs with the store of `wake_by_ref`. No user code runs between the load and the sleep, so the token
        // of a ring in between is still there.
        if !self.rung.load(Ordering::Acquire) {
            most.map_or_else(std::thread::park, std::thread::park_timeout);
        }
        // Acquire: the checks that follow see all changes that were made before the ring.
        self.rung.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the checks after the thread's next Acquire of this flag see all changes before the ring.
        self.rung.store(true, Ordering::Release);
        // Before the thread has begun, no wake-up is needed: its first check sees everything.
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl<I, O> Shared<I, O> {
    pub(crate) fn new(options: Batching) -> Self {
        Shared {
            began: Instant::now(),
            state: Mutex::new(SharedState {
                queue: Queue::new(&options),
                phase: Phase::Open,
                broken: None,
                ended_before: None,
                watchers: Vec::new(),
                overdue: None,
                overdue_watchers: Vec::new(),
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

    /// Returns the time until `moment`.
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

    /// Changes the counters.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.state.lock().stats);
    }

    /// Records that `items` items took the time `took`.
    pub(crate) fn went_through(&self, items: usize, took: Duration) {
        self.state.lock().rate.record(items, took);
    }
}

impl<I, O> SharedState<I, O> {
    /// True if an execution should begin now.
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

    /// Code on the thread may park too, as a channel of the standard library does, and use up the token.
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
