//! Workers that are reached over TCP do what children do.

use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{ClusterManager, WorkerCommand, WorkerConfig};
use selvedge::prelude::*;

use crate::census::{Census, settled, wait_until};
use crate::{alone, beside_others, local, pid};

#[remote]
pub fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[remote]
pub fn sum(values: Ref<Vec<u64>>) -> Result<u64> {
    Ok(values.fetch()?.iter().sum())
}

struct Counter {
    count: i64,
}

#[actor]
impl Counter {
    pub fn new(count: i64) -> Self {
        Counter { count }
    }

    pub fn add(&mut self, by: i64) -> i64 {
        self.count += by;
        self.count
    }
}

#[test]
fn functions_run_in_workers_that_were_added() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    let called: Vec<_> = workers
        .iter()
        .map(|worker| runtime.call(pid::remote().on(worker)).wait().unwrap())
        .collect();
    let known: Vec<_> = workers.iter().map(|worker| worker.pid().unwrap()).collect();
    assert_eq!(called, known);
    assert_ne!(known[0], known[1]);
}

/// Passes values between two workers, and between them and a child of the driver.
pub fn values_go_between(runtime: &Runtime, workers: &[Worker]) {
    let child = runtime.worker("child").unwrap();
    for count in [10, 1_000_000] {
        let expected = count * (count - 1) / 2;
        let kept = runtime.keep(numbers::remote(count).on(&workers[0]));
        for reader in [&workers[1], &child, &workers[0]] {
            let found = runtime.call(sum::remote(&kept).on(reader)).wait().unwrap();
            assert_eq!(found, expected, "{}", reader.name());
        }
        let kept = runtime.keep(numbers::remote(count).on(&child));
        let found = runtime.call(sum::remote(&kept).on(&workers[1])).wait().unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn jmgr_03_a_value_goes_from_one_worker_to_another_without_the_driver() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    values_go_between(&runtime, &workers);
}

#[test]
fn actors_live_in_workers_that_were_added_and_graphs_join_them_on_one_host() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    let far = runtime
        .spawn::<Counter>("far", (1,))
        .in_worker(&workers[0])
        .unwrap();
    let other = runtime
        .spawn::<Counter>("other", (10,))
        .in_worker(&workers[1])
        .unwrap();
    assert_eq!(far.call().add(2).wait().unwrap(), 3);
    let graph = runtime.compile(|x: Edge<i64>| other.add(&far.add(&x))).unwrap();
    assert_eq!(graph.run(4).unwrap(), 17);
    assert_eq!(graph.run(1).unwrap(), 25);
}

/// A manager that starts a worker by a command of its own.
struct OwnManager;

impl ClusterManager for OwnManager {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let program = std::env::current_exe()?;
        let command = WorkerCommand::new(program.to_str().unwrap()).variable("SELVEDGE_HOST", "b");
        out(WorkerConfig::default()
            .ident("elsewhere")
            .command(command.bind("127.0.0.1".parse()?)));
        Ok(())
    }
}

#[test]
fn jmgr_05_a_manager_of_the_users_own() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(OwnManager).unwrap();
    assert_eq!(workers[0].name(), "elsewhere");
    let far = runtime
        .spawn::<Counter>("far", (1,))
        .in_worker(&workers[0])
        .unwrap();
    assert_eq!(far.call().add(2).wait().unwrap(), 3);
    let graph = runtime.compile(|x: Edge<i64>| far.add(&x)).unwrap();
    assert_eq!(graph.run(4).unwrap(), 7);
}

#[test]
fn nothing_is_left_of_workers_that_were_added() {
    let _guard = alone();
    let runtime = Runtime::new();
    let round = || {
        let workers = runtime.add(local(2)).unwrap();
        for worker in &workers {
            runtime.call(pid::remote().on(worker)).wait().unwrap();
        }
        for worker in workers {
            worker.end(Duration::from_secs(60)).unwrap();
        }
    };
    // Threads that start processes stay for the next ones.
    round();
    let before = settled(Census::take);
    round();
    round();
    assert_eq!(wait_until(&before, Census::take), before);
}

#[cfg(feature = "parallel")]
#[test]
fn jsa_08_a_worker_of_another_host_is_refused_by_name_and_left_out_by_default() {
    use selvedge::parallel::{SharedArray, SharedArrayError};
    let _guard = beside_others();
    let runtime = Runtime::new();
    let here = runtime.add(local(1)).unwrap().remove(0);
    let there = runtime.add(crate::Elsewhere(&["other"])).unwrap().remove(0);
    let both = SharedArray::<f64>::build(&runtime, [4]).on(&[here.clone(), there.clone()]);
    let error = both.zeroed().unwrap_err();
    assert!(
        matches!(&error, SharedArrayError::NotSameHost { worker } if worker == there.name()),
        "{error}"
    );
    let array = SharedArray::<f64>::build(&runtime, [4]).zeroed().unwrap();
    assert_eq!(array.processes(), [here.process()]);
}
