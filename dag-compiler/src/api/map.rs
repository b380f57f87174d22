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

impl<'g, In: 'static, Out, I: Iterator<Item = In>> Map<'g, In, Out, I> {
    pub(crate) fn new(graph: &'g Graph<In, Out>, items: I) -> Self {
        Map {
            graph,
            items,
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
