//! Graphs with actors on several hosts, which workers of this one play.

#[cfg(target_os = "linux")]
use std::{collections::BTreeMap, ffi::OsString, fs::DirEntry};

use std::fs::File;
use std::time::Duration;

use rustix::process::Signal;
use selvedge::hosts::{ClusterManager, Topology, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{DType, ExecError, Phase, Suspect, Worker, allreduce};

use crate::census::{Census, settled, wait_until};
use crate::deaths::{kill_9, signal};
use crate::played::{Adder, AdderHandle};
use crate::{Elsewhere, alone, beside_others};

fn adder(runtime: &Runtime, name: &str, by: i64, worker: &Worker) -> AdderHandle {
    let spawn = runtime.spawn::<Adder>(name, (by,));
    spawn.in_worker(worker).unwrap()
}

#[test]
fn dag_46_a_graph_goes_to_another_host_and_back() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b"])).unwrap();
    let near = runtime.spawn::<Adder>("near", (1,)).in_thread().unwrap();
    let far = adder(&runtime, "far", 10, &workers[0]);
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

/// The number of times that each thread of this name has waited.
#[cfg(target_os = "linux")]
fn waits_of(name: &str) -> BTreeMap<OsString, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm"));
        comm.is_ok_and(|comm| name.starts_with(comm.trim()))
    });
    let waited = |task: DirEntry| Some((task.file_name(), crate::census::sleeps_of(&task.path())?));
    named.filter_map(waited).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn dag_46_a_short_message_is_sent_by_whoever_writes_it_and_wakes_no_thread_on_its_way() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b"])).unwrap();
    let far = runtime
        .spawn::<Adder>("far", (10,))
        .in_worker(&workers[0])
        .unwrap();
    for wait in [Wait::Park, Wait::Auto, Wait::Spin] {
        let options = Options::new().wait(wait);
        let graph = runtime.compile_with(options, |x: Edge<i64>| far.add(&x)).unwrap();
        assert_eq!(graph.run(0).unwrap(), 10);
        let before = waits_of("selvedge-shuttle");
        for x in 0..500 {
            assert_eq!(graph.run(x).unwrap(), x + 10);
        }
        // Threads of a graph before may have ended meanwhile.
        let after = waits_of("selvedge-shuttle").into_iter();
        let waits = after.map(|(thread, waits)| waits - before.get(&thread).copied().unwrap_or_default());
        let waits: u64 = waits.sum();
        assert!(waits < 50, "{waits} waits in 500 executions, {wait:?}");
    }
}

#[test]
fn chan_10_edges_join_processes_of_four_hosts() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "b", "c", "d"])).unwrap();
    let child = runtime.worker("child").unwrap();
    let spawn = |name: &str, by: i64, worker: &Worker| adder(&runtime, name, by, worker);
    let near = runtime.spawn::<Adder>("near", (1,)).in_thread().unwrap();
    let [b0, b1, c, d] =
        [0, 1, 2, 3].map(|at| spawn(&format!("far {at}"), 10 * (at as i64 + 1), &workers[at]));
    let beside = spawn("beside", 2, &workers[0]);
    let child = spawn("child", 3, &child);
    let graph = runtime
        .compile(|x: Edge<i64>| {
            let a = near.add(&x); // read in five processes of three hosts
            let (p, q, r) = (b0.add(&a), b1.add(&a), beside.add(&a));
            let s = c.sum(&a, &p); // from b to c
            let t = child.sum(&a, &s); // from c to the driver's host
            let u = d.sum(&t, &q); // from b and the driver's host to d
            (a, r, s, t, u)
        })
        .unwrap();
    let expected = |x: i64| {
        let a = x + 1;
        let (p, q, r) = (a + 10, a + 20, a + 2);
        let s = a * 1000 + p;
        let t = a * 1000 + s;
        (a, r, s, t, t * 1000 + q)
    };
    for round in 0..20 {
        let executions: Vec<_> = (0..10).map(|x| graph.execute(100 * round + x)).collect();
        for (x, execution) in (100 * round..).zip(executions) {
            assert_eq!(execution.wait().unwrap(), expected(x));
        }
    }
}

/// Values that fit a slot, that make channels grow, and that go in many chunks.
#[test]
fn chan_11_values_of_all_lengths_arrive_whole() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b"])).unwrap();
    let far = runtime
        .spawn::<Mirrored>("far", ())
        .in_worker(&workers[0])
        .unwrap();
    let graph = runtime.compile(|x: Edge<Tensor>| far.turned(&x)).unwrap();
    for bytes in [0, 1, 40, 1000, 70_000, 5 << 20, 3, 33 << 20, 64 << 10] {
        let tensor = Tensor::filled(DType::U8, [bytes], |bytes| {
            for (at, byte) in bytes.iter_mut().enumerate().step_by(997) {
                *byte = (at % 251) as u8;
            }
        });
        let tensor = tensor.unwrap();
        let turned = graph.run(tensor.clone()).unwrap();
        let [there, back] = [tensor.bytes(), turned.bytes()];
        assert!(there.iter().eq(back.iter().rev()), "{bytes} bytes");
    }
}

/// Turns the bytes of a tensor.
struct Mirrored;

#[actor]
impl Mirrored {
    pub fn new() -> Self {
        Mirrored
    }

    pub fn turned(&mut self, x: &Tensor) -> Result<Tensor> {
        let mut bytes = x.bytes().to_vec();
        bytes.reverse();
        Ok(Tensor::filled(DType::U8, [bytes.len()], |into| {
            into.copy_from_slice(&bytes)
        })?)
    }
}

#[test]
fn task_08_an_error_on_another_host_is_that_of_its_execution_alone() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "c"])).unwrap();
    let far = adder(&runtime, "far", 10, &workers[0]);
    let then = adder(&runtime, "then", 1, &workers[1]);
    let graph = runtime.compile(|x: Edge<i64>| then.add(&far.even(&x))).unwrap();
    let executions: Vec<_> = (0..8).map(|x| graph.execute(x)).collect();
    for (x, execution) in (0..).zip(executions) {
        match execution.wait() {
            Ok(found) => assert_eq!((x % 2, found), (0, x + 11)),
            Err(error) => assert!(
                x % 2 == 1 && error.to_string().contains(&format!("{x} is odd")),
                "{x}: {error}"
            ),
        }
    }
    assert_eq!(then.call().count().wait().unwrap(), 4);
}

#[test]
fn dag_39_graphs_over_hosts_end_and_leave_nothing() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "b"])).unwrap();
    let far = [0, 1].map(|at| adder(&runtime, &format!("far {at}"), 1, &workers[at]));
    let round = |executions: i64| {
        let graph = runtime
            .compile(|x: Edge<i64>| far[1].add(&far[0].add(&x)))
            .unwrap();
        let running: Vec<_> = (0..executions).map(|x| graph.execute(x)).collect();
        let ended = graph.teardown();
        assert!(ended.stuck.is_empty());
        drop(running);
    };
    let count = || {
        let far = workers
            .iter()
            .map(|worker| runtime.call(census::remote().on(worker)).wait().unwrap());
        (settled(Census::take), far.collect::<Vec<_>>())
    };
    round(1);
    let before = count();
    for executions in [0, 1, 7, 0, 3] {
        round(executions);
    }
    assert_eq!(wait_until(&before, count), before);
}

/// The threads, descriptors and segments of a worker.
#[remote]
fn census() -> (usize, usize, usize) {
    let found = settled(Census::take);
    (found.threads, found.descriptors, found.segments)
}

#[test]
fn a_worker_of_another_host_that_is_killed_ends_the_graph_with_its_name() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    for victim in 0..2 {
        let workers = runtime.add(Elsewhere(&["b", "c"])).unwrap();
        let far = [0, 1].map(|at| adder(&runtime, &format!("far {at}"), 1, &workers[at]));
        let graph = runtime
            .compile(|x: Edge<i64>| far[1].add(&far[0].add(&x)))
            .unwrap();
        assert_eq!(graph.run(1).unwrap(), 3);
        let pid = workers[victim].pid().unwrap();
        let killed = std::time::Instant::now();
        kill_9(pid);
        let error = loop {
            match graph.run(1) {
                Ok(found) => assert_eq!(found, 3),
                Err(error) => break error,
            }
        };
        println!("known after {:?}: {error}", killed.elapsed());
        let ExecError::ActorDied(died) = &error else {
            panic!("{error}")
        };
        assert_eq!(died.actor, format!("far {victim}"));
        let text = error.to_string();
        let host = format!("on host `{}`", ["b", "c"][victim]);
        assert!(text.contains(&host) && text.contains("SIGKILL"), "{text}");
        let ended = graph.teardown();
        assert!(ended.stuck.is_empty());
        // The other actor is free again.
        assert_eq!(far[1 - victim].call().add(1).wait().unwrap(), 2);
    }
}

#[test]
fn chan_12_an_edge_for_which_there_is_no_link_ends_the_graph_and_is_named() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Apart).unwrap();
    let far = [0, 1].map(|at| adder(&runtime, &format!("far {at}"), 1, &workers[at]));
    let graph = runtime
        .compile(|x: Edge<i64>| far[1].add(&far[0].add(&x)))
        .unwrap();
    let error = graph.run(1).unwrap_err().to_string();
    let names = |host: &str| error.contains(&format!("on host `{host}`) with its part in `far 0.add`"));
    assert!(names("b") || names("c"), "{error}");
    assert!(graph.teardown().stuck.is_empty());
}

/// Workers of two hosts that have no link with each other.
struct Apart;

impl ClusterManager for Apart {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        Elsewhere(&["b", "c"]).launch(out)
    }

    fn topology(&self) -> Topology {
        Topology::MasterWorker
    }
}

/// A method that awaits for ever: only its end is awaited.
struct Endless;

#[actor]
impl Endless {
    pub fn new() -> Self {
        Endless
    }

    pub async fn wait(&mut self, x: i64) -> i64 {
        if x == 0 {
            std::future::pending::<()>().await;
        }
        x
    }
}

#[test]
fn task_02_a_method_that_awaits_on_another_host_ends_with_its_execution_and_with_the_graph() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "b"])).unwrap();
    let far = runtime
        .spawn::<Endless>("far", ())
        .in_worker(&workers[1])
        .unwrap();
    let first = adder(&runtime, "first", 0, &workers[0]);
    let graph = runtime.compile(|x: Edge<i64>| far.wait(&first.add(&x))).unwrap();
    assert_eq!(graph.run(4).unwrap(), 4);
    // Dropped, it is cancelled, and the next one is computed.
    let awaiting = graph.execute(0);
    drop(awaiting);
    assert_eq!(graph.run(5).unwrap(), 5);
    let _awaiting = graph.execute(0);
    let begun = std::time::Instant::now();
    let ended = graph.teardown();
    assert!(ended.stuck.is_empty(), "{ended:?} after {:?}", begun.elapsed());
}

/// Waits for the lock of a file before it passes a value on.
struct Gated;

#[actor]
impl Gated {
    pub fn new() -> Self {
        Gated
    }

    pub fn pass(&mut self, x: i64, #[constant] gate: &str) -> Result<i64> {
        File::open(gate)?.lock_shared()?;
        Ok(x)
    }
}

#[test]
fn buf_06_slots_let_a_writer_run_ahead_of_readers_on_another_host() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b"])).unwrap();
    let near = runtime.spawn::<Adder>("near", (1,)).in_thread().unwrap();
    let far = runtime.spawn::<Gated>("far", ()).in_worker(&workers[0]).unwrap();
    let path = std::env::temp_dir().join(format!("selvedge-gate-{}", std::process::id()));
    let gate = File::create(&path).unwrap();
    gate.lock().unwrap();
    let options = Options::new().max_inflight(9).slots(2);
    let name = path.to_str().unwrap();
    let graph = runtime
        .compile_with(options, |x: Edge<i64>| far.pass(&near.add(&x), name.to_owned()))
        .unwrap();
    let executions: Vec<_> = (0..9).map(|x| graph.execute(x)).collect();
    // Two slots there are full and two here, one or none of which the reader has; two more messages are on their way, and the
    // writer waits with one.
    let ran = || near.call().count().wait().unwrap();
    assert!(wait_until(&true, || ran() >= 7));
    assert!(settled(ran) <= 8);
    gate.unlock().unwrap();
    for (x, execution) in (0..).zip(executions) {
        assert_eq!(execution.wait().unwrap(), x + 1);
    }
    std::fs::remove_file(&path).unwrap();
}

/// The bytes that this process has sent to another one along edges.
fn sent(runtime: &Runtime, to: &Worker) -> u64 {
    let traffic = runtime.traffic().into_iter();
    let edges = traffic.filter(|it| it.service == "graphs" && it.process == to.process().number());
    edges.map(|it| it.counts.bytes_sent).sum()
}

#[test]
fn q_09_four_readers_on_another_host_cost_one_message() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "b", "b"])).unwrap();
    let readers: Vec<_> = (0..4)
        .map(|at| {
            let spawn = runtime.spawn::<Length>(&format!("reader {at}"), ());
            spawn.in_worker(&workers[at % 3]).unwrap()
        })
        .collect();
    let graph = runtime
        .compile(|x: Edge<Tensor>| {
            let lengths: Vec<_> = readers.iter().map(|reader| reader.of(&x)).collect();
            <[_; 4]>::try_from(lengths)
                .map(|[a, b, c, d]| (a, b, c, d))
                .ok()
                .unwrap()
        })
        .unwrap();
    let bytes = 4 << 20;
    let tensor = Tensor::zeros::<u8>(&[bytes]).unwrap();
    let before: Vec<u64> = workers.iter().map(|worker| sent(&runtime, worker)).collect();
    for _ in 0..5 {
        assert_eq!(graph.run(tensor.clone()).unwrap(), (bytes, bytes, bytes, bytes));
    }
    let after = workers.iter().map(|worker| sent(&runtime, worker));
    let sent: u64 = after.zip(before).map(|(after, before)| after - before).sum();
    let payload = 5 * bytes as u64;
    assert!(
        (payload..payload + payload / 50).contains(&sent),
        "{sent} bytes for {payload}"
    );
}

struct Length;

#[actor]
impl Length {
    pub fn new() -> Self {
        Length
    }

    pub fn of(&mut self, x: &Tensor) -> usize {
        x.bytes().len()
    }
}

#[test]
fn chan_21_a_value_of_more_than_512_mib_goes_to_another_host() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b"])).unwrap();
    let far = runtime.spawn::<Length>("far", ()).in_worker(&workers[0]).unwrap();
    let options = Options::new().max_inflight(1).timeout(Duration::from_secs(60));
    let graph = runtime
        .compile_with(options, |x: Edge<Tensor>| far.of(&x))
        .unwrap();
    let bytes = 520 << 20;
    let tensor = Tensor::zeros::<u8>(&[bytes]).unwrap();
    assert_eq!(graph.run(tensor).unwrap(), bytes);
}

#[test]
fn a_time_out_names_the_task_that_computes_on_another_host() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "c"])).unwrap();
    let path = std::env::temp_dir().join(format!("selvedge-stuck-{}", std::process::id()));
    let gate = File::create(&path).unwrap();
    gate.lock().unwrap();
    let far = runtime.spawn::<Gated>("far", ()).in_worker(&workers[0]).unwrap();
    let then = adder(&runtime, "then", 1, &workers[1]);
    let name = path.to_str().unwrap().to_owned();
    let graph = runtime
        .compile(|x: Edge<i64>| then.add(&far.pass(&x, name)))
        .unwrap();
    let mut execution = graph.execute(1);
    let is_named = |suspects: &[Suspect], actor, phase| {
        let [suspect] = suspects else { return false };
        (suspect.actor.as_str(), suspect.phase) == (actor, phase)
    };
    let mut computes = || match execution.wait_timeout(Duration::from_millis(1)) {
        Err(ExecError::Timeout(timeout)) => is_named(&timeout.suspects, "far", Phase::Computing),
        other => panic!("{other:?}"),
    };
    assert!(wait_until(&true, &mut computes));
    // A process that answers nobody is named as such.
    signal(workers[1].pid().unwrap(), Signal::STOP);
    let is_silent = wait_until(&true, || is_named(&graph.suspects(), "then", Phase::Silent));
    signal(workers[1].pid().unwrap(), Signal::CONT);
    assert!(is_silent);
    gate.unlock().unwrap();
    assert_eq!(graph.run(5).unwrap(), 6);
    std::fs::remove_file(&path).unwrap();
}

/// A rank that scales what it gets.
struct Scaled(f32);

#[actor]
impl Scaled {
    pub fn new(scale: f32) -> Self {
        Scaled(scale)
    }

    pub fn part(&mut self, x: &Tensor) -> Result<Tensor> {
        let values = x.as_slice::<f32>()?;
        if self.0 == 3.0 && values[0] == 13.0 {
            return Err("13 is no part of the third rank".into());
        }
        let scaled: Vec<f32> = values.iter().map(|value| value / self.0).collect();
        Ok(Tensor::from_slice(&scaled, x.shape())?)
    }

    pub fn bits(&mut self, x: &Tensor) -> Result<Vec<u32>> {
        Ok(x.as_slice::<f32>()?.iter().map(|value| value.to_bits()).collect())
    }
}

#[test]
fn comm_23_a_collective_joins_ranks_of_three_hosts() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "b", "c"])).unwrap();
    let child = runtime.worker("child").unwrap();
    let spawn = |at: u16| runtime.spawn::<Scaled>(&format!("rank {at}"), (f32::from(at),));
    let ranks = [
        spawn(1).in_worker(&workers[0]).unwrap(),
        spawn(2).in_thread().unwrap(),
        spawn(3).in_worker(&workers[2]).unwrap(),
        spawn(4).in_worker(&workers[1]).unwrap(),
        spawn(5).in_worker(&child).unwrap(),
    ];
    let graph = runtime
        .compile(|x: Edge<Tensor>| {
            let parts = ranks.iter().map(|rank| rank.part(&x));
            let sums = allreduce(ReduceOp::Sum, parts.collect::<Vec<_>>());
            let bits = ranks.iter().zip(&sums).map(|(rank, sum)| rank.bits(sum));
            bits.collect::<Vec<_>>()
        })
        .unwrap();
    let tensor = |first: f32| {
        let values: Vec<f32> = (0..3000).map(|at| first + at as f32).collect();
        Tensor::from_slice(&values, &[3000]).unwrap()
    };
    let running: Vec<_> = (10..20_u16)
        .map(|first| (first, graph.execute(tensor(first.into()))))
        .collect();
    for (first, execution) in running {
        let found = execution.wait();
        if first == 13 {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("13 is no part of the third rank"), "{error}");
            continue;
        }
        let found = found.unwrap();
        assert!(found.iter().all(|bits| *bits == found[0]), "equal bit for bit");
        let exact: f32 = (1..=5_u16).map(|rank| f32::from(first) / f32::from(rank)).sum();
        assert!((f32::from_bits(found[0][0]) - exact).abs() < 1e-3);
    }
    kill_9(workers[1].pid().unwrap());
    let error = loop {
        if let Err(error) = graph.run(tensor(1.0)) {
            break error;
        }
    };
    assert!(
        matches!(&error, ExecError::ActorDied(died) if died.actor == "rank 4"),
        "{error}"
    );
    assert!(graph.teardown().stuck.is_empty());
}
