//! What a batcher may be told.

use std::time::{Duration, Instant};

/// What becomes of the items that wait when the graph has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBroken {
    /// They are answered with the cause, and so is whatever is submitted before there is a new graph.
    #[default]
    Fail,
    /// They wait for [`Batcher::replace`](crate::Batcher::replace), each until its deadline; then it has
    /// [expired](crate::BatchError::Expired).
    Keep,
}

/// Options of a batcher; a builder with a default for everything.
#[derive(Clone, Debug)]
#[must_use]
pub struct Batching {
    pub(crate) name: String,
    pub(crate) max_size: usize,
    pub(crate) max_delay: Duration,
    pub(crate) max_cost: usize,
    pub(crate) step_goal: Option<Duration>,
    pub(crate) queue: usize,
    pub(crate) max_inflight: usize,
    pub(crate) max_wait: Duration,
    pub(crate) timeout: Duration,
    pub(crate) max_stay: Duration,
    pub(crate) ageing: Duration,
    pub(crate) retries: u32,
    pub(crate) on_broken: OnBroken,
}

impl Default for Batching {
    fn default() -> Self {
        Batching {
            name: "selvedge-batch".into(),
            max_size: 32,
            max_delay: Duration::ZERO,
            max_cost: usize::MAX,
            step_goal: None,
            queue: 1024,
            max_inflight: 0,
            max_wait: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            max_stay: Duration::from_secs(600),
            ageing: Duration::from_secs(1),
            retries: 32,
            on_broken: OnBroken::Fail,
        }
    }
}

impl Batching {
    /// The defaults.
    pub fn new() -> Self {
        Batching::default()
    }

    /// Name of the batcher's thread.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Items of one execution at most; default 32, at least 1. For sequences: members at once, which is the number of slots.
    pub fn max_size(mut self, items: usize) -> Self {
        self.max_size = items.max(1);
        self
    }

    /// How long the oldest item waits for others to come; default 0, which takes what is there. Sequences never wait for
    /// others.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Cost of one execution at most; default without limit. An item above it is refused. For sequences: the budget of a step,
    /// at least 1 for each slot; what costs more is cut in pieces.
    pub fn max_cost(mut self, cost: usize) -> Self {
        self.max_cost = cost.max(1);
        self
    }

    /// How long a step should take while there are several sequences; default without a goal. What they ask for is cut, below
    /// [`max_cost`](Self::max_cost), to what steps of late have done in this time, so that a long one holds the others up no longer.
    /// A goal is no promise: the first steps are tries, and each sequence gets at least 1.
    pub fn step_goal(mut self, goal: Duration) -> Self {
        self.step_goal = Some(goal);
        self
    }

    /// Items that may wait; default 1024, at least 1. What comes when so many wait is refused at once.
    pub fn queue(mut self, items: usize) -> Self {
        self.queue = items.max(1);
        self
    }

    /// Executions under way at once, at most as many as the graph allows. Default 2 (one computes, the next is ready); for
    /// sequences 1, and where the graph is a pipeline one for each stage: the members then form so many groups.
    pub fn max_inflight(mut self, executions: usize) -> Self {
        self.max_inflight = executions;
        self
    }

    /// How long an item may wait to be executed; default 30 s. An item's own deadline may be sooner.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// How long an item's execution may take, further tries included; default 10 s. For sequences: a step.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a sequence may stay, from its first step on; default 10 minutes.
    pub fn max_stay(mut self, stay: Duration) -> Self {
        self.max_stay = stay;
        self
    }

    /// How much waiting one level of priority is worth; default 1 s. An item goes before those of lower priority, except before
    /// one that has waited longer by this much for each level between them: nothing starves.
    pub fn ageing(mut self, level: Duration) -> Self {
        self.ageing = level;
        self
    }

    /// Further executions to find the bad items of one batch; default 32. When a task fails, the batch is divided in halves that
    /// are executed again, until the bad item stands alone: `n` items with one bad one take 2 log2 n. What is undivided when
    /// these are used up is answered with the error. 0 never executes anything twice, and spares a clone of each item.
    pub fn retries(mut self, executions: u32) -> Self {
        self.retries = executions;
        self
    }

    /// What becomes of the items that wait when the graph has ended; default [`OnBroken::Fail`].
    pub fn on_broken(mut self, on_broken: OnBroken) -> Self {
        self.on_broken = on_broken;
        self
    }
}

/// On which terms an item is submitted.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Terms {
    pub(crate) priority: i32,
    pub(crate) deadline: Option<Instant>,
}

impl Terms {
    /// Priority 0, no deadline but [`Batching::max_wait`].
    pub fn new() -> Self {
        Terms::default()
    }

    /// Higher goes first; within one, first come, first served. See [`Batching::ageing`].
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// An item that is not being executed by then is answered [`BatchError::Expired`](crate::BatchError::Expired); a sequence
    /// leaves before the next step.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }
}
