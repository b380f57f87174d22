//! User code that panics: the panic affects no other item and no other client.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use crate::gate::{Gate, LONG};
use selvedge::batching::{BatchError, ContinuousBatcher, Grant, Sequence, SubmitOptions};
use selvedge::prelude::*;
use serde::{Deserialize, Serialize};

const SERVER: &str = "bombed";
const UNCLONABLE: i64 = 13;

/// An item that panics when it is dropped on the batcher's thread, if it is a bomb; its clones are no bombs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Item {
    number: i64,
    bomb: bool,
}

fn bomb(number: i64) -> Item {
    Item { number, bomb: true }
}

impl Clone for Item {
    fn clone(&self) -> Self {
        assert_ne!(self.number, UNCLONABLE, "no clone of this");
        let number = self.number;
        Item { number, bomb: false }
    }
}

fn go_off() {
    assert_ne!(thread::current().name(), Some(SERVER), "boom");
}

impl Drop for Item {
    fn drop(&mut self) {
        if self.bomb {
            go_off();
        }
    }
}

struct Model {
    gate: Gate,
}

#[actor]
impl Model {
    pub fn new(gate: Gate) -> Self {
        Model { gate }
    }

    pub fn numbers(&mut self, items: &[Item]) -> Vec<i64> {
        let numbers: Vec<_> = items.iter().map(|item| item.number).collect();
        self.gate.enter(&numbers);
        numbers
    }

    pub fn step(&mut self, parts: &[i64]) -> Vec<i64> {
        self.gate.enter(parts);
        parts.to_vec()
    }
}

/// Options for executions of exactly two items, one at a time, without a time limit.
fn two_by_two() -> Batching {
    one_at_a_time().max_size(2).max_delay(LONG)
}

/// Options for one execution at a time, without a time limit.
fn one_at_a_time() -> Batching {
    Batching::new()
        .named(SERVER)
        .max_inflight(1)
        .max_wait(LONG * 2)
        .timeout(LONG)
}

fn batcher(runtime: &Runtime, gate: &Gate, options: Batching) -> Batcher<Item, i64> {
    let model = runtime
        .spawn::<Model>("model", (gate.clone(),))
        .in_thread()
        .unwrap();
    let graph = runtime
        .compile(|items: Edge<Vec<Item>>| model.numbers(&items))
        .unwrap();
    Batcher::new(graph, options).unwrap()
}

#[test]
fn a_drop_that_panics_does_not_end_the_batcher() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let batcher = batcher(&runtime, &gate, two_by_two());
    for round in 0..3 {
        let tickets = [round, 5].map(|number| batcher.submit(bomb(number)));
        assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [round, 5]);
        let past = SubmitOptions::new().deadline(Instant::now());
        let late = batcher.submit_with(bomb(1), past).wait();
        assert!(matches!(late, Err(BatchError::Expired { .. })), "{late:?}");
    }
}

/// The remaining items are dropped one by one: two panics at once would end the process.
#[test]
fn what_is_left_is_dropped_one_by_one() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, two_by_two());
    let tickets = [1, 2, 3, 4].map(|number| batcher.submit(bomb(number)));
    gate.wait_entered(1);
    assert_eq!(batcher.close(Duration::ZERO), 4);
    for ticket in tickets {
        assert!(matches!(ticket.wait(), Err(BatchError::Closed)));
    }
    gate.open();
}

#[test]
fn a_clone_that_panics_fails_its_item_only() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let batcher = batcher(&runtime, &gate, two_by_two().max_size(4));
    let tickets = [1, UNCLONABLE, 2, UNCLONABLE].map(|number| batcher.submit(bomb(number)));
    let [one, first, two, second] = tickets.map(|ticket| ticket.wait());
    assert_eq!((one.unwrap(), two.unwrap()), (1, 2));
    for panicked in [first, second] {
        assert!(
            matches!(&panicked, Err(BatchError::Panicked { message, .. }) if message.contains("no clone of this")),
            "{panicked:?}"
        );
    }
    assert_eq!(gate.seen(), [[1, 2]]);
}

struct Endless;

impl Sequence for Endless {
    type Step = Vec<i64>;
    type Answers = Vec<i64>;
    type Output = ();

    fn join(&mut self, step: &mut Vec<i64>, grant: Grant) {
        step.push(grant.slot.into());
    }

    fn advance(&mut self, _: &mut Vec<i64>, _: Grant) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        go_off();
    }
}

/// The remaining sequences are dropped one by one, even if every destructor panics.
#[test]
fn sequences_that_are_left_are_dropped_one_by_one() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let model = runtime
        .spawn::<Model>("model", (gate.clone(),))
        .in_thread()
        .unwrap();
    let graph = runtime
        .compile(|parts: Edge<Vec<i64>>| model.step(&parts))
        .unwrap();
    let batcher: ContinuousBatcher<Endless> =
        Batcher::continuous(graph, one_at_a_time().max_size(3)).unwrap();
    let first = batcher.submit(Endless);
    gate.wait_entered(1);
    let others = [batcher.submit(Endless), batcher.submit(Endless)];
    gate.pass();
    gate.wait_entered(2);
    assert_eq!(gate.sizes(), [1, 3]);
    assert_eq!(batcher.close(Duration::ZERO), 3);
    for ticket in others.into_iter().chain([first]) {
        assert!(matches!(ticket.wait(), Err(BatchError::Closed)));
    }
    gate.open();
}
