//! Executions in flight, each with a load and a time limit.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use selvedge_compiler::{ExecError, Execution, Graph};

use crate::error::{BatchError, discard};
use crate::queue::Moment;

struct InFlightExecution<Out, L> {
    execution: Execution<Out>,
    /// `None` after the time limit: the clients of the load have been answered, but the execution still occupies the
    /// graph.
    load: Option<L>,
    began: Moment,
    deadline: Moment,
}

/// An execution that is over or late, with the load that it carried.
pub(crate) struct Finished<Out, L> {
    pub(crate) load: L,
    pub(crate) began: Moment,
    pub(crate) result: Result<Out, BatchError>,
}

pub(crate) struct InFlight<Out, L> {
    flights: Vec<InFlightExecution<Out, L>>,
    wanted: usize,
    most: usize,
    waker: Waker,
}

impl<Out, L> InFlight<Out, L> {
    pub(crate) fn new(wanted: usize, waker: Waker) -> Self {
        InFlight {
            flights: Vec::new(),
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
        self.flights.len() < self.most
    }

    /// Returns the loads of the executions in flight.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &L> {
        self.flights.iter().filter_map(|flight| flight.load.as_ref())
    }

    /// Returns the number of executions that were late and are not over.
    pub(crate) fn overdue(&self) -> usize {
        self.flights.len() - self.loads().count()
    }

    /// Returns the moment at which the next execution is late.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let waited_for = self.flights.iter().filter(|flight| flight.load.is_some());
        waited_for.map(|flight| flight.deadline).min()
    }

    /// Returns the loads and drops the executions.
    pub(crate) fn into_loads(self) -> impl Iterator<Item = L> {
        self.flights.into_iter().filter_map(|flight| flight.load)
    }

    /// Begins an execution. If the graph refuses it, the load is returned with the error.
    pub(crate) fn launch<In: 'static>(
        &mut self,
        graph: &Graph<In, Out>,
        input: In,
        load: L,
        (began, timeout): (Moment, Duration),
    ) -> Result<(), (L, BatchError)> {
        let begin = || graph.try_execute(input).map_err(|refused| refused.error);
        match BatchError::catch("a value of the graph", begin) {
            Err(panicked) => Err((load, panicked)),
            Ok(Err(refused)) => Err((load, BatchError::Failed(refused))),
            Ok(Ok(execution)) => {
                self.flights.push(InFlightExecution {
                    execution,
                    load: Some(load),
                    began,
                    deadline: began.saturating_add(timeout),
                });
                Ok(())
            }
        }
    }

    /// Returns an execution that is over or late, if there is one. Registers the waker with each execution that is
    /// neither.
    pub(crate) fn land(&mut self, now: Moment) -> Option<Finished<Out, L>> {
        let mut index = 0;
        while let Some(flight) = self.flights.get_mut(index) {
            let polled = poll(&mut flight.execution, &self.waker);
            let (result, over) = match polled {
                Some(result) => (result, true),
                None if flight.load.is_some() && flight.deadline <= now => late(&mut flight.execution),
                None => {
                    index += 1;
                    continue;
                }
            };
            let (load, began) = (flight.load.take(), flight.began);
            if over {
                self.flights.remove(index);
            } else {
                index += 1;
            }
            match load {
                Some(load) => return Some(Finished { load, began, result }),
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
