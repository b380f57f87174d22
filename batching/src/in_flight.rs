//! Executions in flight, each with a batch and a time limit.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use selvedge_compiler::{ExecError, Execution, Graph};

use crate::error::{BatchError, discard};
use crate::queue::Moment;

struct Pending<Out, B> {
    execution: Execution<Out>,
    /// `None` after the time limit: the clients of the batch have been answered, but the execution still occupies the
    /// graph.
    batch: Option<B>,
    began: Moment,
    deadline: Moment,
}

/// An execution that is over or late, with the batch that it carried.
pub(crate) struct Completed<Out, B> {
    pub(crate) batch: B,
    pub(crate) began: Moment,
    pub(crate) result: Result<Out, BatchError>,
}

pub(crate) struct InFlight<Out, B> {
    pending: Vec<Pending<Out, B>>,
    wanted: usize,
    most: usize,
    waker: Waker,
}

impl<Out, B> InFlight<Out, B> {
    pub(crate) fn new(wanted: usize, waker: Waker) -> Self {
        InFlight {
            pending: Vec::new(),
            wanted,
            most: wanted,
            waker,
        }
    }

    /// Limits the executions in flight to the wanted number, or to the `max_inflight` of `graph` if that is lower.
    pub(crate) fn fit<In: 'static>(&mut self, graph: &Graph<In, Out>) {
        self.most = self
            .wanted
            .min(graph.plan().settings.max_inflight as usize)
            .max(1);
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < self.most
    }

    /// Returns the batches of the executions in flight.
    pub(crate) fn batches(&self) -> impl Iterator<Item = &B> {
        self.pending.iter().filter_map(|it| it.batch.as_ref())
    }

    /// Returns the number of executions that were late and are not over.
    pub(crate) fn overdue(&self) -> usize {
        self.pending.len() - self.batches().count()
    }

    /// Returns the moment at which the thread has to look at the executions again: when the next one is late, or at once
    /// if some have `begun`. An execution wakes the thread only after it has been polled, and the next turn polls the new
    /// ones.
    pub(crate) fn wakes_at(&self, begun: bool, now: Moment) -> Option<Moment> {
        let waited_for = self.pending.iter().filter(|it| it.batch.is_some());
        let late = waited_for.map(|it| it.deadline).min();
        if begun { Some(now) } else { late }
    }

    /// Returns the batches and drops the executions.
    pub(crate) fn into_batches(self) -> impl Iterator<Item = B> {
        self.pending.into_iter().filter_map(|it| it.batch)
    }

    /// Begins an execution. If the graph refuses it, the batch is returned with the error.
    pub(crate) fn submit<In: 'static>(
        &mut self,
        graph: &Graph<In, Out>,
        input: In,
        batch: B,
        (began, timeout): (Moment, Duration),
    ) -> Result<(), (B, BatchError)> {
        let begin = || graph.try_execute(input).map_err(|refused| refused.error);
        match BatchError::catch("a value of the graph", begin) {
            Err(panicked) => Err((batch, panicked)),
            Ok(Err(refused)) => Err((batch, BatchError::Failed(refused))),
            Ok(Ok(execution)) => {
                self.pending.push(Pending {
                    execution,
                    batch: Some(batch),
                    began,
                    deadline: began.saturating_add(timeout),
                });
                Ok(())
            }
        }
    }

    /// Returns an execution that is over or late, if there is one. Registers the waker with each execution that is
    /// neither.
    pub(crate) fn next_completed(&mut self, now: Moment) -> Option<Completed<Out, B>> {
        let mut index = 0;
        while let Some(pending) = self.pending.get_mut(index) {
            let polled = poll(&mut pending.execution, &self.waker);
            let (result, over) = match polled {
                Some(result) => (result, true),
                None if pending.batch.is_some() && pending.deadline <= now => late(&mut pending.execution),
                None => {
                    index += 1;
                    continue;
                }
            };
            let (batch, began) = (pending.batch.take(), pending.began);
            if over {
                self.pending.remove(index);
            } else {
                index += 1;
            }
            match batch {
                Some(batch) => return Some(Completed { batch, began, result }),
                None => discard([result]),
            }
        }
        None
    }
}

fn poll<Out>(execution: &mut Execution<Out>, waker: &Waker) -> Option<Result<Out, BatchError>> {
    let mut context = Context::from_waker(waker);
    match BatchError::catch("a value of the graph", || execution.poll_result(&mut context)) {
        Err(panicked) => Some(Err(panicked)),
        Ok(Poll::Ready(result)) => Some(result.map_err(BatchError::Failed)),
        Ok(Poll::Pending) => None,
    }
}

/// Polls an execution whose time is up once more. Returns its result, and whether it is over; the error of an execution
/// that is not over names its current work.
fn late<Out>(execution: &mut Execution<Out>) -> (Result<Out, BatchError>, bool) {
    match BatchError::catch("a value of the graph", || execution.wait_timeout(Duration::ZERO)) {
        Err(panicked) => (Err(panicked), true),
        Ok(result) => {
            let over = !matches!(result, Err(ExecError::Timeout(_)));
            (result.map_err(BatchError::Failed), over)
        }
    }
}
