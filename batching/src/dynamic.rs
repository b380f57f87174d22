//! Dynamic batching: each item is in one execution, together with others that came at about the same time.
//!
//! A batch in which a task fails is divided and executed again, until the bad item stands alone. Deaths and time-outs
//! are never retried: after a death the graph has ended, and after a time-out the state of the execution is unknown.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use selvedge_compiler::{Cause, ExecError};

use crate::batcher::Work;
use crate::error::{BatchError, discard};
use crate::graph_slot::{GraphSlot, Running};
use crate::in_flight::{Completed, InFlight};
use crate::queue::Moment;
use crate::shared::Shared;
use crate::ticket::TicketPromise;

/// The items of one execution.
struct Batch<I, O> {
    promises: Vec<TicketPromise<O>>,
    /// The items of `promises`, kept for a retry while the graph executes clones; empty during an execution without a
    /// retry.
    items: Vec<I>,
    /// The moment at which the clients are answered in any case; set with the first try.
    limit: Moment,
    /// The error of the last try.
    error: Option<BatchError>,
    /// The retries that all parts of one batch have left.
    retries: Rc<Cell<u32>>,
}

pub(crate) struct Dynamic<I, O> {
    in_flight: InFlight<Vec<I>, Vec<O>, Batch<I, O>>,
    again: VecDeque<Batch<I, O>>,
    last_completion: Moment,
}

impl<I: Clone + 'static, O> Dynamic<I, O> {
    pub(crate) fn new(inflight: usize, waker: Waker) -> Self {
        Dynamic {
            in_flight: InFlight::new(inflight, waker),
            again: VecDeque::new(),
            last_completion: Moment::ZERO,
        }
    }

    fn complete(&mut self, shared: &Shared<I, O>, completed: Completed<Vec<O>, Batch<I, O>>, now: Moment) {
        let Completed { batch, began, result } = completed;
        let items = batch.promises.len();
        shared.went_through(items, now.saturating_sub(began.max(self.last_completion)));
        self.last_completion = now;
        match result {
            Ok(answers) if answers.len() == items => {
                shared.answer(
                    batch
                        .promises
                        .into_iter()
                        .zip(answers.into_iter().map(Ok))
                        .collect(),
                );
                discard(batch.items);
            }
            Ok(answers) => {
                let count = answers.len();
                let error = BatchError::Miscounted {
                    items,
                    answers: count,
                };
                fail(shared, batch, &error);
                discard(answers);
            }
            Err(error) if items > 1 && batch.items.len() == items && may_be_one_item(&error) => {
                self.divide(batch, error);
            }
            Err(error) => fail(shared, batch, &error),
        }
    }

    fn divide(&mut self, mut batch: Batch<I, O>, error: BatchError) {
        let middle = batch.promises.len() / 2;
        let second = Batch {
            promises: batch.promises.split_off(middle),
            items: batch.items.split_off(middle),
            limit: batch.limit,
            error: Some(error.clone()),
            retries: Rc::clone(&batch.retries),
        };
        batch.error = Some(error);
        self.again.extend([batch, second]);
    }

    /// Answers the parts of failed batches whose time is up, with the error of their last try.
    fn expire(&mut self, shared: &Shared<I, O>, now: Moment) {
        for mut batch in std::mem::take(&mut self.again) {
            match batch.error.take_if(|_| batch.limit <= now) {
                Some(error) => fail(shared, batch, &error),
                None => self.again.push_back(batch),
            }
        }
    }

    /// Returns the batch to execute next: parts of failed batches first, whose time is not up.
    fn next(&mut self, shared: &Shared<I, O>, now: Moment) -> Option<Batch<I, O>> {
        while let Some(mut batch) = self.again.pop_front() {
            let left = batch.retries.get();
            match batch.error.take() {
                Some(error) if left == 0 => fail(shared, batch, &error),
                _ => {
                    batch.retries.set(left - 1);
                    return Some(batch);
                }
            }
        }
        let taken = shared.take();
        if taken.is_empty() {
            return None;
        }
        let entries = taken.into_iter().map(|it| (it.value.promise, it.value.item));
        let (promises, items) = entries.unzip();
        Some(Batch {
            promises,
            items,
            limit: now.saturating_add(shared.options.timeout),
            error: None,
            retries: Rc::new(Cell::new(shared.options.retry_count())),
        })
    }

    /// Begins the execution of a batch. Returns whether the graph took it.
    fn submit(
        &mut self,
        shared: &Shared<I, O>,
        running: &Running<Vec<I>, Vec<O>>,
        mut batch: Batch<I, O>,
        now: Moment,
    ) -> bool {
        let input = if batch.items.len() > 1 && shared.options.retry_count() > 0 {
            clones(shared, &mut batch)
        } else {
            std::mem::take(&mut batch.items)
        };
        if input.is_empty() {
            return true;
        }
        shared.count(|stats| {
            stats.executions += 1;
            stats.sizes.record(input.len() as u64);
        });
        let limit = batch.limit;
        if let Err((batch, error)) = self.in_flight.submit(running, input, batch, (now, limit)) {
            fail(shared, batch, &error);
            return false;
        }
        true
    }
}

impl<I: Clone + Send + 'static, O: 'static> Work for Dynamic<I, O> {
    type Item = I;
    type Output = O;
    type In = Vec<I>;
    type Out = Vec<O>;

    fn turn(
        &mut self,
        shared: &Shared<I, O>,
        graph: &GraphSlot<Vec<I>, Vec<O>>,
        now: Moment,
    ) -> (Option<Moment>, bool) {
        while let Some(completed) = self.in_flight.next_completed(now) {
            self.complete(shared, completed, now);
        }
        graph.check(shared);
        self.expire(shared, now);
        let mut begun = false;
        loop {
            let Some(running) = graph.running(shared) else {
                let cause = shared.cause();
                let refused = self.in_flight.take_refused_if(|_| true);
                let left = refused.into_iter().chain(self.again.drain(..));
                left.for_each(|batch| fail(shared, batch, &cause));
                break;
            };
            self.in_flight.fit(&running.graph);
            match self.in_flight.try_again(&running, now) {
                Ok(has_begun) => begun |= has_begun,
                Err((batch, error)) => {
                    fail(shared, batch, &error);
                    graph.check(shared);
                    continue;
                }
            }
            if !self.in_flight.has_room() {
                break;
            }
            let Some(batch) = self.next(shared, now) else {
                break;
            };
            if !self.submit(shared, &running, batch, now) {
                graph.check(shared);
            }
            begun = true;
        }
        let held = (self.held(), self.in_flight.overdue());
        graph.report(shared, held, |generation| self.in_flight.overdue_on(generation));
        let limits = self.again.iter().map(|batch| batch.limit);
        let wakes_at = self.in_flight.wakes_at(begun, now, limits);
        (wakes_at, self.in_flight.has_room())
    }

    fn held(&self) -> usize {
        let batches = self.in_flight.batches().chain(&self.again);
        batches.map(|batch| batch.promises.len()).sum()
    }

    fn let_go(self) {
        for batch in self.in_flight.into_batches().chain(self.again) {
            discard(batch.promises);
            discard(batch.items);
        }
    }
}

/// Returns clones of the items; the batch keeps the items. An item whose clone panics fails alone.
fn clones<I: Clone, O>(shared: &Shared<I, O>, batch: &mut Batch<I, O>) -> Vec<I> {
    let items = std::mem::take(&mut batch.items).into_iter();
    let promises = std::mem::take(&mut batch.promises);
    let mut clones = Vec::with_capacity(promises.len());
    for (item, promise) in items.zip(promises) {
        match BatchError::catch("an item's clone", || item.clone()) {
            Ok(clone) => {
                clones.push(clone);
                batch.items.push(item);
                batch.promises.push(promise);
            }
            Err(error) => {
                shared.answer(vec![(promise, Err(error))]);
                discard([item]);
            }
        }
    }
    clones
}

fn fail<I, O>(shared: &Shared<I, O>, batch: Batch<I, O>, error: &BatchError) {
    let promises = batch.promises.into_iter();
    shared.answer(promises.map(|promise| (promise, Err(error.clone()))).collect());
    discard(batch.items);
}

/// Whether another division may find the bad item: user code failed, or a value could not be sent or read.
fn may_be_one_item(error: &BatchError) -> bool {
    let BatchError::Failed(ExecError::Task(task)) = error else {
        return false;
    };
    matches!(
        task.cause(),
        Cause::Error { .. } | Cause::Panic { .. } | Cause::Payload { .. } | Cause::Argument { .. }
    )
}
