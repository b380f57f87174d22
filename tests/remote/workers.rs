//! What a worker process has, and what it has not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selvedge::prelude::*;

use super::census::wait_until;
use super::gate::{Gate, wait_at};

/// A global variable, which each process has for itself.
static GLOBAL: AtomicU64 = AtomicU64::new(1);

#[remote]
fn raised() -> u64 {
    GLOBAL.fetch_add(1, Ordering::SeqCst) + 1
}

#[remote]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

struct Idle;

#[actor]
impl Idle {
    pub fn new() -> Self {
        Idle
    }
    pub fn nothing(&mut self) {}
}

#[test]
fn jcode_08_each_process_has_its_own_globals_and_none_runs_main() {
    // The harness, which is this program's `main`, has run this test: here alone.
    GLOBAL.store(100, Ordering::SeqCst);
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    for expected in [2, 3] {
        assert_eq!(runtime.call(raised::remote().on(&a)).wait().unwrap(), expected);
    }
    assert_eq!(runtime.call(raised::remote().on(&b)).wait().unwrap(), 2);
    assert_eq!(GLOBAL.load(Ordering::SeqCst), 100);
}

#[test]
fn jcode_09_a_worker_gets_the_environment_of_its_driver_and_its_own() {
    let runtime = Runtime::new();
    let actor = runtime
        .spawn::<Idle>("idle", ())
        .env("SELVEDGE_TEST_PROJECT", "digits");
    let _actor = actor.in_process().unwrap();
    // The actor's process is the only worker.
    let variable = |name: &str| runtime.call(variable::remote(name)).wait().unwrap();
    assert_eq!(variable("SELVEDGE_TEST_PROJECT").as_deref(), Some("digits"));
    assert_eq!(variable("PATH"), std::env::var("PATH").ok());
    assert!(std::env::var("SELVEDGE_TEST_PROJECT").is_err());
}

#[remote]
fn pid() -> u32 {
    std::process::id()
}

/// Begins, and works until the gate is open, whoever interrupts it.
#[remote]
fn works_on(begun: RemoteChannel<u32>, gate: &str) -> Result<()> {
    begun.put(std::process::id())?;
    wait_at(gate);
    Ok(())
}

#[test]
fn calls_that_name_no_process_go_to_none_that_was_told_to_end() {
    let runtime = Runtime::new();
    let [ends, stays] = ["ends", "stays"].map(|name| runtime.worker(name).unwrap());
    let stays_pid = runtime.call(pid::remote().on(&stays)).wait().unwrap();
    // Whoever schedules knows both.
    runtime.submit(pid::remote()).fetch().unwrap();
    let begun = runtime.channel::<u32>(1).unwrap();
    let gate = Gate::closed("leaving");
    let works = runtime.call(works_on::remote(&begun, &gate.path).on(&ends));
    begun.take().unwrap();
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| ends.end(Duration::from_secs(60)));
        let number = ends.process();
        wait_until(&false, || {
            runtime.processes().iter().any(|name| name.process() == number)
        });
        for _ in 0..10 {
            assert_eq!(runtime.call(pid::remote()).wait().unwrap(), stays_pid);
            assert_eq!(*runtime.submit(pid::remote()).fetch().unwrap(), stays_pid);
        }
        let everywhere = runtime.everywhere(pid::remote()).unwrap();
        assert_eq!(everywhere.len(), 2, "{everywhere:?}");
        drop(gate);
        ended.join().unwrap().unwrap();
    });
    drop(works);
    // Without workers this process runs the calls.
    drop(stays);
    assert_eq!(runtime.call(pid::remote()).wait().unwrap(), std::process::id());
    assert_eq!(
        *runtime.submit(pid::remote()).fetch().unwrap(),
        std::process::id()
    );
}
