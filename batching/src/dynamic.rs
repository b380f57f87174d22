//! Dynamic batching: each item is in one execution, together with others that came at about the same time.
//!
//! A batch in which a task fails is divided and executed again, until the bad item stands alone. Deaths and time-outs
//! are never retried: after a death the graph has ended, and after a time-out the state of the execution is unknown.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use selvedge_compiler::{Cause, ExecError, Graph};

use crate::batcher::Work;
use crate::error::{BatchError, discard};
use crate::graph_slot::GraphSlot;
use crate::in_flight::{Finished, InFlight};
use crate::queue::Moment;
use crate::shared::Shared;
use crate::ticket::TicketPromise;

/// The items of one execution.
struct DynamicGroup<I, O> {
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
    flights: InFlight<Vec<O>, DynamicGroup<I, O>>,
    again: VecDeque<DynamicGroup<I, O>>,
    last_landing: Moment,
}

impl<I: Clone + 'static, O> Dynamic<I, O> {
    pub(crate) fn new(inflight: usize, waker: Waker) -> Self {
        Dynamic {
            flights: InFlight::new(inflight, waker),
            again: VecDeque::new(),
            last_landing: Moment::ZERO,
        }
    }

    fn landed(&mut self, shared: &Shared<I, O>, landed: Finished<Vec<O>, DynamicGroup<I, O>>, now: Moment) {
        let Finished { load, began, result } = landed;
        let items = load.promises.len();
        shared.went_through(items, now.saturating_sub(began.max(self.last_landing)));
        self.last_landing = now;
        match result {
            Ok(answers) if answers.len() == items => {
                shared.answer(
                    load.promises
                        .into_iter()
                        .zip(answers.into_iter().map(Ok))
                        .collect(),
                );
                discard(load.items);
            }
            Ok(answers) => {
                let count = answers.len();
                let error = BatchError::Miscounted {
                    items,
                    answers: count,
                };
                fail(shared, load, &error);
                discard(answers);
            }
            Err(error) if items > 1 && load.items.len() == items && may_be_one_item(&error) => {
                self.divide(load, error);
            }
            Err(error) => fail(shared, load, &error),
        }
    }

    fn divide(&mut self, mut group: DynamicGroup<I, O>, error: BatchError) {
        let middle = group.promises.len() / 2;
        let second = DynamicGroup {
            promises: group.promises.split_off(middle),
            items: group.items.split_off(middle),
            limit: group.limit,
            error: Some(error.clone()),
            retries: Rc::clone(&group.retries),
        };
        group.error = Some(error);
        self.again.extend([group, second]);
    }

    /// Returns the group to execute next: parts of failed batches first.
    fn next(&mut self, shared: &Shared<I, O>, now: Moment) -> Option<DynamicGroup<I, O>> {
        while let Some(mut group) = self.again.pop_front() {
            let left = group.retries.get();
            match group.error.take() {
                Some(error) if left == 0 || group.limit <= now => fail(shared, group, &error),
                _ => {
                    group.retries.set(left - 1);
                    return Some(group);
                }
            }
        }
        let taken = shared.take();
        if taken.is_empty() {
            return None;
        }
        let entries = taken.into_iter().map(|it| (it.value.promise, it.value.item));
        let (promises, items) = entries.unzip();
        Some(DynamicGroup {
            promises,
            items,
            limit: now.saturating_add(shared.options.timeout),
            error: None,
            retries: Rc::new(Cell::new(shared.options.retries)),
        })
    }

    /// Begins the execution of a group. Returns whether the graph took it.
    fn launch(
        &mut self,
        shared: &Shared<I, O>,
        graph: &Graph<Vec<I>, Vec<O>>,
        mut group: DynamicGroup<I, O>,
        now: Moment,
    ) -> bool {
        let input = if group.items.len() > 1 && shared.options.retries > 0 {
            clones(shared, &mut group)
        } else {
            std::mem::take(&mut group.items)
        };
        if input.is_empty() {
            return true;
        }
        shared.count(|stats| {
            stats.executions += 1;
            stats.sizes.record(input.len() as u64);
        });
        let time = group.limit.saturating_sub(now);
        if let Err((group, error)) = self.flights.launch(graph, input, group, (now, time)) {
            fail(shared, group, &error);
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
        while let Some(landed) = self.flights.land(now) {
            self.landed(shared, landed, now);
        }
        graph.check(shared);
        let mut begun = false;
        loop {
            let Some(running) = graph.running(shared) else {
                let cause = shared.cause();
                self.again.drain(..).for_each(|group| fail(shared, group, &cause));
                break;
            };
            self.flights.fit(&running.graph);
            if !self.flights.has_room() {
                break;
            }
            let Some(group) = self.next(shared, now) else {
                break;
            };
            if !self.launch(shared, &running.graph, group, now) {
                graph.check(shared);
            }
            begun = true;
        }
        let (held, overdue) = (self.held(), self.flights.overdue());
        shared.count(|stats| (stats.in_flight, stats.overdue) = (held, overdue));
        // An execution wakes the thread only after it has been polled. The next turn polls the new ones, so it is due
        // now.
        let wakes_at = if begun {
            Some(now)
        } else {
            self.flights.next_deadline()
        };
        (wakes_at, self.flights.has_room())
    }

    fn held(&self) -> usize {
        let groups = self.flights.loads().chain(&self.again);
        groups.map(|group| group.promises.len()).sum()
    }

    fn let_go(self) {
        for group in self.flights.into_loads().chain(self.again) {
            discard(group.promises);
            discard(group.items);
        }
    }
}

/// Returns clones of the items; the group keeps the items. An item whose clone panics fails alone.
fn clones<I: Clone, O>(shared: &Shared<I, O>, group: &mut DynamicGroup<I, O>) -> Vec<I> {
    let items = std::mem::take(&mut group.items).into_iter();
    let promises = std::mem::take(&mut group.promises);
    let mut clones = Vec::with_capacity(promises.len());
    for (item, promise) in items.zip(promises) {
        match BatchError::catch("an item's clone", || item.clone()) {
            Ok(clone) => {
                clones.push(clone);
                group.items.push(item);
                group.promises.push(promise);
            }
            Err(error) => {
                shared.answer(vec![(promise, Err(error))]);
                discard([item]);
            }
        }
    }
    clones
}

fn fail<I, O>(shared: &Shared<I, O>, group: DynamicGroup<I, O>, error: &BatchError) {
    let promises = group.promises.into_iter();
    shared.answer(promises.map(|promise| (promise, Err(error.clone()))).collect());
    discard(group.items);
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
