//! An iterator over the results of a graph: results in order, with a bounded number of executions in flight.

use std::collections::VecDeque;

use crate::api::execution::Execution;
use crate::api::graph::Graph;
use crate::run::error::ExecError;

/// The iterator that [`Graph::map`] returns.
#[must_use = "iterators do nothing until they are consumed"]
pub struct Map<'g, In, Out, I> {
    graph: &'g Graph<In, Out>,
    items: I,
    window: VecDeque<Execution<Out>>,
}

impl<In: 'static, Out> Graph<In, Out> {
    /// The number of executions that may be in flight while every result has room: results that arrive before the
    /// oldest one are buffered.
    pub(crate) fn window(&self) -> usize {
        let inflight = self.plan().settings.max_inflight as usize;
        inflight.min(self.engine.options.max_buffered_value())
    }

    /// Executes every item and yields the results in order. Keeps at most `max_inflight` and at most `max_buffered`
    /// executions submitted.
    pub fn map<I: IntoIterator<Item = In>>(&self, items: I) -> Map<'_, In, Out, I::IntoIter> {
        Map {
            graph: self,
            items: items.into_iter(),
            window: VecDeque::new(),
        }
    }
}

impl<In: 'static, Out, I: Iterator<Item = In>> Iterator for Map<'_, In, Out, I> {
    type Item = Result<Out, ExecError>;

    fn next(&mut self) -> Option<Self::Item> {
        let most = self.graph.window();
        while self.window.len() < most {
            match self.items.next() {
                Some(item) => self.window.push_back(self.graph.execute(item)),
                None => break,
            }
        }
        self.window.pop_front().map(Execution::wait)
    }
}
