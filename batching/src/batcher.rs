//! The batcher: the handle of clients and owners, and the life of its thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_compiler::{ExecError, Graph};

use crate::continuous::Continuous;
use crate::dynamic::Dynamic;
use crate::error::{BatchError, BatcherError, Refused};
use crate::graph_slot::GraphSlot;
use crate::options::{Batching, SubmitOptions};
use crate::queue::Moment;
use crate::sequence::Sequence;
use crate::shared::{Phase, Shared};
use crate::stats::Stats;
use crate::ticket::Ticket;

/// The time limit for the end of the thread, after it was told to end. Only user code (a method of an inline actor) can
/// delay it.
const END_MAX: Duration = Duration::from_secs(5);

/// The work of a batcher's thread, apart from sleeping.
pub(crate) trait Work {
    type Item;
    type Output;
    type In: 'static;
    type Out: 'static;

    /// Does all work that is possible now. Returns the moment at which the thread has to wake without being rung
    /// (`None`: no such moment), and whether there is room for more items.
    fn turn(
        &mut self,
        shared: &Shared<Self::Item, Self::Output>,
        graph: &GraphSlot<Self::In, Self::Out>,
        now: Moment,
    ) -> (Option<Moment>, bool);

    /// Returns the number of items that the thread holds.
    fn held(&self) -> usize;

    /// Drops the held items, one by one.
    fn let_go(self);
}

type CostOf<I> = Box<dyn Fn(&I) -> usize + Send + Sync>;

/// Combines the requests of many clients into executions of a graph.
///
/// [`new`](Self::new) is dynamic batching: each item is in one execution. [`continuous`](Self::continuous) is continuous
/// batching: each item is a [`Sequence`] that stays for many steps. Any number of threads and tasks may submit.
///
/// Dropping the batcher answers all open tickets with [`BatchError::Closed`], ends its thread and tears the graph down.
pub struct Batcher<I, O, In = Vec<I>, Out = Vec<O>> {
    shared: Arc<Shared<I, O>>,
    graph: Arc<GraphSlot<In, Out>>,
    cost_of: CostOf<I>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A batcher of sequences.
pub type ContinuousBatcher<S> =
    Batcher<S, <S as Sequence>::Output, <S as Sequence>::Step, <S as Sequence>::Answers>;

impl<I: Clone + Send + 'static, O: Send + 'static> Batcher<I, O> {
    /// Creates a batcher for dynamic batching. The graph gives one answer for each item, in order. If the answers are
    /// `Result`s, a bad item fails alone; otherwise see [`Batching::retries`].
    ///
    /// # Errors
    /// [`BatcherError`]: an option lets no item through or has no effect, or the system cannot start the thread.
    pub fn new(graph: Graph<Vec<I>, Vec<O>>, options: Batching) -> Result<Self, BatcherError> {
        Batcher::with_cost(graph, options, |_| 1)
    }

    /// Creates a batcher as [`new`](Self::new) does, with a cost for each item (the length of a text, for example).
    /// [`Batching::max_cost`] limits the cost of an execution.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_cost(
        graph: Graph<Vec<I>, Vec<O>>,
        options: Batching,
        cost_of: impl Fn(&I) -> usize + Send + Sync + 'static,
    ) -> Result<Self, BatcherError> {
        options.check_items()?;
        let inflight = options.max_inflight.unwrap_or(2);
        let work = move |shared: &Shared<I, O>| Dynamic::new(inflight, Arc::clone(shared.sleeper()).into());
        Batcher::start(graph, options, Box::new(cost_of), work)
    }
}

impl<S: Sequence> Batcher<S, S::Output, S::Step, S::Answers> {
    /// Creates a batcher for continuous batching. The graph makes one step for all members at once.
    ///
    /// # Errors
    /// The errors of [`new`](Batcher::new).
    pub fn continuous(graph: Graph<S::Step, S::Answers>, options: Batching) -> Result<Self, BatcherError> {
        options.check_sequences()?;
        let inflight = options.max_inflight.unwrap_or(1);
        let work = move |shared: &Shared<S, S::Output>| {
            Continuous::new(inflight, &shared.options, Arc::clone(shared.sleeper()).into())
        };
        // The cost in the queue is 0, so no sequence is refused: a sequence that exceeds a step is cut into pieces.
        Batcher::start(graph, options, Box::new(|_| 0), work)
    }
}

impl<I, O, In, Out> Batcher<I, O, In, Out>
where
    I: Send + 'static,
    O: Send + 'static,
    In: 'static,
    Out: 'static,
{
    fn start<W: Work<Item = I, Output = O, In = In, Out = Out>>(
        graph: Graph<In, Out>,
        options: Batching,
        cost_of: CostOf<I>,
        work: impl FnOnce(&Shared<I, O>) -> W + Send + 'static,
    ) -> Result<Self, BatcherError> {
        options.check()?;
        let name = options.name.clone();
        let (shared, graph) = (Arc::new(Shared::new(options)), Arc::new(GraphSlot::new(graph)));
        let (its, its_graph) = (Arc::clone(&shared), Arc::clone(&graph));
        let thread = thread::Builder::new().name(name).spawn(move || {
            its.sleeper().settle();
            let held = AtomicUsize::new(0);
            // The batcher's own code does not panic. If it does nevertheless, `end` still answers every item.
            let _ = BatchError::catch("the batcher", || serve(&its, &its_graph, work(&its), &held));
            its.end(held.into_inner());
        })?;
        Ok(Batcher {
            shared,
            graph,
            cost_of,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Submits an item. A refusal becomes the ticket's answer; [`try_submit`](Self::try_submit) returns the item
    /// instead.
    pub fn submit(&self, item: I) -> Ticket<O> {
        self.submit_with(item, SubmitOptions::new())
    }

    /// Submits an item with a priority or a deadline. A refusal becomes the ticket's answer.
    pub fn submit_with(&self, item: I, options: SubmitOptions) -> Ticket<O> {
        self.try_submit(item, options)
            .unwrap_or_else(|refused| Ticket::refused(refused.error))
    }

    /// Submits an item if the batcher accepts it.
    ///
    /// # Errors
    /// [`BatchError::Overloaded`], [`BatchError::TooLarge`], [`BatchError::Closed`], [`BatchError::Panicked`] if the
    /// cost function panicked, and [`BatchError::Failed`] if the graph has ended (see [`Batching::on_broken`]).
    /// [`Refused`] contains the item.
    pub fn try_submit(&self, item: I, options: SubmitOptions) -> Result<Ticket<O>, Refused<I>> {
        let max_cost = self.shared.options.max_cost;
        match BatchError::catch("the cost function", || (self.cost_of)(&item)) {
            Err(error) => Err(Refused { value: item, error }),
            Ok(cost) if cost > max_cost => {
                let error = BatchError::TooLarge { cost, max_cost };
                Err(Refused { value: item, error })
            }
            Ok(cost) => self.shared.submit(item, cost, options),
        }
    }

    /// Returns the counters of the batcher: its work so far and the items that it holds.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Returns the graph, for inspection. Executions that other code starts on this graph take capacity away from the
    /// batcher: items for which no capacity is left are answered with [`ExecError::CapacityExceeded`].
    pub fn graph(&self) -> Option<Arc<Graph<In, Out>>> {
        self.graph.graph()
    }

    /// Returns the cause of the graph's end, if the graph has ended.
    pub fn broken(&self) -> Option<ExecError> {
        self.shared.broken()
    }

    /// Returns a ticket that is answered with the cause when the graph has ended (at once if it has ended already), or
    /// with [`BatchError::Closed`] when the batcher ends. A supervisor of the graph waits for this ticket, then
    /// compiles another graph and calls [`replace`](Self::replace).
    pub fn breakage(&self) -> Ticket<ExecError> {
        self.shared.breakage()
    }

    /// Returns a ticket that is answered with the error of an execution that did not end within
    /// [`Batching::timeout`] (at once if one still occupies the graph), or with [`BatchError::Closed`] when the batcher
    /// ends. A supervisor of the graph waits for this ticket too: a method that never returns does not end the graph,
    /// and occupies its place in it for ever. The error, [`ExecError::Timeout`], names the actors that the execution
    /// waits for. Whether a client still waits for the answer makes no difference.
    pub fn overdue(&self) -> Ticket<ExecError> {
        self.shared.overdue()
    }

    /// Replaces the graph. The old graph is torn down in this call, unless somebody else owns it ([`graph`](Self::graph)); the
    /// items that it was executing are answered with the reason.
    pub fn replace(&self, graph: Graph<In, Out>) {
        if let Some(old) = self.graph.replace(graph, &self.shared) {
            old.let_go();
        }
    }

    /// Closes the batcher: refuses new items, executes the accepted ones for at most `within`, and answers the rest
    /// with [`BatchError::Closed`]. Returns the number of items in the rest. The graph is torn down with the batcher.
    ///
    /// Code that runs on the batcher's own thread (a waker, a sequence) cannot wait here: all open tickets are answered
    /// with [`BatchError::Closed`] when that code returns, and the returned number is 0.
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
    /// Ends the thread now. A thread that is delayed by an inline method is left to end by itself.
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

/// Runs the thread's loop: does all possible work, then sleeps until a ring or the clock brings new work.
fn serve<W: Work>(
    shared: &Shared<W::Item, W::Output>,
    graph: &GraphSlot<W::In, W::Out>,
    mut work: W,
    held: &AtomicUsize,
) {
    loop {
        let now = shared.now();
        shared.expire();
        let (wakes_at, room) = work.turn(shared, graph, now);
        // Relaxed: the same thread reads the number.
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
        // The graph is torn down here, and not on a thread that drops the last ticket.
        if let Some(graph) = self.graph.release() {
            graph.let_go();
        }
    }
}

impl<I, O, In, Out> std::fmt::Debug for Batcher<I, O, In, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}
