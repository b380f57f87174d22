//! Workers that never say hello. Alone in its file: it looks for children of the whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod toys;

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use selvedge_core::{Runtime, SpawnError};
use toys::*;

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

/// Spawns on a thread of its own and stops the new process before it can speak. Stopping comes too late now and
/// then, on a machine that is busy elsewhere; then the worker is ended and another one tried.
fn spawn_a_mute(runtime: &Runtime) -> std::thread::JoinHandle<Result<ToyHandle, SpawnError>> {
    for _ in 0..20 {
        let spawner = runtime.clone();
        let spawn = std::thread::spawn(move || spawner.spawn::<Toy>("mute", FINE).in_process());
        let deadline = soon();
        let child = loop {
            // Not before it has become the worker: who starts a process waits until then, and so would wait for ever.
            let became = |pid: &u32| {
                std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains(": worker mute"))
            };
            if let Some(child) = children().into_iter().find(became) {
                break child;
            }
            assert!(Instant::now() < deadline, "no child");
        };
        kill_process(
            Pid::from_raw(i32::try_from(child).unwrap()).unwrap(),
            Signal::STOP,
        )
        .unwrap();
        std::thread::sleep(Duration::from_millis(200));
        if !spawn.is_finished() {
            return spawn;
        }
        if let Ok(toy) = spawn.join().unwrap() {
            toy.0.kill();
        }
        eventually("it is gone", || children().is_empty());
    }
    panic!("no worker was stopped in time");
}

#[test]
fn a_worker_that_never_says_hello_is_given_up() {
    let _dog = Watchdog::new("silence");
    let runtime = Runtime::new();
    let error = spawn_a_mute(&runtime).join().unwrap().unwrap_err();
    assert!(matches!(error, SpawnError::NoHello { .. }), "{error}");
    assert!(error.to_string().contains("mute"), "{error}");
    assert!(error.to_string().contains("selvedge::init()"), "{error}");
    eventually("it is gone", || children().is_empty());

    // A shutdown does not wait for the hello.
    let spawn = spawn_a_mute(&runtime);
    let started = Instant::now();
    let _report = runtime.shutdown(Duration::from_millis(50));
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    let error = spawn.join().unwrap().unwrap_err();
    assert!(matches!(error, SpawnError::Shutdown), "{error}");
    assert_eq!(
        children(),
        Vec::<u32>::new(),
        "it is reaped when the shutdown returns"
    );
}
