//! Executions in flight, each with a batch and a time limit, and the batch for which the graph has no room yet.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use selvedge_compiler::{ExecError, Execution, Graph};

use crate::error::{BatchError, discard};
use crate::graph_slot::Running;
use crate::queue::Moment;

struct Pending<Out, B> {
    execution: Execution<Out>,
    /// `None` after the time limit: the clients of the batch have been answered, but the execution still occupies the
    /// graph.
    batch: Option<B>,
    /// The error that those clients were given.
    late: Option<ExecError>,
    began: Moment,
    deadline: Moment,
    /// The number of the graph that executes it.
    generation: u64,
}

/// An execution that is over or late, with the batch that it carried.
pub(crate) struct Completed<Out, B> {
    pub(crate) batch: B,
    pub(crate) began: Moment,
    pub(crate) result: Result<Out, BatchError>,
}

/// A batch for which the graph had no room.
struct NoRoom<In, B> {
    input: In,
    batch: B,
    /// The reason of the last refusal.
    error: BatchError,
    /// The moment at which the batch is answered with that reason.
    limit: Moment,
    /// The moment at which the batch is tried again, unless an execution is over before.
    again: Moment,
}

/// The time after which a batch is tried again if no execution of this batcher is in flight, whose end would tell of room: the
/// graph tells nobody when a lane reads what an execution that has failed has left.
const AGAIN: Duration = Duration::from_millis(5);

pub(crate) struct InFlight<In, Out, B> {
    pending: Vec<Pending<Out, B>>,
    refused: Option<NoRoom<In, B>>,
    wanted: usize,
    most: usize,
    waker: Waker,
}

impl<In: 'static, Out, B> InFlight<In, Out, B> {
    pub(crate) fn new(wanted: usize, waker: Waker) -> Self {
        InFlight {
            pending: Vec::new(),
            refused: None,
            wanted,
            most: wanted,
            waker,
        }
    }

    /// Limits the executions in flight to the wanted number, or to the `max_inflight` of `graph` if that is lower.
    pub(crate) fn fit(&mut self, graph: &Graph<In, Out>) {
        self.most = self
            .wanted
            .min(graph.plan().settings.max_inflight as usize)
            .max(1);
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn has_room(&self) -> bool {
        self.refused.is_none() && self.pending.len() < self.most
    }

    /// Returns the batches of the executions in flight, and the one for which the graph has no room.
    pub(crate) fn batches(&self) -> impl Iterator<Item = &B> {
        let refused = self.refused.iter().map(|it| &it.batch);
        self.pending
            .iter()
            .filter_map(|it| it.batch.as_ref())
            .chain(refused)
    }

    /// Returns the number of executions that were late and are not over.
    pub(crate) fn overdue(&self) -> usize {
        self.pending.iter().filter(|it| it.batch.is_none()).count()
    }

    /// Returns the error of an execution that is late and still occupies the graph with this number.
    pub(crate) fn overdue_on(&self, generation: u64) -> Option<ExecError> {
        let mut on_it = self.pending.iter().filter(|it| it.generation == generation);
        on_it.find_map(|it| it.late.clone())
    }

    /// Returns the moment at which the thread has to look again: when the next execution is late, at the first of the
    /// moments of `others`, or at once if some executions have `begun`. An execution wakes the thread only after it has
    /// been polled, and the next turn polls the new ones.
    pub(crate) fn wakes_at(
        &self,
        begun: bool,
        now: Moment,
        others: impl Iterator<Item = Moment>,
    ) -> Option<Moment> {
        if begun {
            return Some(now);
        }
        let waited_for = self.pending.iter().filter(|it| it.batch.is_some());
        let late = waited_for.map(|it| it.deadline);
        let again = self.refused.iter().map(|it| it.again.min(it.limit));
        late.chain(again).chain(others).min()
    }

    /// Returns the batches and drops the executions.
    pub(crate) fn into_batches(self) -> impl Iterator<Item = B> {
        let refused = self.refused.map(|it| {
            discard([it.input]);
            it.batch
        });
        self.pending.into_iter().filter_map(|it| it.batch).chain(refused)
    }

    /// Begins an execution, which has to be over by `limit`. A batch for which the graph has no room is [tried
    /// again](Self::try_again). If the graph refuses it for another reason, the batch is returned with the error.
    pub(crate) fn submit(
        &mut self,
        running: &Running<In, Out>,
        input: In,
        batch: B,
        (now, limit): (Moment, Moment),
    ) -> Result<(), (B, BatchError)> {
        let begin = || running.graph.try_execute(input);
        match BatchError::catch("a value of the graph", begin) {
            Err(panicked) => Err((batch, panicked)),
            Ok(Err(refused)) if is_full(&refused.error) && limit > now => {
                let again = match self.pending.is_empty() {
                    true => now.saturating_add(AGAIN),
                    false => limit,
                };
                self.refused = Some(NoRoom {
                    input: refused.value,
                    batch,
                    error: BatchError::Failed(refused.error),
                    limit,
                    again,
                });
                Ok(())
            }
            Ok(Err(refused)) => {
                discard([refused.value]);
                Err((batch, BatchError::Failed(refused.error)))
            }
            Ok(Ok(execution)) => {
                self.pending.push(Pending {
                    execution,
                    batch: Some(batch),
                    late: None,
                    began: now,
                    deadline: limit,
                    generation: running.generation,
                });
                Ok(())
            }
        }
    }

    /// Begins the execution for which the graph had no room, if an execution is over since then or its moment has come;
    /// returns whether it has begun. If its time is up, or the graph refuses it for another reason, the batch is returned
    /// with the error.
    pub(crate) fn try_again(
        &mut self,
        running: &Running<In, Out>,
        now: Moment,
    ) -> Result<bool, (B, BatchError)> {
        let due = |it: &mut NoRoom<In, B>| it.again <= now || it.limit <= now;
        let Some(refused) = self.refused.take_if(due) else {
            return Ok(false);
        };
        if refused.limit <= now {
            discard([refused.input]);
            return Err((refused.batch, refused.error));
        }
        self.submit(running, refused.input, refused.batch, (now, refused.limit))?;
        Ok(self.refused.is_none())
    }

    /// Takes back the batch for which the graph had no room, if it is so.
    pub(crate) fn take_refused_if(&mut self, is_so: impl FnOnce(&B) -> bool) -> Option<B> {
        let refused = self.refused.take_if(|it| is_so(&it.batch))?;
        discard([refused.input]);
        Some(refused.batch)
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
                self.refused.iter_mut().for_each(|it| it.again = now);
            } else {
                if let Err(BatchError::Failed(error)) = &result {
                    pending.late = Some(error.clone());
                }
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

/// Whether the graph has no room at the moment, although no more executions are in flight than it may have.
fn is_full(error: &ExecError) -> bool {
    matches!(
        error,
        ExecError::InputsUnread { .. } | ExecError::ResultsBuffered { .. } | ExecError::Timeout(_)
    )
}

fn poll<Out>(execution: &mut Execution<Out>, waker: &Waker) -> Option<Result<Out, BatchError>> {
    let mut context = Context::from_waker(waker);
    match BatchError::catch("a value of the graph", || execution.poll_result(&mut context)) {
        Err(panicked) => Some(Err(panicked)),
        Ok(Poll::Ready(result)) => Some(result.map_err(BatchError::Failed)),
        Ok(Poll::Pending) => None,
    }
}

/// Names the batcher's option as the one that sets the time of a time-out.
fn of_batcher(mut error: ExecError) -> ExecError {
    if let ExecError::Timeout(timeout) = &mut error {
        Arc::make_mut(timeout).option = "Batching::timeout";
    }
    error
}

/// Polls an execution whose time is up once more. Returns its result, and whether it is over; the error of an execution
/// that is not over names its current work.
fn late<Out>(execution: &mut Execution<Out>) -> (Result<Out, BatchError>, bool) {
    match BatchError::catch("a value of the graph", || execution.wait_timeout(Duration::ZERO)) {
        Err(panicked) => (Err(panicked), true),
        Ok(result) => {
            let over = !matches!(result, Err(ExecError::Timeout(_)));
            (
                result.map_err(|error| BatchError::Failed(of_batcher(error))),
                over,
            )
        }
    }
}
