//! Comparison of the queue with a plain list, over random operations.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use proptest::prelude::*;

use super::{Key, Moment, Queue, Ready, Waiting};
use crate::options::Batching;

const LIMIT: usize = 8;
const SIZE: usize = 3;
const COST: usize = 10;
const DELAY: Duration = Duration::from_nanos(6);
const AGEING: Duration = Duration::from_nanos(4);

#[derive(Clone, Debug)]
enum Step {
    Push {
        priority: i32,
        cost: usize,
        patience: u64,
    },
    Take,
    TakeOne,
    Withdraw {
        which: usize,
    },
    Pass {
        nanos: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (-3..4, 1..=COST, 0..30_u64).prop_map(|(priority, cost, patience)| Step::Push {
        priority,
        cost,
        patience,
    });
    let step = prop_oneof![
        4 => push,
        1 => Just(Step::Take),
        1 => Just(Step::TakeOne),
        1 => (0..40_usize).prop_map(|which| Step::Withdraw { which }),
        2 => (1..10_u64).prop_map(|nanos| Step::Pass { nanos }),
    ];
    prop::collection::vec(step, 0..80)
}

/// The oracle's record of an item; the item's value is its index in the list of all items.
#[derive(Clone, Copy, Debug)]
struct Item {
    key: Key,
    priority: i32,
    cost: usize,
    arrival: Moment,
    deadline: Moment,
    waits: bool,
    left: u32,
}

#[derive(Default)]
struct Oracle {
    items: Vec<Item>,
}

impl Oracle {
    /// Whether `a` goes before `b` by the documentation: by priority, unless the other has waited longer by `AGEING`
    /// for each level; among equals, the one that came first.
    fn before(&self, a: usize, b: usize) -> bool {
        let (x, y) = (self.items[a], self.items[b]);
        let worth =
            |item: Item| item.arrival.as_nanos() as i64 - i64::from(item.priority) * AGEING.as_nanos() as i64;
        (worth(x), a) < (worth(y), b)
    }

    fn in_order(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = (0..self.items.len())
            .filter(|index| self.items[*index].waits)
            .collect();
        // Sorted by pairwise comparison, so that `before` alone determines the order.
        waiting.sort_by(|a, b| self.before(*b, *a).cmp(&self.before(*a, *b)));
        waiting
    }

    fn leave(&mut self, left: impl IntoIterator<Item = usize>) {
        for index in left {
            self.items[index].waits = false;
            self.items[index].left += 1;
        }
    }

    fn batch(&self) -> Vec<usize> {
        let mut cost = 0;
        let in_order = self.in_order().into_iter().take(SIZE);
        in_order
            .take_while(|index| {
                cost += self.items[*index].cost;
                cost <= COST
            })
            .collect()
    }

    fn ready(&self, now: Moment) -> Ready {
        let waiting: Vec<Item> = self.items.iter().copied().filter(|item| item.waits).collect();
        let Some(oldest) = waiting.iter().map(|item| item.arrival).min() else {
            return Ready::Empty;
        };
        let cost: usize = waiting.iter().map(|item| item.cost).sum();
        let due = oldest + DELAY;
        if waiting.len() >= SIZE || cost >= COST || due <= now {
            Ready::Now
        } else {
            Ready::At(due)
        }
    }
}

fn values(taken: Vec<Waiting<usize>>) -> Vec<usize> {
    taken.into_iter().map(|it| it.value).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// QUEUE-1, QUEUE-2, QUEUE-3: after any operations, every item leaves once, in order, and no more items wait than
    /// may.
    #[test]
    fn queue_1_2_3_does_as_the_list_does(steps in steps()) {
        let options = Batching::new().queue(LIMIT).max_size(SIZE).max_cost(COST).max_delay(DELAY).ageing(AGEING);
        let (mut queue, mut oracle, mut now) = (Queue::new(&options), Oracle::default(), Moment::ZERO);
        for step in steps {
            match step {
                Step::Push { priority, cost, patience } => {
                    let deadline = now + Duration::from_nanos(patience);
                    let waiting = Waiting { value: oracle.items.len(), cost, arrival: now, deadline };
                    let full = oracle.in_order().len() == LIMIT;
                    let pushed = queue.push(waiting, priority);
                    prop_assert_eq!(pushed.is_err(), full);
                    if let Ok(key) = pushed {
                        oracle.items.push(Item { key, priority, cost, arrival: now, deadline, waits: true, left: 0 });
                    }
                }
                Step::Take => {
                    let (expected, taken) = (oracle.batch(), values(queue.take()));
                    prop_assert_eq!(&taken, &expected);
                    oracle.leave(taken);
                }
                Step::TakeOne => {
                    let taken = queue.take_one().map(|it| it.value);
                    prop_assert_eq!(taken, oracle.in_order().first().copied());
                    oracle.leave(taken);
                }
                Step::Withdraw { which } => {
                    let Some(item) = oracle.items.get(which).copied() else { continue };
                    let gone = queue.withdraw(item.key).map(|it| it.value);
                    prop_assert_eq!(gone, item.waits.then_some(which));
                    oracle.leave(gone);
                }
                Step::Pass { nanos } => {
                    now += Duration::from_nanos(nanos);
                    let mut expired = values(queue.expire(now));
                    expired.sort_unstable();
                    let late = |index: &usize| oracle.items[*index].waits && oracle.items[*index].deadline <= now;
                    let expected: Vec<usize> = (0..oracle.items.len()).filter(late).collect();
                    prop_assert_eq!(&expired, &expected);
                    oracle.leave(expired);
                }
            }
            prop_assert_eq!(queue.len(), oracle.in_order().len());
            prop_assert_eq!(queue.is_empty(), oracle.in_order().is_empty());
            prop_assert_eq!(queue.ready(now), oracle.ready(now));
            let deadlines = oracle.items.iter().filter(|item| item.waits).map(|item| item.deadline);
            prop_assert_eq!(queue.next_deadline(), deadlines.min());
        }
        let rest = values(queue.clear());
        prop_assert_eq!(&rest, &oracle.in_order());
        oracle.leave(rest);
        prop_assert!(oracle.items.iter().all(|item| item.left == 1));
    }
}

/// QUEUE-3: an item of low priority is overtaken only by items that come within `AGEING` for each level.
#[test]
fn queue_3_nothing_starves() {
    let options = Batching::new().ageing(AGEING);
    let mut queue = Queue::new(&options);
    let at = |nanos| Waiting {
        value: nanos,
        cost: 1,
        arrival: Duration::from_nanos(nanos),
        deadline: Duration::MAX,
    };
    queue.push(at(0), 0).unwrap();
    for nanos in 1..100 {
        queue.push(at(nanos), 2).unwrap();
    }
    let order: Vec<u64> = std::iter::from_fn(|| queue.take_one().map(|it| it.value)).collect();
    let place = order.iter().position(|value| *value == 0);
    assert_eq!(
        place,
        Some(7),
        "two levels of 4 ns: what comes at 8 ns and later is behind"
    );
}

/// Priorities at their limits, and costs whose sum does not fit a `usize`, neither wrap nor panic.
#[test]
fn the_largest_numbers_do_not_wrap() {
    let mut queue = Queue::new(&Batching::new().ageing(Duration::MAX));
    for priority in [i32::MIN, 0, i32::MAX] {
        let waiting = Waiting {
            value: priority,
            cost: usize::MAX,
            arrival: Duration::MAX,
            deadline: Duration::MAX,
        };
        queue.push(waiting, priority).unwrap();
    }
    let order: Vec<i32> = queue.clear().into_iter().map(|it| it.value).collect();
    assert_eq!(order, [i32::MAX, 0, i32::MIN]);
}
