//! Entries by the number of their execution.

use std::collections::{BTreeMap, VecDeque};

/// One entry for each execution from `base` on, and entries of older executions that are kept for long.
pub(crate) struct Window<T> {
    base: u64,
    recent: VecDeque<T>,
    kept: BTreeMap<u64, T>,
}

impl<T> Window<T> {
    pub(super) fn with_capacity(executions: usize) -> Self {
        Window {
            base: 0,
            recent: VecDeque::with_capacity(executions),
            kept: BTreeMap::new(),
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
