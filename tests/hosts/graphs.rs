//! Graphs with actors on several hosts, which workers of this one play.

use selvedge::prelude::*;

use crate::{Elsewhere, beside_others};

/// Adds a number, and counts how often.
struct Adder {
    by: i64,
    count: u64,
}

#[actor]
impl Adder {
    pub fn new(by: i64) -> Self {
        Adder { by, count: 0 }
    }

    pub fn add(&mut self, x: i64) -> i64 {
        self.count += 1;
        x + self.by
    }

    pub fn sum(&mut self, x: i64, y: i64) -> i64 {
        x * 1000 + y
    }

    pub fn even(&mut self, x: i64) -> Result<i64> {
        match x % 2 {
            0 => Ok(x + self.by),
            _ => Err(format!("{x} is odd").into()),
        }
    }

    pub fn count(&mut self) -> u64 {
        self.count
    }
}

#[test]
fn dag_46_a_graph_goes_to_another_host_and_back() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b"])).unwrap();
    let near = runtime.spawn::<Adder>("near", (1,)).in_thread().unwrap();
    let far = runtime
        .spawn::<Adder>("far", (10,))
        .in_worker(&workers[0])
        .unwrap();
    let graph = runtime
        .compile(|x: Edge<i64>| near.add(&far.add(&near.add(&x))))
        .unwrap();
    for x in 0..200 {
        assert_eq!(graph.run(x).unwrap(), x + 12);
    }
    let executions: Vec<_> = (0..100).map(|x| graph.execute(x)).collect();
    for (x, execution) in (0..).zip(executions) {
        assert_eq!(execution.wait().unwrap(), x + 12);
    }
    drop(graph);
    assert_eq!(far.call().count().wait().unwrap(), 300);
}
