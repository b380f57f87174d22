//! Options of a batcher, and of a submitted item.

use std::time::{Duration, Instant};

use crate::error::BatcherError;

/// The treatment of waiting items when the graph has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnBroken {
    /// Waiting items are answered with the cause, and so are items that are submitted before there is a new graph.
    #[default]
    Fail,
    /// Waiting items stay in the queue until [`Batcher::replace`](crate::Batcher::replace), each until its deadline. An
    /// item whose deadline passes has [expired](crate::BatchError::Expired).
    Keep,
}

/// Options of a batcher: a builder with a default for every option.
#[derive(Clone, Debug)]
#[must_use]
pub struct Batching {
    pub(crate) name: String,
    pub(crate) max_size: usize,
    max_delay: Option<Duration>,
    pub(crate) max_cost: usize,
    pub(crate) step_goal: Option<Duration>,
    pub(crate) queue: usize,
    /// `None` for the usual number of the batcher's kind.
    pub(crate) max_inflight: Option<usize>,
    pub(crate) max_wait: Duration,
    pub(crate) timeout: Duration,
    max_stay: Option<Duration>,
    pub(crate) ageing: Duration,
    retries: Option<u32>,
    pub(crate) on_broken: OnBroken,
}

impl Default for Batching {
    fn default() -> Self {
        Batching {
            name: "selvedge-batch".into(),
            max_size: 32,
            max_delay: None,
            max_cost: usize::MAX,
            step_goal: None,
            queue: 1024,
            max_inflight: None,
            max_wait: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            max_stay: None,
            ageing: Duration::from_secs(1),
            retries: None,
            on_broken: OnBroken::Fail,
        }
    }
}

impl Batching {
    /// Returns the default options.
    pub fn new() -> Self {
        Batching::default()
    }

    /// Sets the name of the batcher's thread.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the maximum number of items in one execution; default 32, at least 1. For sequences: the maximum number of
    /// members at once, which is the number of slots.
    pub fn max_size(mut self, items: usize) -> Self {
        self.max_size = items;
        self
    }

    /// Sets the time that the oldest item waits for others; default 0, which takes the items that are there. It must be
    /// shorter than [`max_wait`](Self::max_wait). Sequences never wait for others, so their batcher refuses the option.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = Some(delay);
        self
    }

    /// Sets the maximum cost of one execution; default without limit, at least 1. An item above it is refused. For sequences: the
    /// budget of a step, at least 1 for each slot; a sequence that costs more is cut into pieces.
    pub fn max_cost(mut self, cost: usize) -> Self {
        self.max_cost = cost;
        self
    }

    /// For sequences: sets the time that a step should take while there are several of them; default without a goal. The batcher
    /// cuts the cost of a step, below [`max_cost`](Self::max_cost), to the cost that recent steps have processed in
    /// this time, so that a long sequence delays the others no longer. A goal is not a guarantee: the first steps are
    /// trials, and each sequence gets at least 1.
    pub fn step_goal(mut self, goal: Duration) -> Self {
        self.step_goal = Some(goal);
        self
    }

    /// Sets the maximum number of waiting items; default 1024, at least 1. An item that finds the queue full is refused
    /// at once.
    pub fn queue(mut self, items: usize) -> Self {
        self.queue = items;
        self
    }

    /// Sets the number of executions in flight at once, at least 1, at most as many as the graph allows. Default 2 (one
    /// computes, the next is ready); for sequences 1. For sequences on a graph that is a pipeline, set one execution for each
    /// stage: the members then form as many groups.
    pub fn max_inflight(mut self, executions: usize) -> Self {
        self.max_inflight = Some(executions);
        self
    }

    /// Sets the time that an item may wait for its execution; default 30 s. An item's own deadline may be sooner.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets the time limit of an item's execution, retries included; default 10 s. For sequences: the time limit of a
    /// step.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// For sequences: sets the time that one may stay, from its admission to a slot on; default 10 minutes.
    pub fn max_stay(mut self, stay: Duration) -> Self {
        self.max_stay = Some(stay);
        self
    }

    /// Sets the waiting time that one level of priority is worth; default 1 s. An item goes before items of lower
    /// priority, except before an item that has waited longer by this time for each level between them. So no item
    /// starves.
    pub fn ageing(mut self, level: Duration) -> Self {
        self.ageing = level;
        self
    }

    /// Sets the maximum number of further executions that search the bad items of one batch; default 32. When a task
    /// fails, the batch is divided into halves that are executed again, until the bad item stands alone: `n` items with
    /// one bad item take 2 log2 n. When these executions are used up, the items that are still undivided are answered
    /// with the error. With 0, no item is executed twice, and no item is cloned. A step of sequences is never executed twice, so their batcher
    /// refuses the option.
    pub fn retries(mut self, executions: u32) -> Self {
        self.retries = Some(executions);
        self
    }

    /// Sets the treatment of waiting items when the graph has ended; default [`OnBroken::Fail`].
    pub fn on_broken(mut self, on_broken: OnBroken) -> Self {
        self.on_broken = on_broken;
        self
    }

    pub(crate) fn delay(&self) -> Duration {
        self.max_delay.unwrap_or_default()
    }

    pub(crate) fn stay(&self) -> Duration {
        self.max_stay.unwrap_or(Duration::from_secs(600))
    }

    pub(crate) fn retry_count(&self) -> u32 {
        self.retries.unwrap_or(32)
    }

    /// Refuses options of sequences, for a batcher of items.
    pub(crate) fn check_items(&self) -> Result<(), BatcherError> {
        let options = [
            ("step_goal", self.step_goal.is_some()),
            ("max_stay", self.max_stay.is_some()),
        ];
        without_effect(
            options,
            "each item has one execution: use `Batcher::continuous`, or leave it out",
        )
    }

    /// Refuses options of single items, for a batcher of sequences.
    pub(crate) fn check_sequences(&self) -> Result<(), BatcherError> {
        let options = [
            ("max_delay", self.max_delay.is_some()),
            ("retries", self.retries.is_some()),
        ];
        without_effect(
            options,
            "a step waits for no sequence, and is not executed twice: leave it out",
        )
    }

    /// Refuses limits that would let no item through, and a name that no thread can have.
    pub(crate) fn check(&self) -> Result<(), BatcherError> {
        let limits = [
            ("max_size", self.max_size),
            ("max_cost", self.max_cost),
            ("queue", self.queue),
            ("max_inflight", self.max_inflight.unwrap_or(1)),
        ];
        if let Some((option, _)) = limits.into_iter().find(|(_, limit)| *limit == 0) {
            return Err(BatcherError::Zero { option });
        }
        let (delay, wait) = (self.delay(), self.max_wait);
        if !delay.is_zero() && delay >= wait {
            return Err(BatcherError::DelayTooLong { delay, wait });
        }
        if self.name.contains('\0') {
            let name = self.name.clone();
            return Err(BatcherError::Name { name });
        }
        Ok(())
    }
}

/// Refuses the first option that was set.
fn without_effect(options: [(&'static str, bool); 2], reason: &'static str) -> Result<(), BatcherError> {
    match options.into_iter().find(|(_, is_set)| *is_set) {
        Some((option, _)) => Err(BatcherError::OptionWithoutEffect { option, reason }),
        None => Ok(()),
    }
}

/// The priority and the deadline of a submitted item.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct SubmitOptions {
    pub(crate) priority: i32,
    pub(crate) deadline: Option<Instant>,
}

impl SubmitOptions {
    /// Returns priority 0 and no deadline except [`Batching::max_wait`].
    pub fn new() -> Self {
        SubmitOptions::default()
    }

    /// Sets the priority. Items of higher priority go first; items of equal priority go in order of arrival. See
    /// [`Batching::ageing`].
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the deadline. An item whose execution has not begun by then is answered with
    /// [`BatchError::Expired`](crate::BatchError::Expired); a sequence leaves before the next step.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }
}
