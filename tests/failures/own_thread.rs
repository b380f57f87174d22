//! Graphs that are used by a method on one of their own threads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::ShutdownReport;
use selvedge::prelude::*;

type SharedGraph = Arc<Mutex<Option<Graph<i64, i64>>>>;

/// An actor that has the graph in which it runs.
struct Owner(SharedGraph);

#[actor(local)]
impl Owner {
    pub fn drop_graph(&mut self, x: i64) -> i64 {
        drop(self.0.lock().unwrap().take());
        x
    }

    pub fn tear_down(&mut self, x: i64) -> Result<i64> {
        let graph = self.0.lock().unwrap().take().ok_or("no graph")?;
        let stuck = graph.teardown().stuck;
        assert!(stuck.is_empty(), "{stuck:?}");
        Ok(x)
    }

    pub fn run(&mut self, x: i64) -> Result<i64> {
        match &*self.0.lock().unwrap() {
            Some(graph) if x > 0 => Ok(graph.execute(x - 1).wait_timeout(Duration::from_millis(300))?),
            _ => Ok(x),
        }
    }

    pub fn echo(&mut self, x: i64) -> i64 {
        x
    }
}

fn owner(runtime: &Runtime) -> Result<(OwnerHandle, SharedGraph)> {
    let graph = SharedGraph::default();
    let its = Arc::clone(&graph);
    let owner = runtime.spawn_with("owner", move || Owner(its)).in_thread()?;
    Ok((owner, graph))
}

#[test]
fn a_method_that_ends_the_graph_in_which_it_runs_waits_for_nobody_and_its_actor_goes_on() -> Result<()> {
    let runtime = Runtime::new();
    let (owner, shared) = owner(&runtime)?;
    for tears_down in [false, true] {
        let graph = runtime.compile(|x: Edge<i64>| match tears_down {
            true => owner.tear_down(&x),
            false => owner.drop_graph(&x),
        })?;
        let mut place = shared.lock().unwrap();
        let execution = graph.execute(1);
        *place = Some(graph);
        drop(place);
        // The graph has ended before the result was taken, or after.
        let _ = execution.wait();
        assert_eq!(owner.call().echo(2).wait()?, 2);
        let again = runtime.compile(|x: Edge<i64>| owner.echo(&x))?;
        assert_eq!(again.run(3)?, 3, "the thread is free");
    }
    let report = runtime.shutdown(Duration::from_secs(60));
    assert_eq!(report, ShutdownReport::default());
    Ok(())
}

#[test]
fn a_method_that_waits_for_its_own_thread_is_told_so() -> Result<()> {
    let runtime = Runtime::new();
    let (owner, shared) = owner(&runtime)?;
    let graph = runtime.compile(|x: Edge<i64>| owner.run(&x))?;
    let mut place = shared.lock().unwrap();
    let execution = graph.execute(1);
    *place = Some(graph);
    drop(place);
    let error = execution.wait().unwrap_err().to_string();
    assert!(error.contains("use the graph from outside"), "{error}");
    let graph = shared.lock().unwrap().take();
    drop(graph);
    Ok(())
}
