//! The driver's own lane: writes inputs, runs inline actors, and collects outputs into their leaves.
//!
//! It belongs to no thread. Whoever executes or waits takes the lock, pumps what can move, and lets go; so a
//! graph needs no thread of its own in the driver.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use selvedge_channels::ChannelError;

use crate::ports::InputPort;
use crate::run::crew::Inline;
use crate::run::lane::{LaneError, LaneLoop, Moved, publish};
use crate::run::leaf::Status;
use crate::run::report::TaskInfo;

/// What the driver keeps of one execution until nobody holds a handle to it.
#[derive(Default)]
struct Row {
    handles: u32,
    wakers: Vec<Waker>,
}

/// The driver's counters, for who does not have the driver. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) submitted: AtomicU64,
    pub(crate) finished: AtomicU64,
}

/// The driver's half of a graph.
pub(crate) struct Driver {
    /// One for each leaf of the graph's input.
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) input_info: TaskInfo,
    pub(crate) lane: LaneLoop,
    pub(crate) crew: Inline,
    /// Ports that no inline task shares; they are collected as they come, in any order among each other.
    pub(crate) free_ports: Vec<usize>,
    pub(crate) max_inflight: usize,
    pub(crate) max_buffered: usize,
    rows: VecDeque<Row>,
    base: u64,
    submitted: u64,
    /// Executions of which every output has been collected.
    finished: u64,
    pub(crate) tally: Arc<Tally>,
    /// Wakers registered and not yet woken.
    pub(crate) wakers: usize,
    /// Wakers to be woken as soon as nobody has the driver.
    due: Vec<Waker>,
}

/// Why there is no room for one more execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Inflight(usize),
    Buffered(usize),
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
        let rows = VecDeque::with_capacity(max_inflight.saturating_mul(2));
        Driver {
            inputs,
            input_info,
            lane,
            crew,
            free_ports,
            max_inflight,
            max_buffered,
            rows,
            base: 0,
            submitted: 0,
            finished: 0,
            tally: Arc::default(),
            wakers: 0,
            due: Vec::new(),
        }
    }

    /// Executions of which every output has been collected.
    #[inline]
    pub(crate) fn finished(&self) -> u64 {
        self.finished
    }

    /// Counts them, after some port has collected.
    fn count(&mut self) {
        let collected = self.lane.ports.iter().map(|port| port.collected);
        self.finished = collected.min().unwrap_or(self.submitted);
        self.tally.finished.store(self.finished, Ordering::Relaxed);
    }

    /// All that decides about what it does next, for the models.
    #[cfg(test)]
    pub(crate) fn seen(&self) -> impl Iterator<Item = u64> {
        let ports = self.lane.ports.iter().map(|port| port.collected);
        let rows = self.rows.iter().map(|row| u64::from(row.handles));
        [self.submitted, self.base].into_iter().chain(ports).chain(rows)
    }

    /// Executions that are kept for somebody, for the models.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.rows.iter().filter(|row| row.handles > 0).count()
    }

    /// Whether one more execution may be submitted (DAG-31, DAG-32).
    pub(crate) fn room(&mut self) -> Result<Result<(), NoRoom>, ChannelError> {
        self.tidy();
        let finished = self.finished();
        let inflight = (self.submitted - finished) as usize;
        if inflight >= self.max_inflight {
            return Ok(Err(NoRoom::Inflight(inflight)));
        }
        let buffered = finished.saturating_sub(self.base) as usize;
        if buffered >= self.max_buffered {
            let held = self
                .rows
                .iter()
                .take(buffered)
                .filter(|row| row.handles > 0)
                .count();
            if held >= self.max_buffered {
                return Ok(Err(NoRoom::Buffered(held)));
            }
        }
        let mut space = true;
        for port in &mut self.inputs {
            port.outlets().try_for_each(|outlet| {
                space = space && outlet.has_space()?;
                Ok::<(), ChannelError>(())
            })?;
        }
        Ok(if space {
            Ok(())
        } else {
            Err(NoRoom::Inflight(inflight))
        })
    }

    /// Publishes what has been staged in the inputs; returns the number of the execution.
    pub(crate) fn submit(&mut self, handles: u32) -> Result<u64, ChannelError> {
        let execution = self.submitted;
        for port in &mut self.inputs {
            let (info, values) = (&self.input_info, &mut self.lane.values);
            port.outlets()
                .try_for_each(|outlet| publish(outlet.as_mut(), info, execution, values))?;
        }
        self.lane.leaves.iter_mut().for_each(|leaf| leaf.open());
        self.rows.push_back(Row {
            handles,
            wakers: Vec::new(),
        });
        self.submitted += 1;
        self.tally.submitted.store(self.submitted, Ordering::Relaxed);
        if self.lane.ports.is_empty() {
            self.count();
        }
        Ok(execution)
    }

    /// Moves whatever can move without waiting. `true` when something did.
    pub(crate) fn pump(&mut self) -> Result<bool, LaneError> {
        let mut moved = false;
        let pumped = self.pump_all(&mut moved);
        if moved {
            self.count();
            if self.wakers > 0 {
                self.wake();
            }
        }
        pumped.map(|()| moved)
    }

    #[inline]
    fn pump_all(&mut self, moved: &mut bool) -> Result<(), LaneError> {
        if !self.lane.steps.is_empty() {
            while self.lane.execution() < self.submitted {
                match self.lane.step(&mut self.crew).map_err(|broken| broken.error)? {
                    Moved::Advanced => *moved = true,
                    Moved::Blocked | Moved::Ended => break,
                }
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

    /// Has every task woken that awaits a result; each looks for itself whether its own has come.
    pub(crate) fn wake(&mut self) {
        self.wakers = 0;
        self.rows
            .iter_mut()
            .for_each(|row| self.due.append(&mut row.wakers));
    }

    /// Whether wakers are to be woken.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the wakers that are to be woken now, if there are any.
    #[inline]
    pub(crate) fn due(&mut self) -> Option<Vec<Waker>> {
        self.is_due().then(|| std::mem::take(&mut self.due))
    }

    fn row(&mut self, execution: u64) -> Option<&mut Row> {
        let index = usize::try_from(execution.checked_sub(self.base)?).ok()?;
        self.rows.get_mut(index)
    }

    /// Registers a task to be woken when outputs arrive.
    pub(crate) fn register(&mut self, execution: u64, waker: &Waker) {
        let Some(row) = self.row(execution) else {
            return self.due.push(waker.clone());
        };
        if !row.wakers.iter().any(|known| known.will_wake(waker)) {
            row.wakers.push(waker.clone());
            self.wakers += 1;
        }
    }

    /// What is known of the leaves `range` of an execution: the first fault, else pending if any is.
    pub(crate) fn status(&self, execution: u64, range: &std::ops::Range<usize>) -> Status {
        let mut found = Status::Value;
        for leaf in self.lane.leaves.get(range.clone()).unwrap_or_default() {
            match leaf.status(execution) {
                Status::Fault(fault) => return Status::Fault(fault),
                Status::Pending => found = Status::Pending,
                Status::Gone => return Status::Gone,
                Status::Value => {}
            }
        }
        found
    }

    /// A handle is replaced by `parts` handles.
    pub(crate) fn share(&mut self, execution: u64, parts: u32) {
        if let Some(row) = self.row(execution) {
            row.handles = row.handles.saturating_sub(1) + parts;
        }
    }

    /// A handle is gone, with or without its result. `true` when it was the last and the execution unfinished.
    pub(crate) fn close(&mut self, execution: u64, range: &std::ops::Range<usize>) -> bool {
        for leaf in self.lane.leaves.get_mut(range.clone()).unwrap_or_default() {
            leaf.discard(execution);
        }
        self.close_taken(execution)
    }

    /// The same for a handle all of whose results have been taken.
    pub(crate) fn close_taken(&mut self, execution: u64) -> bool {
        let finished = self.finished();
        let Some(row) = self.row(execution) else {
            return false;
        };
        row.handles = row.handles.saturating_sub(1);
        let last = row.handles == 0;
        self.tidy();
        last && execution >= finished
    }

    /// Drops the rows of executions that are finished and that nobody holds.
    #[inline]
    fn tidy(&mut self) {
        let finished = self.finished();
        while self.base < finished && self.rows.front().is_some_and(|row| row.handles == 0) {
            self.rows.pop_front();
            self.base += 1;
        }
    }

    /// The oldest unfinished execution that somebody still wants.
    pub(crate) fn oldest_wanted(&self) -> Option<u64> {
        let finished = self.finished();
        (finished..self.submitted).find(|execution| {
            let index = execution
                .checked_sub(self.base)
                .and_then(|index| usize::try_from(index).ok());
            index
                .and_then(|index| self.rows.get(index))
                .is_some_and(|row| row.handles > 0)
        })
    }
}
