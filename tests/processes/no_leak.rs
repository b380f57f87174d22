//! No resource remains after a graph and its runtime are dropped.

use crate::actors::{PLACEMENTS, counter, warm_up};
use crate::alone::alone;
use crate::census;
use selvedge::prelude::*;

#[test]
fn dag_39_dropping_graph_and_runtime_leaves_nothing() -> Result<()> {
    alone(|| {
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
    })
}
