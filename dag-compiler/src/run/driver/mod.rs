//! The driver's own lane: writes inputs, runs inline actors, and collects outputs into their leaves.
//!
//! The lane belongs to no thread. A thread that executes or waits takes the lock, moves all that can move, and releases
//! the lock. So a graph needs no thread of its own in the driver's process.

pub(crate) mod books;
pub(crate) mod leaf;
pub(crate) mod wakers;

use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Fault};
use selvedge_core::{Executions, Scope, within};

use crate::bind::ports::{Collected, InputPort, Take};
use crate::run::actor_set::Inline;
use crate::run::driver::books::{Books, NoRoom};
use crate::run::driver::leaf::Status;
use crate::run::driver::wakers::Wakers;
use crate::run::lane::{LaneError, LaneLoop, Moved, publish};
use crate::run::report::TaskInfo;

/// The driver's part of a running graph.
pub(crate) struct Driver {
    /// One port per leaf of the graph's input.
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) input_info: TaskInfo,
    pub(crate) lane: LaneLoop,
    /// The scope of the inline methods.
    scope: Scope,
    pub(crate) crew: Inline,
    /// Ports that no inline task shares. Each is collected as its values arrive, in any order among the ports.
    pub(crate) free_ports: Vec<usize>,
    /// The index of the only port, if its value is the graph's only output and can be taken where it arrives
    /// (`OutputPort::moves`).
    sole: Option<usize>,
    pub(crate) books: Books,
    pub(crate) wakers: Wakers,
}

impl Driver {
    pub(crate) fn new(
        inputs: Vec<InputPort>,
        input_info: TaskInfo,
        lane: LaneLoop,
        crew: Inline,
        free_ports: Vec<usize>,
        (max_inflight, max_buffered): (usize, usize),
    ) -> Self {
        let sole = match (lane.ports.as_slice(), free_ports.as_slice()) {
            ([port], [0]) if port.moves && port.leaves.len() == 1 && lane.leaves.len() == 1 => Some(0),
            _ => None,
        };
        Driver {
            inputs,
            input_info,
            scope: Scope::Lane(Arc::clone(&lane.wants) as Arc<dyn Executions>),
            lane,
            crew,
            free_ports,
            sole,
            books: Books::new(max_inflight, max_buffered),
            wakers: Wakers::default(),
        }
    }

    /// Whether one more execution may be submitted, by a quick check. If `false`, [`room`](Self::room) checks in full
    /// and says why.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        self.books.has_room() && self.inputs.iter_mut().all(InputPort::is_open)
    }

    /// Checks whether one more execution may be submitted (DAG-31, DAG-32).
    pub(crate) fn room(&mut self) -> Result<Result<(), NoRoom>, ChannelError> {
        let inflight = match self.books.room(&mut self.lane.leaves) {
            Ok(inflight) => inflight,
            Err(no_room) => return Ok(Err(no_room)),
        };
        let mut space = true;
        for port in &mut self.inputs {
            for outlet in port.outlets() {
                space = space && outlet.has_space()?;
            }
        }
        Ok(space.then_some(()).ok_or(NoRoom::Unread(inflight)))
    }

    /// The outlet of the graph's only input, if the value may go to its channel at once: as it is, and without user code.
    #[inline]
    pub(crate) fn sole_input(&mut self) -> Option<&mut dyn AnyOutlet> {
        match self.inputs.as_mut_slice() {
            [port] => port
                .sole()
                .filter(|outlet| outlet.only_moves() && outlet.within().is_none()),
            _ => None,
        }
    }

    /// Publishes the staged inputs; returns the number of the execution, which has no place in the books yet. The
    /// caller must call [`book`](Self::book) or [`take_at_once`](Self::take_at_once) before it releases the driver.
    #[inline]
    pub(crate) fn publish_inputs(&mut self) -> Result<u64, ChannelError> {
        let execution = self.books.submitted();
        for port in &mut self.inputs {
            let (info, values) = (&self.input_info, &mut self.lane.values);
            port.outlets()
                .try_for_each(|outlet| publish(outlet.as_mut(), info, execution, values))?;
        }
        Ok(self.books.sent())
    }

    /// Makes a place in the books, with one handle, for the last execution that was sent.
    #[inline]
    pub(crate) fn book(&mut self, execution: u64) {
        self.books.open(execution, 1, &mut self.lane.leaves);
        if self.lane.ports.is_empty() {
            self.count();
        }
        self.books.trim(&mut self.lane.leaves);
    }

    /// Moves everything that can move without waiting; `true` if anything moved.
    #[inline]
    pub(crate) fn pump(&mut self) -> Result<bool, LaneError> {
        let mut moved = false;
        let pumped = self
            .pump_tasks(&mut moved)
            .and_then(|()| self.pump_outputs(&mut moved));
        if moved {
            self.moved();
        }
        pumped.map(|()| moved)
    }

    /// Updates the counters and queues the wakers of waiting tasks, after something has moved.
    #[inline]
    fn moved(&mut self) {
        self.count();
        if self.wakers.is_awaited() {
            // A task may await some of an execution's outputs, and those of others are further behind.
            let collected = self.lane.ports.iter().map(|port| port.collected);
            let first_ahead = collected.max().unwrap_or(self.books.submitted());
            self.wakers.wake_before(first_ahead);
        }
    }

    /// Updates the counters after a port has collected.
    #[inline]
    fn count(&mut self) {
        let collected = self.lane.ports.iter().map(|port| port.collected);
        let finished = collected.min().unwrap_or(self.books.submitted());
        self.books.finish(finished);
    }

    /// Runs the tasks of inline actors.
    #[inline]
    fn pump_tasks(&mut self, moved: &mut bool) -> Result<(), LaneError> {
        let submitted = self.books.submitted();
        if self.lane.steps.is_empty() || self.lane.execution() >= submitted {
            return Ok(());
        }
        let (lane, crew) = (&mut self.lane, &mut self.crew);
        within(&self.scope, || {
            while lane.execution() < submitted {
                match lane.step(crew).map_err(|broken| broken.error)? {
                    Moved::Advanced => *moved = true,
                    Moved::Blocked => break,
                    // A peer closes its channels only after it was told that the graph has ended. So a close while the
                    // graph runs is an error.
                    Moved::Ended if lane.control.is_running() => {
                        return Err(LaneError::from(ChannelError::Closed));
                    }
                    Moved::Ended => break,
                }
            }
            Ok(())
        })?;
        if self.lane.execution() == submitted {
            // Every submitted execution is done, so no time-out may name the task that was computed last.
            self.lane.idles();
        }
        Ok(())
    }

    /// Collects the outputs that have arrived.
    #[inline]
    fn pump_outputs(&mut self, moved: &mut bool) -> Result<(), LaneError> {
        let submitted = self.books.submitted();
        for port in self.free_ports.iter().copied() {
            let behind = |lane: &LaneLoop| lane.ports.get(port).is_some_and(|it| it.collected < submitted);
            while behind(&self.lane) {
                match self.lane.collect(port)? {
                    Moved::Advanced => *moved = true,
                    Moved::Blocked | Moved::Ended => break,
                }
            }
        }
        Ok(())
    }

    /// Takes the result of `execution` where it arrives, before it is collected. This works if the execution is the
    /// next to be collected, its output is the graph's only one, and the value has arrived. Otherwise, and for a fault,
    /// returns `None` and changes nothing. The execution may be without a place in the books.
    #[inline(always)] // the last thing that `run` does, in one place
    pub(crate) fn take_at_once<Out>(
        &mut self,
        execution: u64,
        lengths: &[usize],
        take: Take<Out>,
    ) -> Option<Result<Out, Fault>> {
        let port = self.lane.ports.get_mut(self.sole?)?;
        let value = self.lane.values.get_mut(port.value)?;
        if port.collected != execution {
            return None;
        }
        let mut collected = Collected::at_once(value.as_mut(), lengths, execution);
        let taken = take(&mut collected);
        if !collected.has_taken() {
            return None;
        }
        port.collected += 1;
        self.books.pass(execution, &mut self.lane.leaves);
        self.moved();
        Some(taken)
    }

    /// Whether an execution may run from here to its result without a place in the books: no other execution has an
    /// entry in the window, no waker is registered or due, no task runs on this lane, and the graph has one output that
    /// can be taken where it arrives.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.books.is_idle()
            && self.sole.is_some()
            && self.lane.steps.is_empty()
            && !self.wakers.is_awaited()
            && !self.wakers.is_due()
    }

    /// The value of the graph's only output, if it can be taken where it arrives.
    #[inline]
    pub(crate) fn sole_output(&self) -> Option<&dyn AnyValue> {
        let port = self.lane.ports.get(self.sole?)?;
        Some(self.lane.values.get(port.value)?.as_ref())
    }

    /// Whether a message may have arrived, by a quick poll.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        !self.lane.steps.is_empty() || self.sole_output().is_none_or(|output| output.peek())
    }

    /// Registers a task to be woken when outputs arrive or when its deadline passes. `true` if its deadline is earlier
    /// than those of all others.
    pub(crate) fn register(&mut self, execution: u64, waker: &Waker, until: Option<Instant>) -> bool {
        if self.books.knows(execution) {
            return self.wakers.register(execution, waker, until);
        }
        self.wakers.wake_also([waker.clone()]);
        false
    }

    /// The status of the leaves `range` of an execution: that of the first leaf whose result is a fault or gone, else
    /// pending if any leaf is.
    pub(crate) fn status(&self, execution: u64, range: &Range<usize>) -> Status {
        let mut found = Status::Value;
        for leaf in self.lane.leaves.get(range.clone()).unwrap_or_default() {
            match leaf.status(execution) {
                Status::Pending => found = Status::Pending,
                Status::Value => {}
                first => return first,
            }
        }
        found
    }

    /// Removes a handle, with or without its result. `true` if it was the last handle and the execution is unfinished.
    pub(crate) fn close(&mut self, execution: u64, range: &Range<usize>) -> bool {
        for leaf in self.lane.leaves.get_mut(range.clone()).unwrap_or_default() {
            leaf.discard(execution);
        }
        self.close_taken(execution)
    }

    /// Removes a handle all of whose results have been taken. Returns what [`close`](Self::close) returns.
    #[inline]
    pub(crate) fn close_taken(&mut self, execution: u64) -> bool {
        let last = self.books.close(execution, &mut self.lane.leaves);
        if last {
            self.wakers.forget(execution);
        }
        last && execution >= self.books.finished()
    }

    /// Closes the channels of the driver's lane and wakes every task.
    pub(crate) fn release(&mut self) {
        self.lane.release();
        let outlets = self.inputs.iter_mut().flat_map(InputPort::outlets);
        outlets.for_each(|outlet| outlet.close());
        self.wakers.wake();
    }
}

/// The views of the models.
#[cfg(test)]
impl Driver {
    /// All the state that decides the driver's next action.
    pub(crate) fn seen(&self) -> impl Iterator<Item = u64> {
        let ports = self.lane.ports.iter().map(|port| port.collected);
        self.books.seen().chain(ports)
    }

    /// The number of executions that are kept because they have handles.
    pub(crate) fn held(&self) -> usize {
        self.books.held()
    }

    /// The number of executions with an entry: in the books, then in each leaf.
    pub(crate) fn entries(&self) -> impl Iterator<Item = usize> {
        let leaves = self.lane.leaves.iter().map(|leaf| leaf.entries());
        std::iter::once(self.books.entries()).chain(leaves)
    }
}
