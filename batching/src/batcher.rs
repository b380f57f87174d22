//! A batcher: what clients and owners hold, and the life of its thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_compiler::{ExecError, Graph};

use crate::contained::contained;
use crate::continuous::{self, Continuous};
use crate::dynamic::{self, Dynamic};
use crate::error::{BatchError, Refused};
use crate::options::{Batching, Terms};
use crate::queue::Moment;
use crate::sequence::Sequence;
use crate::shared::{Phase, Shared};
use crate::stats::Stats;
use crate::ticket::Ticket;

/// How long a thread that was told to end is waited for. Only code of the user's can hold it up: an inline actor's method.
const END_MAX: Duration = Duration::from_secs(5);

/// What the thread of a batcher does, apart from sleeping.
pub(crate) trait Work<I, O, In, Out> {
    /// Does what can be done now; the moment at which it has to wake for reasons of its own, and whether it has room for more.
    fn turn(&mut self, shared: &Shared<I, O, In, Out>, now: Moment) -> (Option<Moment>, bool);

    /// Items that it holds.
    fn held(&self) -> usize;

    /// Drops them, one by one.
    fn let_go(self);
}

type CostOf<I> = Box<dyn Fn(&I) -> usize + Send + Sync>;

/// Puts the requests of many clients together into executions of a graph.
///
/// [`new`](Self::new) is dynamic batching: each item is in one execution. [`continuous`](Self::continuous) is continuous
/// batching: each item is a [`Sequence`] that stays for many steps. Any number of threads and tasks may submit.
///
/// Dropping it answers everybody [`BatchError::Closed`], ends its thread and tears the graph down.
pub struct Batcher<I, O, In = Vec<I>, Out = Vec<O>> {
    shared: Arc<Shared<I, O, In, Out>>,
    cost_of: CostOf<I>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A batcher of sequences.
pub type ContinuousBatcher<S> =
    Batcher<S, <S as Sequence>::Output, <S as Sequence>::Step, <S as Sequence>::Answers>;

impl<I: Clone + Send + 'static, O: Send + 'static> Batcher<I, O> {
    /// Dynamic batching in front of a graph that gives one answer for each item, in order. Where the answers are `Result`s, a
    /// bad item is its own affair; otherwise see [`Batching::retries`].
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub fn new(graph: Graph<Vec<I>, Vec<O>>, options: Batching) -> io::Result<Self> {
        Batcher::with_cost(graph, options, |_| 1)
    }

    /// The same with a cost for each item, for [`Batching::max_cost`]: the length of a text, say.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_cost(
        graph: Graph<Vec<I>, Vec<O>>,
        options: Batching,
        cost_of: impl Fn(&I) -> usize + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let inflight = inflight(&options, 2);
        let work = move |shared: &Arc<dynamic::Front<I, O>>| {
            Dynamic::new(inflight, Arc::clone(shared.sleeper()).into())
        };
        Batcher::start(graph, options, Box::new(cost_of), work)
    }
}

impl<S: Sequence> Batcher<S, S::Output, S::Step, S::Answers> {
    /// Continuous batching in front of a graph that makes one step for all members at once.
    ///
    /// # Errors
    /// As [`new`](Batcher::new).
    pub fn continuous(graph: Graph<S::Step, S::Answers>, options: Batching) -> io::Result<Self> {
        let inflight = inflight(&options, 1);
        let options = options.max_delay(Duration::ZERO);
        let work = move |shared: &Arc<continuous::Front<S>>| {
            Continuous::new(inflight, &shared.options, Arc::clone(shared.sleeper()).into())
        };
        // What is longer than a step is cut, not refused.
        Batcher::start(graph, options, Box::new(|_| 0), work)
    }
}

/// As many executions as asked for, else as usual.
fn inflight(options: &Batching, usual: usize) -> usize {
    match options.max_inflight {
        0 => usual,
        asked => asked,
    }
}

impl<I, O, In, Out> Batcher<I, O, In, Out>
where
    I: Send + 'static,
    O: Send + 'static,
    In: 'static,
    Out: 'static,
{
    fn start<W: Work<I, O, In, Out>>(
        graph: Graph<In, Out>,
        options: Batching,
        cost_of: CostOf<I>,
        work: impl FnOnce(&Arc<Shared<I, O, In, Out>>) -> W + Send + 'static,
    ) -> io::Result<Self> {
        let name = options.name.clone();
        let shared = Arc::new(Shared::new(options, graph));
        let its = Arc::clone(&shared);
        let thread = thread::Builder::new().name(name).spawn(move || {
            its.sleeper().settle();
            let held = AtomicUsize::new(0);
            // Our own code does not panic; should it, everybody is answered nevertheless.
            let _ = contained("the batcher", || serve(&its, work(&its), &held));
            its.end(held.into_inner());
        })?;
        Ok(Batcher {
            shared,
            cost_of,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Submits an item. A refusal is the ticket's answer; [`try_submit`](Self::try_submit) gives the item back instead.
    pub fn submit(&self, item: I) -> Ticket<O> {
        self.submit_with(item, Terms::new())
    }

    /// The same, with a priority or a deadline.
    pub fn submit_with(&self, item: I, terms: Terms) -> Ticket<O> {
        self.try_submit(item, terms)
            .unwrap_or_else(|refused| Ticket::refused(refused.error))
    }

    /// Submits an item, if it is accepted.
    ///
    /// # Errors
    /// [`BatchError::Overloaded`], [`BatchError::TooLarge`], [`BatchError::Closed`], [`BatchError::Panicked`] where the cost
    /// function did, and [`BatchError::Failed`] where the graph has ended; the item comes back.
    pub fn try_submit(&self, item: I, terms: Terms) -> Result<Ticket<O>, Refused<I>> {
        let max_cost = self.shared.options.max_cost;
        match contained("the cost function", || (self.cost_of)(&item)) {
            Err(error) => Err(Refused { item, error }),
            Ok(cost) if cost > max_cost => {
                let error = BatchError::TooLarge { cost, max_cost };
                Err(Refused { item, error })
            }
            Ok(cost) => self.shared.submit(item, cost, terms),
        }
    }

    /// What it has done and holds.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The graph, to look at. Executions that do not come from the batcher take its room away: items for which none is left are
    /// answered [`ExecError::CapacityExceeded`].
    pub fn graph(&self) -> Option<Arc<Graph<In, Out>>> {
        self.shared.graph()
    }

    /// Why the graph has ended, if it has.
    pub fn broken(&self) -> Option<ExecError> {
        self.shared.broken()
    }

    /// Answered with the cause when the graph has ended, at once where it has; [`BatchError::Closed`] when the batcher ends. Who
    /// supervises the graph waits for it, then compiles another and calls [`replace`](Self::replace).
    pub fn breakage(&self) -> Ticket<ExecError> {
        self.shared.breakage()
    }

    /// Goes on with another graph. The old one is torn down in this call, unless somebody else holds it; what it was executing
    /// is answered with the reason.
    pub fn replace(&self, graph: Graph<In, Out>) {
        drop(self.shared.replace(Arc::new(graph)));
    }

    /// Accepts nothing more, executes what is there, for at most `within`, and answers the rest [`BatchError::Closed`]. Returns
    /// how many those were. The graph is torn down with the batcher.
    ///
    /// In code that the batcher's own thread runs (a waker, a sequence) it cannot wait: everybody is answered
    /// [`BatchError::Closed`] when that code returns, and the number is 0.
    pub fn close(&self, within: Duration) -> usize {
        self.shared.advance(Phase::Draining);
        let within = within.min(Duration::from_secs(100 * 365 * 24 * 3600));
        if !self.shared.sleeper().is_current() {
            self.shared.wait_ended(Instant::now() + within);
        }
        self.end();
        self.shared.left()
    }
}

impl<I, O, In, Out> Batcher<I, O, In, Out> {
    /// Ends the thread now. One that an inline method holds up is left to end by itself.
    fn end(&self) {
        self.shared.advance(Phase::Closed);
        let own = self.shared.sleeper().is_current();
        if own || !self.shared.wait_ended(Instant::now() + END_MAX) {
            return;
        }
        let thread = self.thread.lock().take();
        let _ = thread.map(JoinHandle::join);
    }
}

/// The thread's loop: do what can be done, sleep until somebody or the clock has something new.
fn serve<I, O, In, Out>(
    shared: &Shared<I, O, In, Out>,
    mut work: impl Work<I, O, In, Out>,
    held: &AtomicUsize,
) {
    loop {
        let now = shared.now();
        shared.expire();
        let (wakes_at, room) = work.turn(shared, now);
        held.store(work.held(), Ordering::Relaxed);
        match shared.phase() {
            Phase::Closed => break,
            Phase::Draining if work.held() == 0 && shared.is_idle() => break,
            _ => {}
        }
        let sleep = shared
            .rest(room, wakes_at, now)
            .map(|moment| shared.until(moment));
        if sleep != Some(Duration::ZERO) {
            shared.sleeper().sleep(sleep);
        }
    }
    work.let_go();
}

impl<I, O, In, Out> Drop for Batcher<I, O, In, Out> {
    fn drop(&mut self) {
        self.end();
        // Here, not where the last ticket happens to go.
        drop(self.shared.release());
    }
}

impl<I, O, In, Out> std::fmt::Debug for Batcher<I, O, In, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}
