//! No resource remains after batchers end. One test in this file: it counts the resources of the whole process.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../../tests/census/mod.rs"]
mod census;

use census::{Census, settled, wait_until};
use selvedge::batching::OnBroken;
use selvedge::prelude::*;

struct Echo;

#[actor]
impl Echo {
    pub fn new() -> Self {
        Echo
    }

    pub fn echo(&mut self, items: &[i64]) -> Vec<i64> {
        items.to_vec()
    }
}

fn graph(runtime: &Runtime, process: bool) -> (EchoHandle, Graph<Vec<i64>, Vec<i64>>) {
    let spawn = runtime.spawn::<Echo>("echo", ());
    let echo = if process {
        spawn.in_process()
    } else {
        spawn.in_thread()
    }
    .unwrap();
    let graph = runtime
        .compile(|items: Edge<Vec<i64>>| echo.echo(&items))
        .unwrap();
    (echo, graph)
}

/// Batchers that are used, closed, dropped with items in every state, broken and replaced: the counts of threads,
/// descriptors, children and segments return to their first values.
#[test]
fn batchers_leave_nothing() {
    let round = |index: usize| {
        let runtime = Runtime::new();
        let (echo, held) = graph(&runtime, index % 2 == 1);
        let batcher = Batcher::new(held, Batching::new().on_broken(OnBroken::Keep)).unwrap();
        let tickets: Vec<_> = (0..50).map(|item| batcher.submit(item)).collect();
        if index % 4 == 3 {
            echo.actor().kill();
            batcher.breakage().wait().unwrap();
            batcher.replace(graph(&runtime, false).1);
        }
        assert!(batcher.submit(7).wait().is_ok());
        if index.is_multiple_of(3) {
            batcher.close(std::time::Duration::ZERO);
        }
        drop(batcher);
        drop(runtime);
        drop(tickets);
    };
    (0..4).for_each(round);
    let before = settled(Census::take);
    (0..12).for_each(round);
    assert_eq!(wait_until(&before, Census::take), before);
}
