//! Connections that break while they are used.

use std::fs;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::Worker;
use selvedge::prelude::*;

use crate::census::wait_until;
use crate::{Elsewhere, alone, local};

#[remote]
fn doubled(values: Vec<u64>) -> Vec<u64> {
    values.into_iter().map(|value| 2 * value).collect()
}

struct Log(Vec<u64>);

#[actor]
impl Log {
    pub fn new() -> Self {
        Log(Vec::new())
    }

    pub fn push(&mut self, value: u64) -> usize {
        self.0.push(value);
        self.0.len()
    }

    pub fn all(&mut self) -> Vec<u64> {
        self.0.clone()
    }
}

/// Resets every TCP connection of this process, and returns their number.
#[allow(unsafe_code, reason = "borrows descriptors of the library by their numbers")]
pub fn reset_all() -> usize {
    let numbers = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let sockets = numbers.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:")?;
        entry.file_name().to_str()?.parse().ok()
    });
    let sockets: Vec<i32> = sockets.collect();
    let reset = |number: &i32| {
        // SAFETY: the call gets a number that was open a moment ago. If another socket has it by now, that one is reset
        // instead, and links go on after that too; nothing else in this process has sockets of TCP.
        let socket = unsafe { BorrowedFd::borrow_raw(*number) };
        let is_tcp = rustix::net::getpeername(socket)
            .ok()
            .flatten()
            .is_some_and(|peer| std::net::SocketAddr::try_from(peer).is_ok());
        is_tcp && rustix::net::connect_unspec(socket).is_ok()
    };
    sockets.iter().filter(|number| reset(number)).count()
}

#[test]
fn rref_28_calls_actors_and_channels_go_on_over_connections_that_are_reset() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    work_goes_on_over_resets(&runtime, &workers, Duration::from_millis(10));
}

/// Resets the connections of this process to two workers again and again, while functions and an actor work there.
pub fn work_goes_on_over_resets(runtime: &Runtime, workers: &[Worker], pause: Duration) {
    let log = runtime.spawn::<Log>("log", ()).in_worker(&workers[0]).unwrap();
    let (resets, done, mut pushed) = (AtomicUsize::new(0), AtomicU64::new(0), 0);
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let long: Vec<u64> = (0..400_000).collect();
            // Relaxed: a number that only grows. A fast machine makes more calls until there are enough resets.
            let goes_on = |count: &u64| *count < 300 || resets.load(Ordering::Relaxed) <= 10;
            for count in (0..100_000_u64).take_while(goes_on) {
                let values = match count % 20 {
                    0 => long.clone(),
                    _ => vec![count; 10],
                };
                let expected: Vec<u64> = values.iter().map(|value| 2 * value).collect();
                let worker = &workers[count as usize % 2];
                let found = runtime.call(doubled::remote(&values).on(worker)).wait().unwrap();
                assert_eq!(found, expected);
                pushed = count + 1;
                assert_eq!(log.call().push(count).wait().unwrap(), pushed as usize);
                done.store(pushed, Ordering::Relaxed);
            }
        });
        // A worker whose connections all break before a frame arrives counts as dead, so both have had calls since the last reset.
        let mut since = 0;
        while !calls.is_finished() {
            std::thread::sleep(pause);
            if done.load(Ordering::Relaxed) >= since + 4 {
                resets.fetch_add(reset_all(), Ordering::Relaxed);
                since = done.load(Ordering::Relaxed);
            }
        }
    });
    let resets = resets.into_inner();
    assert!(resets > 10, "{resets}");
    assert_eq!(log.call().all().wait().unwrap(), (0..pushed).collect::<Vec<_>>());
}

/// Resets every TCP connection of a worker.
#[remote]
fn resets() -> u64 {
    reset_all() as u64
}

/// Keeps the numbers that come, in their order.
struct Sequence(Vec<u64>);

#[actor]
impl Sequence {
    pub fn new() -> Self {
        Sequence(Vec::new())
    }

    pub fn next(&mut self, x: Vec<u64>) -> Vec<u64> {
        self.0.extend(x.first());
        x
    }

    pub fn all(&mut self) -> Vec<u64> {
        self.0.clone()
    }
}

#[test]
fn chan_11_a_graph_goes_on_over_connections_that_are_reset_and_no_execution_is_lost_or_doubled() {
    const EXECUTIONS: u64 = 3000;
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "c"])).unwrap();
    let far = [0, 1].map(|at| {
        let spawn = runtime.spawn::<Sequence>(&format!("far {at}"), ());
        spawn.in_worker(&workers[at]).unwrap()
    });
    let graph = runtime
        .compile(|x: Edge<Vec<u64>>| far[1].next(&far[0].next(&x)))
        .unwrap();
    let value = |number: u64| {
        // One that is received into its slot, one that is copied, and short ones.
        let length = match number % 50 {
            7 => 300_000,
            21 => 100_000,
            _ => 3,
        };
        vec![number; length]
    };
    let (mut reset, mut rounds) = (0, 0);
    let mut next = 0;
    while next < EXECUTIONS || rounds < 100 {
        let running: Vec<_> = (next..next + 8)
            .map(|number| graph.execute(value(number)))
            .collect();
        // Some are on their way now.
        if next % 24 == 0 {
            reset += reset_all() as u64;
            rounds += 1;
            if rounds % 4 == 0 {
                reset += runtime.call(resets::remote().on(&workers[0])).wait().unwrap();
            }
        }
        for (number, execution) in (next..).zip(running) {
            assert!(execution.wait().unwrap() == value(number), "execution {number}");
        }
        next += 8;
    }
    drop(graph);
    assert!(reset >= 100, "{reset} connections were reset");
    for far in &far {
        assert_eq!(far.call().all().wait().unwrap(), (0..next).collect::<Vec<_>>());
    }
}

/// The functions that ran in this process, and the objects that live there.
static RUNS: AtomicUsize = AtomicUsize::new(0);
static LIVING: AtomicUsize = AtomicUsize::new(0);

/// A value that stays where it was made.
struct Object(u64);

impl Drop for Object {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::SeqCst);
    }
}

#[remote]
fn made(number: u64) -> Object {
    RUNS.fetch_add(1, Ordering::SeqCst);
    LIVING.fetch_add(1, Ordering::SeqCst);
    Object(number)
}

#[remote]
fn passed_on(object: Ref<Object>) -> Ref<Object> {
    RUNS.fetch_add(1, Ordering::SeqCst);
    object
}

#[remote]
fn number_of(object: Ref<Object>) -> Option<u64> {
    RUNS.fetch_add(1, Ordering::SeqCst);
    object.local().map(|object| object.0)
}

#[remote]
fn counts() -> (usize, usize) {
    (RUNS.load(Ordering::SeqCst), LIVING.load(Ordering::SeqCst))
}

/// Each object is passed from process to process and let go behind it: its count never falls to zero, and does in the end.
#[test]
fn rref_26_jgc_07_functions_run_once_and_references_are_counted_over_connections_that_are_reset() {
    const ROUNDS: u64 = 300;
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere(&["b", "c"])).unwrap();
    let counted = |worker| runtime.call(counts::remote().on(worker)).wait().unwrap();
    let mut reset = 0;
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            for number in 0..ROUNDS {
                let object = runtime.keep(made::remote(number).on(&workers[0]));
                let passed = runtime.call(passed_on::remote(&object).on(&workers[1]));
                drop(object);
                let passed = passed.wait().unwrap();
                let found = runtime.call(number_of::remote(&passed).on(&workers[0]));
                drop(passed);
                assert_eq!(found.wait().unwrap(), Some(number));
            }
        });
        while !rounds.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
            reset += reset_all() as u64;
            reset += runtime.call(resets::remote().on(&workers[0])).wait().unwrap();
        }
    });
    assert!(reset > 10, "{reset}");
    let rounds = ROUNDS as usize;
    assert_eq!(
        wait_until(&(2 * rounds, 0), || counted(&workers[0])),
        (2 * rounds, 0)
    );
    assert_eq!(counted(&workers[1]), (rounds, 0));
}
