//! No resource remains after a graph and its runtime are dropped. One test in this file: it counts the whole process.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod actors;
mod census;

use actors::{PLACEMENTS, counter, warm_up};
use selvedge::prelude::*;

#[test]
fn dag_39_dropping_graph_and_runtime_leaves_nothing() -> Result<()> {
    warm_up();
    let before = census::settled(census::Census::take);
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| b.echo(&a.echo(&x)))?;
        let pending = graph.execute(1);
        drop(graph);
        drop(runtime);
        drop(pending);
    }
    let after = census::wait_until(&before, census::Census::take);
    assert_eq!(after, before);
    Ok(())
}
