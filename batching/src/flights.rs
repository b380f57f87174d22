//! Executions under way, each with what it carries and a time limit.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use selvedge_compiler::{ExecError, Execution, Graph};

use crate::contained::{contained, discard};
use crate::error::BatchError;
use crate::queue::Moment;

struct Flight<Out, L> {
    execution: Execution<Out>,
    /// `None` once it was late: whoever it carried has been answered, but it still occupies the graph.
    load: Option<L>,
    began: Moment,
    deadline: Moment,
}

/// An execution that is over, for those whom it carried.
pub(crate) struct Landed<Out, L> {
    pub(crate) load: L,
    pub(crate) began: Moment,
    pub(crate) result: Result<Out, BatchError>,
}

pub(crate) struct Flights<Out, L> {
    flights: Vec<Flight<Out, L>>,
    wanted: usize,
    most: usize,
    waker: Waker,
}

impl<Out, L> Flights<Out, L> {
    pub(crate) fn new(wanted: usize, waker: Waker) -> Self {
        Flights {
            flights: Vec::new(),
            wanted,
            most: wanted,
            waker,
        }
    }

    /// From now on as many as wanted, as far as `graph` takes them.
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

    /// What is carried.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &L> {
        self.flights.iter().filter_map(|flight| flight.load.as_ref())
    }

    /// Executions that were late and are not over.
    pub(crate) fn overdue(&self) -> usize {
        self.flights.len() - self.loads().count()
    }

    /// When the next one is late.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let waited_for = self.flights.iter().filter(|flight| flight.load.is_some());
        waited_for.map(|flight| flight.deadline).min()
    }

    /// What is carried, when nobody waits for the executions any more.
    pub(crate) fn into_loads(self) -> impl Iterator<Item = L> {
        self.flights.into_iter().filter_map(|flight| flight.load)
    }

    /// Begins an execution. The load of one that was refused comes back.
    pub(crate) fn launch<In: 'static>(
        &mut self,
        graph: &Graph<In, Out>,
        input: In,
        load: L,
        (began, timeout): (Moment, Duration),
    ) -> Result<(), (L, BatchError)> {
        let begin = || graph.try_execute(input).map_err(|refused| refused.error);
        match contained("a value of the graph", begin) {
            Err(panicked) => Err((load, panicked)),
            Ok(Err(refused)) => Err((load, BatchError::Failed(refused))),
            Ok(Ok(execution)) => {
                self.flights.push(Flight {
                    execution,
                    load: Some(load),
                    began,
                    deadline: began.saturating_add(timeout),
                });
                Ok(())
            }
        }
    }

    /// An execution that is over or late. Those that are not have the waker registered.
    pub(crate) fn land(&mut self, now: Moment) -> Option<Landed<Out, L>> {
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
                Some(load) => return Some(Landed { load, began, result }),
                None => discard([result]),
            }
        }
        None
    }
}

fn poll<Out>(execution: &mut Execution<Out>, waker: &Waker) -> Option<Result<Out, BatchError>> {
    let mut context = Context::from_waker(waker);
    match contained("a value of the graph", || execution.poll_result(&mut context)) {
        Err(panicked) => Some(Err(panicked)),
        Ok(Poll::Ready(result)) => Some(result.map_err(BatchError::Failed)),
        Ok(Poll::Pending) => None,
    }
}

/// The last look at an execution whose time is up, and whether it is over: the error says what it is at.
fn late<Out>(execution: &mut Execution<Out>) -> (Result<Out, BatchError>, bool) {
    match contained("a value of the graph", || execution.wait_timeout(Duration::ZERO)) {
        Err(panicked) => (Err(panicked), true),
        Ok(result) => {
            let over = !matches!(result, Err(ExecError::Timeout(_)));
            (result.map_err(BatchError::Failed), over)
        }
    }
}
