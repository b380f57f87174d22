//! Dynamic batching: what is in one execution, and what becomes of items that fail.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod gate;

use std::time::{Duration, Instant};

use gate::{Gate, LONG};
use selvedge::batching::{BatchError, Batcher, Batching, OnBroken, Terms};
use selvedge::prelude::*;

/// Doubles; refuses what is negative, and waits for its gate at the start of each execution.
struct Model {
    gate: Gate,
}

#[actor]
impl Model {
    pub fn new(gate: Gate) -> Self {
        Model { gate }
    }

    pub fn double(&mut self, items: &[i64]) -> Result<Vec<i64>> {
        self.gate.enter(items.len());
        if let Some(bad) = items.iter().find(|item| **item < 0) {
            return Err(format!("{bad} is negative").into());
        }
        Ok(items.iter().map(|item| item * 2).collect())
    }

    pub fn each(&mut self, items: &[i64]) -> Vec<Result<i64, String>> {
        let one = |item: &i64| {
            if *item < 0 {
                Err(format!("{item} is negative"))
            } else {
                Ok(item * 2)
            }
        };
        items.iter().map(one).collect()
    }
}

fn batcher(runtime: &Runtime, gate: &Gate, options: Batching) -> Batcher<i64, i64> {
    let model = runtime
        .spawn::<Model>("model", (gate.clone(),))
        .in_thread()
        .unwrap();
    let graph = runtime
        .compile(|items: Edge<Vec<i64>>| model.double(&items))
        .unwrap();
    Batcher::new(graph, options).unwrap()
}

#[test]
fn what_comes_while_an_execution_runs_is_in_the_next() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, Batching::new().max_inflight(1));
    let first = batcher.submit(0);
    gate.wait_entered(1);
    let rest: Vec<_> = (1..10).map(|item| batcher.submit(item)).collect();
    gate.open();
    assert_eq!(first.wait().unwrap(), 0);
    let rest: Vec<i64> = rest.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(rest, (1..10).map(|item| item * 2).collect::<Vec<_>>());
    assert_eq!(gate.sizes(), [1, 9]);
    let stats = batcher.stats();
    assert_eq!((stats.executions, stats.answered, stats.queued), (2, 10, 0));
}

#[test]
fn a_full_batch_does_not_wait_for_the_delay() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let options = Batching::new().max_size(3).max_delay(LONG).max_wait(LONG * 2);
    let batcher = batcher(&runtime, &gate, options);
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    let doubled = tickets.map(|ticket| ticket.wait().unwrap());
    assert_eq!((doubled, gate.sizes()), ([2, 4, 6], vec![3]));
}
