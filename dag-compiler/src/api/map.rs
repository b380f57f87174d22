//! An iterator and a stream over the results of a graph: results in order, with a bounded number of executions in flight,
//! so with back-pressure by construction.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

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

impl<In, Out, I> fmt::Debug for Map<'_, In, Out, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inflight = self.window.len();
        f.debug_struct("Map")
            .field("inflight", &inflight)
            .finish_non_exhaustive()
    }
}

impl<In: 'static, Out> Graph<In, Out> {
    /// The number of executions that may be in flight while every result has room: results that arrive before the
    /// oldest one are buffered.
    pub(crate) fn window(&self) -> usize {
        let inflight = self.plan().settings.max_inflight as usize;
        inflight.min(self.engine.options.max_buffered)
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

/// The stream that [`Graph::stream`] returns.
#[must_use = "streams do nothing until they are polled"]
pub struct Streamed<'g, In, Out, S> {
    graph: &'g Graph<In, Out>,
    items: Option<Pin<Box<S>>>,
    window: VecDeque<Execution<Out>>,
}

impl<In, Out, S> fmt::Debug for Streamed<'_, In, Out, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inflight = self.window.len();
        f.debug_struct("Streamed")
            .field("inflight", &inflight)
            .finish_non_exhaustive()
    }
}

impl<In: 'static, Out> Graph<In, Out> {
    /// Executes every item of a stream and yields the results in order. Keeps at most `max_inflight` and at most
    /// `max_buffered` executions submitted. A poll blocks its thread as a poll of [`Execution`] does and, if other
    /// callers have filled the graph, as [`execute`](Self::execute) does.
    pub fn stream<S: Stream<Item = In>>(&self, items: S) -> Streamed<'_, In, Out, S> {
        Streamed {
            graph: self,
            items: Some(Box::pin(items)),
            window: VecDeque::new(),
        }
    }
}

impl<In: 'static, Out, S: Stream<Item = In>> Streamed<'_, In, Out, S> {
    /// Submits the items that the source has ready, as far as the window allows.
    fn submit(&mut self, context: &mut Context<'_>) {
        let most = self.graph.window();
        while self.window.len() < most {
            let Some(items) = &mut self.items else { return };
            match items.as_mut().poll_next(context) {
                Poll::Ready(Some(item)) => self.window.push_back(self.graph.execute(item)),
                Poll::Ready(None) => self.items = None,
                Poll::Pending => return,
            }
        }
    }
}

impl<In: 'static, Out, S: Stream<Item = In>> Stream for Streamed<'_, In, Out, S> {
    type Item = Result<Out, ExecError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.submit(context);
        let Some(front) = this.window.front_mut() else {
            return if this.items.is_none() {
                Poll::Ready(None)
            } else {
                Poll::Pending
            };
        };
        let result = ready!(Pin::new(front).poll(context));
        this.window.pop_front();
        Poll::Ready(Some(result))
    }
}
