//! Books: the numbers of executions, and the handles that want their results.
//!
//! An execution gets an entry when the thread that submitted it releases the driver without the result. If that thread
//! takes the result before it releases the driver, the execution never has an entry.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_core::IdMap;

use crate::run::driver::leaf::AnyLeaf;

/// The driver's counters, for threads that do not hold the driver. Relaxed: the counters order nothing.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    pub(crate) submitted: AtomicU64,
    pub(crate) finished: AtomicU64,
}

/// The reasons why there is no room for one more execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Inflight(usize),
    Buffered(usize),
    /// A lane has yet to read its inputs, although this number of unfinished executions is below the limit.
    Unread(usize),
}

/// The executions of one graph.
pub(crate) struct Books {
    pub(crate) max_inflight: usize,
    pub(crate) max_buffered: usize,
    /// The number of handles of each execution.
    handles: Window<u32>,
    /// The largest number of executions in the window; older ones that still have handles are kept.
    window: usize,
    /// The number of finished executions that still have handles.
    held: usize,
    submitted: u64,
    finished: u64,
    pub(crate) counters: Arc<SharedCounters>,
}

impl Books {
    pub(super) fn new(max_inflight: usize, max_buffered: usize) -> Self {
        let window = max_inflight.saturating_mul(2);
        Books {
            max_inflight,
            max_buffered,
            handles: Window::with_capacity(window),
            window,
            held: 0,
            submitted: 0,
            finished: 0,
            counters: Arc::default(),
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

    /// Counts an execution whose inputs have been published; returns its number.
    #[inline]
    pub(crate) fn sent(&mut self) -> u64 {
        let execution = self.submitted;
        self.submitted += 1;
        // Relaxed: a counter orders nothing.
        self.counters.submitted.store(self.submitted, Ordering::Relaxed);
        execution
    }

    /// Counts the executions up to `finished` as finished.
    #[inline]
    pub(super) fn finish(&mut self, finished: u64) {
        if self.handles.recent() > 0 {
            let wanted = |execution: &u64| self.is_wanted(execution);
            self.held += (self.finished..finished).filter(wanted).count();
        }
        self.finished = finished;
        // Relaxed: a counter orders nothing.
        self.counters.finished.store(finished, Ordering::Relaxed);
    }

    /// Whether no execution has an entry in the window, so that the next one may do without.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.handles.base() == self.submitted
    }

    /// Whether the limits allow one more execution.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        (self.submitted - self.finished) < self.max_inflight as u64 && self.held < self.max_buffered
    }

    /// The number of executions in flight, or the limit that allows no more (DAG-31, DAG-32).
    pub(super) fn room(&mut self, leaves: &mut [Box<dyn AnyLeaf>]) -> Result<usize, NoRoom> {
        self.tidy(leaves);
        let inflight = (self.submitted - self.finished) as usize;
        if inflight >= self.max_inflight {
            return Err(NoRoom::Inflight(inflight));
        }
        if self.held >= self.max_buffered {
            return Err(NoRoom::Buffered(self.held));
        }
        Ok(inflight)
    }

    /// Makes an entry with `handles` handles for the last execution that was sent.
    #[inline]
    pub(super) fn open(&mut self, execution: u64, handles: u32, leaves: &mut [Box<dyn AnyLeaf>]) {
        leaves.iter_mut().for_each(|leaf| leaf.open(execution));
        self.handles.push(handles);
    }

    /// Removes what has finished if the window is full.
    #[inline]
    pub(super) fn trim(&mut self, leaves: &mut [Box<dyn AnyLeaf>]) {
        if self.handles.recent() > self.window {
            self.tidy(leaves);
        }
    }

    /// Passes an execution whose result was taken before it was collected.
    #[inline]
    pub(super) fn pass(&mut self, execution: u64, leaves: &mut [Box<dyn AnyLeaf>]) {
        if self.handles.recent() == 0 {
            // The execution has no entry. Executions that are not yet collected and have entries are in the window, so
            // no other is in flight.
            self.handles.skip_to(self.submitted);
        } else {
            leaves.iter_mut().for_each(|leaf| leaf.pass(execution));
        }
    }

    /// Whether an execution has an entry.
    pub(super) fn knows(&self, execution: u64) -> bool {
        self.handles.get(execution).is_some()
    }

    #[inline]
    fn is_wanted(&self, execution: &u64) -> bool {
        self.handles.get(*execution).is_some_and(|handles| *handles > 0)
    }

    /// Replaces a handle by `parts` handles.
    pub(crate) fn share(&mut self, execution: u64, parts: u32) {
        if let Some(handles) = self.handles.get_mut(execution) {
            *handles = handles.saturating_sub(1) + parts;
        }
    }

    /// Removes a handle; `true` if it was the last one.
    pub(super) fn close(&mut self, execution: u64, leaves: &mut [Box<dyn AnyLeaf>]) -> bool {
        let closed = self.handles.get_mut(execution).map(|handles| {
            let held = *handles > 0;
            *handles = handles.saturating_sub(1);
            (held, *handles == 0)
        });
        // An execution without an entry has no handle to remove.
        let (held, last) = closed.unwrap_or_default();
        if last && held && execution < self.finished {
            self.held -= 1;
        }
        if execution >= self.handles.base() {
            self.tidy(leaves);
        } else if last {
            self.handles.take(execution, 0);
        }
        last
    }

    /// Removes finished executions without handles. Finished executions with handles leave the window when it is full.
    #[inline]
    fn tidy(&mut self, leaves: &mut [Box<dyn AnyLeaf>]) {
        while self.handles.base() < self.finished
            && let Some(handles) = self.handles.oldest().copied()
        {
            if handles == 0 {
                self.handles.pop();
            } else if self.handles.recent() > self.window {
                self.keep(leaves);
            } else {
                return;
            }
        }
    }

    /// Moves the oldest execution of the window, and its results, to those that are held for long.
    #[cold]
    fn keep(&mut self, leaves: &mut [Box<dyn AnyLeaf>]) {
        let oldest = self.handles.base();
        leaves.iter_mut().for_each(|leaf| leaf.keep(oldest));
        self.handles.keep();
    }

    /// The oldest unfinished execution, whose end gives the next slot, and whether it still has handles.
    pub(crate) fn oldest_unfinished(&self) -> Option<(u64, bool)> {
        let oldest = (self.finished..self.submitted).next()?;
        Some((oldest, self.is_wanted(&oldest)))
    }
}

/// The views of the models.
#[cfg(test)]
impl Books {
    /// All numbers that decide the driver's next action.
    pub(super) fn seen(&self) -> impl Iterator<Item = u64> {
        let entries = self.handles.entries();
        let entries = entries.flat_map(|(execution, handles)| [execution, u64::from(*handles)]);
        [self.submitted, self.handles.base()].into_iter().chain(entries)
    }

    /// The number of executions that have handles.
    pub(super) fn held(&self) -> usize {
        self.handles
            .entries()
            .filter(|(_, handles)| **handles > 0)
            .count()
    }

    /// The number of executions with an entry.
    pub(super) fn entries(&self) -> usize {
        self.handles.entries().count()
    }
}

/// One entry for each execution from `base` on, and entries of older executions that are kept for long.
pub(crate) struct Window<T> {
    base: u64,
    recent: VecDeque<T>,
    kept: IdMap<u64, T>,
}

impl<T> Window<T> {
    pub(super) fn with_capacity(executions: usize) -> Self {
        Window {
            base: 0,
            recent: VecDeque::with_capacity(executions),
            kept: IdMap::new(),
        }
    }

    /// The number of the oldest execution that is not merely kept.
    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The number of entries from `base` on.
    #[inline]
    pub(super) fn recent(&self) -> usize {
        self.recent.len()
    }

    /// The entry of `base`.
    #[inline]
    pub(super) fn oldest(&self) -> Option<&T> {
        self.recent.front()
    }

    #[inline]
    fn index(&self, execution: u64) -> Option<usize> {
        usize::try_from(execution.checked_sub(self.base)?).ok()
    }

    #[inline]
    pub(super) fn get(&self, execution: u64) -> Option<&T> {
        match self.index(execution) {
            Some(index) => self.recent.get(index),
            None => self.kept.get(&execution),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, execution: u64) -> Option<&mut T> {
        match self.index(execution) {
            Some(index) => self.recent.get_mut(index),
            None => self.kept.get_mut(&execution),
        }
    }

    /// Moves an empty window, so that the next entry is that of `execution`.
    #[inline]
    pub(super) fn skip_to(&mut self, execution: u64) {
        if self.recent.is_empty() {
            self.base = execution;
        }
    }

    /// Adds the entry of the next execution.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        self.recent.push_back(entry);
    }

    /// Removes the entry of `base`.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let oldest = self.recent.pop_front()?;
        self.base += 1;
        Some(oldest)
    }

    /// Removes an entry; `gone` takes its place between newer and older ones.
    #[inline]
    pub(super) fn take(&mut self, execution: u64, gone: T) -> Option<T> {
        if execution == self.base {
            self.pop()
        } else if execution < self.base {
            self.kept.remove(&execution)
        } else {
            Some(std::mem::replace(self.get_mut(execution)?, gone))
        }
    }

    /// Moves the entry of `base` to those that are kept for long.
    pub(super) fn keep(&mut self) {
        let oldest = self.base;
        if let Some(entry) = self.pop() {
            self.kept.insert(oldest, entry);
        }
    }

    /// The entries, with those that are kept last.
    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, &T)> {
        let kept = self.kept.iter().map(|(execution, entry)| (*execution, entry));
        (self.base..).zip(&self.recent).chain(kept)
    }
}
