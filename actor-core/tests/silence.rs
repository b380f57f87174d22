//! Workers that never say hello. The file has one test, because it looks for children of the whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod toys;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use selvedge_core::{Restart, Runtime, SpawnError, Worker};
use toys::*;

/// A duration well below the default time that a worker has to say hello.
const HELLO: Duration = Duration::from_secs(4);
/// The time that a worker has to say hello in the first part of the test.
const SHORT: Duration = Duration::from_millis(300);

fn children() -> Vec<u32> {
    let lists = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split(' ')
                .filter_map(|pid| pid.trim().parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

fn signal(pid: u32, signal: Signal) {
    // A process that has gone needs no signal.
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

/// Starts a worker from a thread of its own, and stops it as soon as it is a worker. The scheduler decides whether it
/// has said hello before that; the caller checks the result of the start, and tries again.
fn start_and_stop(runtime: &Runtime) -> JoinHandle<Result<Worker, SpawnError>> {
    let starter = runtime.clone();
    let start = std::thread::spawn(move || starter.worker("mute"));
    stop_new(None);
    start
}

/// Stops the worker that starts, unless its process is `old`.
fn stop_new(old: Option<u32>) {
    let deadline = soon();
    loop {
        // The process must have become the worker: its starter waits until then, and would otherwise wait for ever.
        let became = |pid: &u32| {
            Some(*pid) != old
                && std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains(": worker mute"))
        };
        if let Some(child) = children().into_iter().find(became) {
            signal(child, Signal::STOP);
            return;
        }
        assert!(Instant::now() < deadline, "no child");
    }
}

/// Kills a worker that was stopped too late.
fn end(worker: &Worker) {
    worker.pid().into_iter().for_each(|pid| signal(pid, Signal::KILL));
    eventually("it is gone", || children().is_empty());
}

#[test]
fn a_worker_that_never_says_hello_is_given_up() {
    let _dog = Watchdog::new("silence");
    let runtime = Runtime::new().hello_timeout(SHORT);
    let error = loop {
        match start_and_stop(&runtime).join().unwrap() {
            Ok(worker) => end(&worker),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SpawnError::NoHello { .. }), "{error}");
    assert!(error.to_string().contains("mute"), "{error}");
    assert!(error.to_string().contains("selvedge::init()"), "{error}");
    assert!(error.to_string().contains("(300ms passed"), "{error}");
    assert!(error.to_string().contains("Runtime::hello_timeout"), "{error}");
    eventually("it is gone", || children().is_empty());

    // An end does not wait for the hello of a process that restarts.
    loop {
        let runtime = Runtime::new();
        let worker = runtime.worker("mute").unwrap();
        let restart = Restart::OnFailure { max: 1 };
        let spawn = runtime.spawn::<Toy>("phoenix", FINE).restart(restart);
        let toy = spawn.in_worker(&worker).unwrap();
        let pid = toy.real_pid();
        kill_9(pid);
        stop_new(Some(pid));
        let ended = worker.end(Duration::from_millis(50));
        if ended.is_ok() {
            break;
        }
        // The worker was stopped too late, and had to be killed.
        eventually("it is gone", || children().is_empty());
    }

    // A shutdown does not wait for the hello, and reaps the process. One that is still on its launch thread is ended there.
    let error = loop {
        let runtime = Runtime::new();
        let start = start_and_stop(&runtime);
        let started = Instant::now();
        let _report = runtime.shutdown(Duration::from_millis(50));
        assert!(started.elapsed() < HELLO, "it waited: {:?}", started.elapsed());
        let is_reaped = children().is_empty();
        match start.join().unwrap() {
            Ok(worker) => end(&worker),
            Err(error) if is_reaped => break error,
            Err(_) => eventually("it is gone", || children().is_empty()),
        }
    };
    assert!(matches!(error, SpawnError::Shutdown), "{error}");
}
