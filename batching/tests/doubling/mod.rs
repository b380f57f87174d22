//! A model that doubles numbers behind a gate, and a batcher in front of it.
#![allow(dead_code)] // each test file uses only a part

use selvedge::prelude::*;

use crate::gate::{Gate, LONG};

pub const PANICS: i64 = i64::MAX;

/// A model that doubles numbers, refuses negative ones, and waits at its gate at the start of each execution.
pub struct Model {
    gate: Gate,
}

#[actor]
impl Model {
    pub fn new(gate: Gate) -> Self {
        Model { gate }
    }

    pub fn double(&mut self, items: &[i64]) -> Result<Vec<i64>> {
        self.gate.enter(items);
        assert!(!items.contains(&PANICS), "no idea what this is");
        if let Some(bad) = items.iter().find(|item| **item < 0) {
            return Err(format!("{bad} is negative").into());
        }
        Ok(items.iter().map(|item| item * 2).collect())
    }

    pub fn lose(&mut self, items: &[i64]) -> Vec<i64> {
        items.iter().skip(1).copied().collect()
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

pub fn spawn(runtime: &Runtime, gate: &Gate, placement: Placement) -> ModelHandle {
    let spawn = runtime.spawn::<Model>("model", (gate.clone(),));
    match placement {
        Placement::Process => spawn.in_process().unwrap(),
        _ => spawn.in_thread().unwrap(),
    }
}

pub fn graph(
    runtime: &Runtime,
    gate: &Gate,
    placement: Placement,
) -> (ModelHandle, Graph<Vec<i64>, Vec<i64>>) {
    let model = spawn(runtime, gate, placement);
    let graph = runtime
        .compile(|items: Edge<Vec<i64>>| model.double(&items))
        .unwrap();
    (model, graph)
}

pub fn batcher(runtime: &Runtime, gate: &Gate, options: Batching) -> Batcher<i64, i64> {
    Batcher::new(graph(runtime, gate, Placement::Thread).1, options).unwrap()
}

/// Options for one execution at a time without a time limit: while a gate blocks the first execution, the test alone
/// decides which items are submitted.
pub fn one_by_one() -> Batching {
    Batching::new().max_inflight(1).max_wait(LONG * 2).timeout(LONG)
}
