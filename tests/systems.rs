//! What every system has: threads, inline actors, graphs, calls, collectives between threads and batching. The gate also
//! runs this file with `--cfg selvedge_portable`, which leaves out all that belongs to Linux.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use selvedge::batching::SubmitOptions;
use selvedge::prelude::*;
use selvedge::{ExecError, NotAllowed, SpawnError};

/// Whether this build has worker processes.
const HAS_PROCESSES: bool = cfg!(all(target_os = "linux", not(selvedge_portable)));

struct Stage {
    adds: i64,
}

#[actor]
impl Stage {
    pub fn new(adds: i64) -> Self {
        Stage { adds }
    }

    pub fn add(&mut self, x: i64) -> Result<i64> {
        x.checked_add(self.adds).ok_or_else(|| "overflow".into())
    }

    pub async fn add_later(&mut self, x: i64) -> i64 {
        x + self.adds
    }

    pub fn vector(&mut self, x: i64) -> Vec<i64> {
        vec![x, self.adds]
    }

    pub fn all(&mut self, xs: &[i64]) -> Vec<i64> {
        xs.iter().map(|x| x + self.adds).collect()
    }
}

#[test]
fn a_graph_of_threads_and_inline_actors_runs_whatever_its_waits_are() {
    for wait in [Wait::Auto, Wait::Park, Wait::Spin] {
        let runtime = Runtime::new();
        let first = runtime.spawn::<Stage>("first", (1,)).in_thread().unwrap();
        let second = runtime.spawn::<Stage>("second", (2,)).in_thread().unwrap();
        let last = runtime.spawn::<Stage>("last", (3,)).inline().unwrap();
        let options = Options::new()
            .wait(wait)
            .max_inflight(4)
            .timeout(Duration::from_secs(60));
        let graph = runtime
            .compile_with(options, |x: Edge<i64>| {
                last.add(&second.add_later(&first.add(&x)))
            })
            .unwrap();
        assert_eq!(graph.run(10).unwrap(), 16);
        let all: Vec<i64> = graph.map(0..1000).map(Result::unwrap).collect();
        assert!(all.iter().zip(6..).all(|(found, expected)| *found == expected));
        assert!(matches!(graph.run(i64::MAX), Err(ExecError::Task(_))));
        assert_eq!(graph.run(1).unwrap(), 7);
        drop(graph);
        assert_eq!(first.call().add(1).wait().unwrap(), 2);
        assert_eq!(last.call().add(1).wait().unwrap(), 4);
    }
}

#[test]
fn a_graph_that_is_late_ends_its_wait_by_the_deadline() {
    struct Sleeper;
    #[actor]
    impl Sleeper {
        pub fn new() -> Self {
            Sleeper
        }
        pub fn until(&mut self, end: std::sync::mpsc::Receiver<()>) -> bool {
            end.recv().is_err()
        }
    }
    let runtime = Runtime::new();
    let sleeper = runtime.spawn::<Sleeper>("sleeper", ()).in_thread().unwrap();
    let options = Options::new().wait(Wait::Park).timeout(Duration::from_millis(20));
    let graph = runtime
        .compile_with(options, |end: Edge<std::sync::mpsc::Receiver<()>>| {
            sleeper.until(&end)
        })
        .unwrap();
    let (keep, end) = std::sync::mpsc::channel();
    assert!(matches!(graph.run(end), Err(ExecError::Timeout { .. })));
    drop(keep);
}

#[test]
fn ranks_on_threads_do_collectives() {
    let runtime = Runtime::new();
    let ranks = [10, 20].map(|adds| {
        let spawn = runtime.spawn::<Stage>(format!("rank{adds}"), (adds,));
        spawn.in_thread().unwrap()
    });
    let graph = runtime
        .compile(|x: Edge<i64>| {
            let sums = allreduce(ReduceOp::Sum, ranks.each_ref().map(|rank| rank.vector(&x)));
            let all = allgather(ranks.each_ref().map(|rank| rank.vector(&x)));
            (sums, all)
        })
        .unwrap();
    for x in 0..100 {
        let ([a, b], [all, _]) = graph.run(x).unwrap();
        assert_eq!((&a, &b), (&vec![2 * x, 30], &vec![2 * x, 30]));
        assert_eq!(all, [x, 10, x, 20]);
    }
}

#[test]
fn a_batcher_serves_clients_on_threads() {
    let runtime = Runtime::new();
    let model = runtime.spawn::<Stage>("model", (5,)).in_thread().unwrap();
    let graph = runtime.compile(|xs: Edge<Vec<i64>>| model.all(&xs)).unwrap();
    let batcher = Batcher::new(graph, Batching::new().max_size(8).queue(1000)).unwrap();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let batcher = &batcher;
            scope.spawn(move || {
                for item in 0..50 {
                    let x = client * 1000 + item;
                    let ticket = batcher.try_submit(x, SubmitOptions::new()).unwrap();
                    assert_eq!(ticket.wait().unwrap(), x + 5);
                }
            });
        }
    });
}

#[test]
fn processes_run_on_linux_and_are_refused_by_type_elsewhere() {
    let runtime = Runtime::new();
    let spawned = runtime.spawn::<Stage>("stage", (1,)).in_process();
    if HAS_PROCESSES {
        assert_eq!(spawned.unwrap().call().add(1).wait().unwrap(), 2);
        return;
    }
    let refused = spawned.err().unwrap();
    assert!(
        matches!(refused, SpawnError::NotAllowed(NotAllowed::NoProcesses)),
        "{refused}"
    );
    assert!(refused.to_string().contains("in_thread"), "{refused}");
    assert!(runtime.spawn::<Stage>("stage", (1,)).in_thread().is_ok());
}
