//! Calls that add workers take turns, and one that fails fixes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{AddError, ClusterManager, Topology, WorkerConfig};
use selvedge::prelude::*;

use crate::{beside_others, local, pid};

/// Counts the managers that launch at the same time.
#[derive(Clone, Default)]
struct Launching {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl ClusterManager for Launching {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let now = self.now.fetch_add(1, Ordering::AcqRel) + 1;
        self.most.fetch_max(now, Ordering::AcqRel);
        local(2).launch(out)?;
        // Long enough for the others to come in between, if they could.
        std::thread::sleep(Duration::from_millis(50));
        self.now.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }
}

#[test]
fn jclust_07_one_call_at_a_time_adds_workers() {
    let _guard = beside_others();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let launching = Launching::default();
    let added: Vec<Vec<Worker>> = std::thread::scope(|scope| {
        let add = || runtime.add(launching.clone()).unwrap();
        let adding: Vec<_> = (0..3).map(|_| scope.spawn(add)).collect();
        adding.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(launching.most.load(Ordering::Acquire), 1);
    assert_eq!(added.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
    for worker in added.iter().flatten() {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
    }
}

/// Adds workers while it launches.
struct Nested(Runtime);

impl ClusterManager for Nested {
    fn launch(&self, _: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let error = self.0.add(local(1)).unwrap_err();
        assert!(matches!(error, AddError::WithinAdd), "{error}");
        Err(error.into())
    }
}

#[test]
fn jclust_07_a_manager_that_adds_workers_while_it_launches_is_told_so() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let error = runtime.add(Nested(runtime.clone())).unwrap_err();
    assert!(
        error.to_string().contains("return from `launch` first"),
        "{error}"
    );
    runtime.add(local(1)).unwrap();
}

/// Fails after its worker was started.
struct Failing;

impl ClusterManager for Failing {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        local(1).launch(out)?;
        Err("no more machines".into())
    }

    fn topology(&self) -> Topology {
        Topology::MasterWorker
    }
}

#[test]
fn a_call_that_fails_does_not_fix_the_topology() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    runtime.add(Failing).unwrap_err();
    let workers = runtime.add(local(2)).unwrap();
    let error = runtime.add(Failing).unwrap_err();
    assert!(matches!(error, AddError::TopologyFixed { .. }), "{error}");
    assert_eq!(workers.len(), 2);
}
