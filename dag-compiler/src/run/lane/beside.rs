//! Records of tasks whose methods overlap: an `async fn` with `&self`, of an actor with a concurrency of more than 1.
//! `posted.rs` runs them.

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_channels::Fault;
use selvedge_core::{Cancellation, Executions, FlightId, Overlap, Sharing};

/// The number of results of one task that may wait for an earlier one, for each method that may be in flight.
const WINDOW: usize = 4;

/// The record of a task that runs beside others of its actor, or waits until it may run alone.
pub(crate) struct Beside {
    sharing: Sharing,
    /// True if the lane goes on while the method is in flight: no task of the lane reads the result.
    goes_on: bool,
    /// The number of executions that may be in the queue.
    window: usize,
    /// The executions whose results are not written, oldest first.
    queue: VecDeque<PostedExecution>,
    /// The executions of the lane, for the methods' tokens.
    executions: Arc<dyn Executions>,
}

/// One execution of a posted task.
pub(super) struct PostedExecution {
    pub(super) execution: u64,
    pub(super) state: PostedState,
}

pub(super) enum PostedState {
    /// The method is in flight.
    Flying(FlightId),
    /// The fault that takes the place of the result.
    Faulty(Fault),
    /// The result or the fault is staged in the task's outlets.
    Staged,
}

impl Beside {
    /// The record of a task whose method has this sharing; `None` if the method runs at any time, to its end.
    pub(crate) fn of(
        sharing: Sharing,
        concurrency: u32,
        goes_on: bool,
        executions: Arc<dyn Executions>,
    ) -> Option<Box<Self>> {
        if concurrency < 2 || matches!(sharing, Sharing::Shared) {
            return None;
        }
        let beside = Beside {
            sharing,
            goes_on,
            window: (concurrency as usize).saturating_mul(WINDOW),
            queue: VecDeque::new(),
            executions,
        };
        Some(Box::new(beside))
    }

    /// The functions of the method, if it overlaps with others.
    pub(super) fn overlap(&self) -> Option<Overlap> {
        match self.sharing {
            Sharing::Overlapping(overlap) => Some(overlap),
            Sharing::Exclusive | Sharing::Shared => None,
        }
    }

    /// The token of an execution's method.
    pub(super) fn cancellation(&self, execution: u64) -> Cancellation {
        Cancellation::of_execution(Arc::clone(&self.executions), execution)
    }

    /// Adds a method that has begun.
    pub(super) fn push_flight(&mut self, execution: u64, flight: FlightId) {
        let state = PostedState::Flying(flight);
        self.queue.push_back(PostedExecution { execution, state });
    }

    /// Adds the fault of an execution in which the method does not run.
    pub(super) fn push_fault(&mut self, execution: u64, fault: Fault) {
        let state = PostedState::Faulty(fault);
        self.queue.push_back(PostedExecution { execution, state });
    }

    /// Whether a posted task holds up the lane until it is written.
    pub(super) fn holds_up(&self) -> bool {
        !self.goes_on && !self.queue.is_empty()
    }

    /// Whether a further method may begin, as far as the queue decides.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.window
    }

    /// The sharing of the method.
    pub(super) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The executions whose results are not written, oldest first.
    pub(super) fn queue(&mut self) -> &mut VecDeque<PostedExecution> {
        &mut self.queue
    }

    /// The oldest execution whose result is not written.
    pub(super) fn oldest(&self) -> Option<u64> {
        Some(self.queue.front()?.execution)
    }
}
