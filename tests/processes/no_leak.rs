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

#[test]
fn dag_39_results_that_are_objects_keep_neither_graph_nor_runtime() -> Result<()> {
    alone(|| {
        warm_up();
        let before = census::settled(census::Census::take);
        for placement in PLACEMENTS {
            let runtime = Runtime::new();
            let a = counter(&runtime, "a", placement);
            let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
            let results: Vec<_> = (0..20).map(|x| graph.submit(x)).collect();
            assert_eq!(*results[7].fetch()?, 7);
            let pending = graph.submit(1);
            // In either order.
            if placement == Placement::Thread {
                drop((runtime, graph));
            } else {
                drop((graph, runtime));
            }
            drop((results, pending));
        }
        let after = census::wait_until(&before, census::Census::take);
        assert_eq!(after, before);
        Ok(())
    })
}
