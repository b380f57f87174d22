//! The queue of waiting items: ordered by priority and age, limited, each item with a deadline. A plain value without a
//! clock: the caller passes the time.
//!
//! - `QUEUE-1`: an item is in the queue once, and leaves by exactly one of [`Queue::take`], [`Queue::take_one`],
//!   [`Queue::expire`], [`Queue::withdraw`] and [`Queue::clear`].
//! - `QUEUE-2`: the queue never holds more items than its limit.
//! - `QUEUE-3`: the first item is the one with the least `arrival - priority × ageing`; among equals, the one that came
//!   first. The order of two items never changes, so ageing costs nothing, and no item starves: only items that come
//!   within `ageing × levels` after an item can overtake it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::options::Batching;

/// A point in time, as the duration since the batcher began.
pub(crate) type Moment = Duration;

/// The place of an item in the order (`QUEUE-3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// In nanoseconds; negative if a high priority puts the item before the batcher's beginning.
    turn: i128,
    sequence: u64,
}

/// An item that waits.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) value: T,
    pub(crate) cost: usize,
    pub(crate) arrival: Moment,
    pub(crate) deadline: Moment,
}

/// The time at which an execution should begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Now,
    At(Moment),
    Empty,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: usize,
    max_size: usize,
    max_cost: usize,
    max_delay: Duration,
    ageing: i128,
    waiting: BTreeMap<Key, Waiting<T>>,
    /// Ordered by sequence number, hence by arrival.
    arrivals: BTreeMap<u64, Moment>,
    deadlines: BTreeSet<(Moment, Key)>,
    cost: u128,
    next: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new(options: &Batching) -> Self {
        Queue {
            limit: options.queue,
            max_size: options.max_size,
            max_cost: options.max_cost,
            max_delay: options.delay(),
            ageing: i128::try_from(options.ageing.as_nanos()).unwrap_or(i128::MAX),
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            cost: 0,
            next: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit
    }

    /// Queues an item; `arrival` is not before that of any other. Returns the value if the queue is full (`QUEUE-2`).
    pub(crate) fn push(&mut self, item: Waiting<T>, priority: i32) -> Result<Key, T> {
        if self.is_full() {
            return Err(item.value);
        }
        let arrival = i128::try_from(item.arrival.as_nanos()).unwrap_or(i128::MAX);
        let key = Key {
            turn: arrival.saturating_sub(self.ageing.saturating_mul(priority.into())),
            sequence: self.next,
        };
        self.next += 1;
        self.cost += item.cost as u128;
        self.arrivals.insert(key.sequence, item.arrival);
        self.deadlines.insert((item.deadline, key));
        self.waiting.insert(key, item);
        Ok(key)
    }

    /// Takes an item out, at any place in the order.
    pub(crate) fn withdraw(&mut self, key: Key) -> Option<Waiting<T>> {
        let item = self.waiting.remove(&key)?;
        self.arrivals.remove(&key.sequence);
        self.deadlines.remove(&(item.deadline, key));
        self.cost -= item.cost as u128;
        Some(item)
    }

    /// Takes out all items whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Moment) -> Vec<Waiting<T>> {
        let mut expired = Vec::new();
        while let Some((deadline, key)) = self.deadlines.first().copied()
            && deadline <= now
        {
            expired.extend(self.withdraw(key));
        }
        expired
    }

    /// Returns when an execution should begin: at once if there are enough items for a full one, or if the oldest item
    /// has waited for `max_delay`.
    pub(crate) fn ready(&self, now: Moment) -> Ready {
        let Some((_, oldest)) = self.arrivals.first_key_value() else {
            return Ready::Empty;
        };
        let due = oldest.saturating_add(self.max_delay);
        if self.waiting.len() >= self.max_size || self.cost >= self.max_cost as u128 || due <= now {
            return Ready::Now;
        }
        Ready::At(due)
    }

    /// Returns the earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes the items of one execution: in order, at most `max_size`, and while their cost fits. An item that does not
    /// fit blocks the items behind it: the order is kept.
    pub(crate) fn take(&mut self) -> Vec<Waiting<T>> {
        let (mut taken, mut cost) = (Vec::new(), 0_usize);
        while taken.len() < self.max_size
            && let Some((key, item)) = self.waiting.first_key_value()
        {
            cost = cost.saturating_add(item.cost);
            if cost > self.max_cost && !taken.is_empty() {
                break;
            }
            let key = *key;
            taken.extend(self.withdraw(key));
        }
        taken
    }

    /// Takes the first item.
    pub(crate) fn take_one(&mut self) -> Option<Waiting<T>> {
        let key = *self.waiting.first_key_value()?.0;
        self.withdraw(key)
    }

    /// Takes all items, in order.
    pub(crate) fn clear(&mut self) -> Vec<Waiting<T>> {
        std::iter::from_fn(|| self.take_one()).collect()
    }
}

#[cfg(test)]
mod tests;
