//! The driver's own lane: writes inputs, runs inline actors, and collects outputs into their leaves.
//!
//! The lane belongs to no thread. A thread that executes or waits takes the lock, moves all that can move, and releases
//! the lock. So a graph needs no thread of its own in the driver's process.

pub(crate) mod leaf;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Instant;

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, Fault};

use crate::api::execution::Take;
use crate::bind::ports::{Collected, InputPort};
use crate::run::actor_set::Inline;
use crate::run::driver::leaf::Status;
use crate::run::lane::{LaneError, LaneLoop, Moved, publish};
use crate::run::report::TaskInfo;

/// The driver's counters, for threads that do not hold the driver. Relaxed: the counters order nothing.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    pub(crate) submitted: AtomicU64,
    pub(crate) finished: AtomicU64,
}

/// The driver's part of a running graph.
pub(crate) struct Driver {
    /// One port per leaf of the graph's input.
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) input_info: TaskInfo,
    pub(crate) lane: LaneLoop,
    pub(crate) crew: Inline,
    /// Ports that no inline task shares. Each is collected as its values arrive, in any order among the ports.
    pub(crate) free_ports: Vec<usize>,
    /// The index of the only port, if its value is the graph's only output and can be taken where it arrives
    /// (`OutputPort::moves`).
    sole: Option<usize>,
    pub(crate) max_inflight: usize,
    pub(crate) max_buffered: usize,
    /// The number of handles of each execution from `base` on.
    handles: VecDeque<u32>,
    base: u64,
    /// The largest number of executions in `handles`; older ones that still have handles move to `kept`.
    window: usize,
    /// Finished executions before `base` that still have handles, with the number of their handles.
    kept: BTreeMap<u64, u32>,
    /// The number of finished executions that still have handles.
    held: usize,
    submitted: u64,
    /// The number of executions whose outputs have all been collected.
    finished: u64,
    pub(crate) tally: Arc<SharedCounters>,
    /// Tasks that are registered and not yet woken.
    waiting: Vec<Awaiting>,
    /// True if a task was registered whose deadline is earlier than those of all others, since
    /// [`is_hurried`](Self::is_hurried) last asked.
    hurried: bool,
    /// Wakers to wake as soon as the driver is released.
    due: Vec<Waker>,
}

/// A task that awaits a result.
struct Awaiting {
    execution: u64,
    waker: Waker,
    /// The deadline of the task.
    until: Option<Instant>,
}

/// The reasons why there is no room for one more execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Inflight(usize),
    Buffered(usize),
    /// A lane has yet to read its inputs, although this number of unfinished executions is below the limit.
    Unread(usize),
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
        let window = max_inflight.saturating_mul(2);
        Driver {
            inputs,
            input_info,
            lane,
            crew,
            free_ports,
            sole,
            max_inflight,
            max_buffered,
            handles: VecDeque::with_capacity(window),
            base: 0,
            window,
            kept: BTreeMap::new(),
            held: 0,
            submitted: 0,
            finished: 0,
            tally: Arc::default(),
            waiting: Vec::new(),
            hurried: false,
            due: Vec::new(),
        }
    }

    /// The number of executions whose outputs have all been collected.
    #[inline]
    pub(crate) fn finished(&self) -> u64 {
        self.finished
    }

    /// The number of executions that have been sent, which is also the number of the next one.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Updates the counters after a port has collected.
    #[inline]
    fn count(&mut self) {
        let collected = self.lane.ports.iter().map(|port| port.collected);
        let finished = collected.min().unwrap_or(self.submitted);
        if !self.handles.is_empty() {
            let wanted = |execution: &u64| self.handles_of(*execution) > 0;
            self.held += (self.finished..finished).filter(wanted).count();
        }
        self.finished = finished;
        self.tally.finished.store(self.finished, Ordering::Relaxed);
    }

    /// All the state that decides the driver's next action, for the models.
    #[cfg(test)]
    pub(crate) fn seen(&self) -> impl Iterator<Item = u64> {
        let ports = self.lane.ports.iter().map(|port| port.collected);
        let handles = self.handles.iter().map(|handles| u64::from(*handles));
        let kept = self.kept.iter();
        [self.submitted, self.base]
            .into_iter()
            .chain(ports)
            .chain(handles)
            .chain(kept.flat_map(|(execution, handles)| [*execution, u64::from(*handles)]))
    }

    /// The number of executions that are kept because they have handles, for the models.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.handles.iter().filter(|handles| **handles > 0).count() + self.kept.len()
    }

    /// The number of executions with an entry: in the driver's own records, then in each leaf.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> impl Iterator<Item = usize> {
        let leaves = self.lane.leaves.iter().map(|leaf| leaf.entries());
        std::iter::once(self.handles.len() + self.kept.len()).chain(leaves)
    }

    /// Whether one more execution may be submitted, by a quick check. If `false`, [`room`](Self::room) checks in full
    /// and says why.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        let finished = self.finished();
        (self.submitted - finished) < self.max_inflight as u64
            && self.held < self.max_buffered
            && self.inputs.iter_mut().all(InputPort::is_open)
    }

    /// Checks whether one more execution may be submitted (DAG-31, DAG-32).
    pub(crate) fn room(&mut self) -> Result<Result<(), NoRoom>, ChannelError> {
        self.tidy();
        let finished = self.finished();
        let inflight = (self.submitted - finished) as usize;
        if inflight >= self.max_inflight {
            return Ok(Err(NoRoom::Inflight(inflight)));
        }
        if self.held >= self.max_buffered {
            return Ok(Err(NoRoom::Buffered(self.held)));
        }
        let mut space = true;
        for port in &mut self.inputs {
            port.try_each(|outlet| {
                space = space && outlet.has_space()?;
                Ok::<(), ChannelError>(())
            })?;
        }
        Ok(if space {
            Ok(())
        } else {
            Err(NoRoom::Unread(inflight))
        })
    }

    /// Publishes the staged inputs and gives the execution `handles` handles; returns its number.
    #[inline]
    pub(crate) fn submit(&mut self, handles: u32) -> Result<u64, ChannelError> {
        let execution = self.publish_inputs()?;
        self.book(execution, handles);
        Ok(execution)
    }

    /// Reserves a place for the results of the last execution that was sent.
    #[inline]
    pub(crate) fn book(&mut self, execution: u64, handles: u32) {
        self.lane.leaves.iter_mut().for_each(|leaf| leaf.open(execution));
        self.handles.push_back(handles);
        if self.lane.ports.is_empty() {
            self.count();
        }
        if self.handles.len() > self.window {
            self.tidy();
        }
    }

    /// Publishes the staged inputs; returns the number of the execution. Its results have no place yet, so the caller
    /// must call [`book`](Self::book) or [`take_at_once`](Self::take_at_once) before it releases the driver.
    #[inline]
    pub(crate) fn publish_inputs(&mut self) -> Result<u64, ChannelError> {
        let execution = self.submitted;
        for port in &mut self.inputs {
            let (info, values) = (&self.input_info, &mut self.lane.values);
            port.try_each(|outlet| publish(outlet, info, execution, values))?;
        }
        Ok(self.sent())
    }

    /// Counts an execution whose inputs have been published; returns its number.
    #[inline]
    pub(crate) fn sent(&mut self) -> u64 {
        let execution = self.submitted;
        self.submitted += 1;
        self.tally.submitted.store(self.submitted, Ordering::Relaxed);
        execution
    }

    /// Moves everything that can move without waiting; `true` if anything moved.
    pub(crate) fn pump(&mut self) -> Result<bool, LaneError> {
        let mut moved = false;
        let pumped = self.pump_all(&mut moved);
        if moved {
            self.moved();
        }
        pumped.map(|()| moved)
    }

    /// Updates the counters and queues the wakers of waiting tasks, after something has moved.
    #[inline]
    fn moved(&mut self) {
        self.count();
        if self.is_awaited() {
            self.wake();
        }
    }

    #[inline]
    fn pump_all(&mut self, moved: &mut bool) -> Result<(), LaneError> {
        if !self.lane.steps.is_empty() && self.lane.execution() < self.submitted {
            while self.lane.execution() < self.submitted {
                match self.lane.step(&mut self.crew).map_err(|broken| broken.error)? {
                    Moved::Advanced => *moved = true,
                    Moved::Blocked => break,
                    // A peer closes its channels only after it was told that the graph has ended. So a close while the
                    // graph runs is an error.
                    Moved::Ended if self.lane.control.is_running() => {
                        return Err(ChannelError::Closed.into());
                    }
                    Moved::Ended => break,
                }
            }
            if self.lane.execution() == self.submitted {
                // Every submitted execution is done, so no time-out may name the task that was computed last.
                self.lane.idles();
            }
        }
        for index in 0..self.free_ports.len() {
            let Some(port) = self.free_ports.get(index).copied() else {
                break;
            };
            while self
                .lane
                .ports
                .get(port)
                .is_some_and(|it| it.collected < self.submitted)
            {
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
    /// returns `None` and changes nothing. The execution may have been sent without being [booked](Self::book).
    #[inline]
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
        if self.handles.is_empty() {
            // The execution was sent and not booked. Booked executions that are not yet collected have entries, so no
            // other is in flight.
            self.base = self.submitted;
        } else {
            self.lane.leaves.iter_mut().for_each(|leaf| leaf.pass(execution));
        }
        self.moved();
        Some(taken)
    }

    /// Whether an execution may run from here to its result without a place of its own: no other execution has an entry
    /// in the window, the results that are kept leave room for one more, no waker is registered or due, no task runs on
    /// this lane, and the graph has one output that can be taken where it arrives.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.base == self.submitted
            && self.sole.is_some()
            && self.held < self.max_buffered
            && self.lane.steps.is_empty()
            && !self.is_awaited()
            && self.due.is_empty()
    }

    /// The outlet of the graph's only input, if the value goes there as it is.
    #[inline]
    pub(crate) fn sole_input(&mut self) -> Option<&mut dyn AnyOutlet> {
        match self.inputs.as_mut_slice() {
            [port] => port.sole(),
            _ => None,
        }
    }

    /// The value of the graph's only output, if it can be taken where it arrives.
    #[inline]
    pub(crate) fn coming(&self) -> Option<&dyn AnyValue> {
        let port = self.lane.ports.get(self.sole?)?;
        Some(self.lane.values.get(port.value)?.as_ref())
    }

    /// Whether a message may have arrived, by a quick poll.
    #[inline]
    pub(crate) fn stirs(&self) -> bool {
        !self.lane.steps.is_empty() || self.coming().is_none_or(|coming| coming.stirs())
    }

    /// Queues the wakers of all tasks that await a result; each task looks for its own result.
    pub(crate) fn wake(&mut self) {
        self.due
            .extend(self.waiting.drain(..).map(|awaiting| awaiting.waker));
    }

    /// Queues further wakers.
    pub(crate) fn wake_also(&mut self, wakers: Vec<Waker>) {
        self.due.extend(wakers);
    }

    /// Queues the wakers of the tasks whose deadline has passed.
    pub(crate) fn wake_late(&mut self, now: Instant) {
        let late = self
            .waiting
            .extract_if(.., |it| it.until.is_some_and(|until| until <= now));
        self.due.extend(late.map(|awaiting| awaiting.waker));
    }

    /// The earliest deadline of the waiting tasks.
    pub(crate) fn first_late(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|awaiting| awaiting.until).min()
    }

    /// Whether wakers are due.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the wakers that are due, if there are any.
    #[inline]
    pub(crate) fn due(&mut self) -> Option<Vec<Waker>> {
        self.is_due().then(|| std::mem::take(&mut self.due))
    }

    /// Whether a task waits to be woken when a result has arrived.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    #[inline]
    fn handles(&mut self, execution: u64) -> Option<&mut u32> {
        match execution.checked_sub(self.base) {
            Some(index) => self.handles.get_mut(usize::try_from(index).ok()?),
            None => self.kept.get_mut(&execution),
        }
    }

    /// The number of handles of an execution from `base` on.
    #[inline]
    fn handles_of(&self, execution: u64) -> u32 {
        let index = execution.checked_sub(self.base);
        let index = index.and_then(|index| usize::try_from(index).ok());
        index
            .and_then(|index| self.handles.get(index))
            .map_or(0, |handles| *handles)
    }

    /// Registers a task to be woken when outputs arrive or when its deadline passes. `true` if its deadline is earlier
    /// than those of all others.
    pub(crate) fn register(&mut self, execution: u64, waker: &Waker, until: Option<Instant>) -> bool {
        if self.handles(execution).is_none() {
            self.due.push(waker.clone());
            return false;
        }
        let first = until.is_some_and(|until| self.first_late().is_none_or(|first| until < first));
        self.hurried |= first;
        let known = |it: &&mut Awaiting| it.execution == execution && it.waker.will_wake(waker);
        match self.waiting.iter_mut().find(known) {
            Some(known) => known.until = until,
            None => self.waiting.push(Awaiting {
                execution,
                waker: waker.clone(),
                until,
            }),
        }
        first
    }

    /// Whether a task whose deadline is earlier than those of all others was registered since the last call.
    pub(crate) fn is_hurried(&mut self) -> bool {
        std::mem::take(&mut self.hurried)
    }

    /// The status of the leaves `range` of an execution: that of the first leaf whose result is a fault or gone, else
    /// pending if any leaf is.
    pub(crate) fn status(&self, execution: u64, range: &std::ops::Range<usize>) -> Status {
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

    /// The first fault among the leaves `range` of an execution.
    pub(crate) fn fault(&self, execution: u64, range: &std::ops::Range<usize>) -> Option<Fault> {
        let leaves = self.lane.leaves.get(range.clone()).unwrap_or_default();
        leaves.iter().find_map(|leaf| leaf.fault(execution))
    }

    /// Replaces a handle by `parts` handles.
    pub(crate) fn share(&mut self, execution: u64, parts: u32) {
        if let Some(handles) = self.handles(execution) {
            *handles = handles.saturating_sub(1) + parts;
        }
    }

    /// Removes a handle, with or without its result. `true` if it was the last handle and the execution is unfinished.
    pub(crate) fn close(&mut self, execution: u64, range: &std::ops::Range<usize>) -> bool {
        for leaf in self.lane.leaves.get_mut(range.clone()).unwrap_or_default() {
            leaf.discard(execution);
        }
        self.close_taken(execution)
    }

    /// Does the same as [`close`](Self::close) for a handle all of whose results have been taken.
    pub(crate) fn close_taken(&mut self, execution: u64) -> bool {
        let finished = self.finished();
        let Some(handles) = self.handles(execution) else {
            return false;
        };
        let held = *handles > 0;
        *handles = handles.saturating_sub(1);
        let last = *handles == 0;
        if last && self.is_awaited() {
            self.waiting.retain(|awaiting| awaiting.execution != execution);
        }
        if last && held && execution < finished {
            self.held -= 1;
        }
        if execution < self.base {
            if last {
                self.kept.remove(&execution);
            }
        } else {
            self.tidy();
        }
        last && execution >= finished
    }

    /// Removes finished executions without handles. Finished executions with handles leave the window when it is full.
    #[inline]
    fn tidy(&mut self) {
        while self.base < self.finished
            && let Some(handles) = self.handles.front().copied()
        {
            if handles > 0 {
                if self.handles.len() <= self.window {
                    return;
                }
                self.keep(handles);
            }
            self.handles.pop_front();
            self.base += 1;
        }
    }

    /// Moves the oldest execution of the window, and its results, to those that are held for long.
    #[cold]
    fn keep(&mut self, handles: u32) {
        self.kept.insert(self.base, handles);
        let oldest = self.base;
        self.lane.leaves.iter_mut().for_each(|leaf| leaf.keep(oldest));
    }

    /// The oldest unfinished execution that still has handles.
    pub(crate) fn oldest_wanted(&self) -> Option<u64> {
        let finished = self.finished();
        (finished..self.submitted).find(|execution| self.handles_of(*execution) > 0)
    }
}
