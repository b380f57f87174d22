//! Deaths of workers and of drivers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use selvedge::prelude::*;

use crate::census::{is_alive, wait_until};
use crate::{beside_others, forever, local, part, pid};

pub struct Quiet;

#[actor]
impl Quiet {
    pub fn new() -> Self {
        Quiet
    }

    pub fn pid(&mut self) -> u32 {
        std::process::id()
    }
}

pub fn kill_9(pid: u32) {
    signal(pid, Signal::KILL);
}

pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_worker_that_is_killed_is_named_to_everybody_who_waits() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    let [victim, other] = [workers[0].pid().unwrap(), workers[1].pid().unwrap()];
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    let actor = runtime
        .spawn::<Quiet>("quiet", ())
        .in_worker(&workers[0])
        .unwrap();
    let kept: Ref<u32> = workers[0].keep(pid::remote());
    kept.ready().unwrap();
    kill_9(victim);
    let errors = [
        waiting.wait().unwrap_err().to_string(),
        actor.call().pid().wait().unwrap_err().to_string(),
        runtime
            .call(pid::remote().on(&workers[0]))
            .wait()
            .unwrap_err()
            .to_string(),
        kept.fetch().unwrap_err().to_string(),
    ];
    for error in errors {
        for part in [
            "process ",
            "died",
            "`local 1`",
            &format!("pid {victim}"),
            "signal 9 (SIGKILL)",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
    assert_eq!(runtime.call(pid::remote().on(&workers[1])).wait().unwrap(), other);
}

/// Says that it has begun, and never returns.
#[remote]
fn begins(begun: RemoteChannel<u32>) -> Result<()> {
    begun.put(std::process::id())?;
    forever();
    Ok(())
}

/// The error of a call that this worker makes to another one.
#[remote]
fn error_of_begun(process: u32, begun: RemoteChannel<u32>) -> Result<String> {
    let process = selvedge::hosts::ProcessId::new(process).unwrap();
    let call = Runtime::current()?.call(begins::remote(&begun).on_process(process));
    Ok(call.wait().unwrap_err().to_string())
}

#[test]
fn a_worker_hears_how_another_one_has_ended() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    let begun = runtime.channel::<u32>(1).unwrap();
    let process = workers[1].process().number();
    let error = runtime.call(error_of_begun::remote(process, &begun).on(&workers[0]));
    let victim = begun.take().unwrap();
    kill_9(victim);
    let error = error.wait().unwrap();
    for part in ["died", &format!("pid {victim}"), "signal 9 (SIGKILL)"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_actor_whose_worker_was_killed_is_built_again_in_a_new_process() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1)).unwrap();
    let actor = runtime
        .spawn::<Quiet>("quiet", ())
        .restart(Restart::OnFailure { max: 1 })
        .in_worker(&workers[0])
        .unwrap();
    let first = actor.call().pid().wait().unwrap();
    kill_9(first);
    wait_until(&true, || actor.call().pid().wait().is_ok_and(|pid| pid != first));
    let second = actor.call().pid().wait().unwrap();
    assert_eq!(
        runtime.call(pid::remote().on(&workers[0])).wait().unwrap(),
        second
    );
}

/// A driver that adds workers, says their pids, and waits to be killed.
#[test]
#[ignore = "a part of the test below"]
fn a_driver() {
    if std::env::var_os("SELVEDGE_TEST_DRIVER").is_none() {
        return;
    }
    let runtime = Runtime::new();
    let manager = local(2);
    #[cfg(feature = "tls")]
    let manager = match std::env::var_os("SELVEDGE_TEST_TLS") {
        Some(_) => manager.transport(selvedge::hosts::LinkTransport::tls().unwrap()),
        None => manager,
    };
    let workers = runtime.add(manager).unwrap();
    for worker in &workers {
        println!("worker: {}", worker.pid().unwrap());
    }
    std::thread::sleep(Duration::from_secs(600));
}

/// Starts a driver in a process of its own, and returns the pids of its workers.
fn driver(worker_timeout_ms: u32) -> (Child, Vec<u32>) {
    started(part("deaths::a_driver"), worker_timeout_ms)
}

fn started(mut driver: Command, worker_timeout_ms: u32) -> (Child, Vec<u32>) {
    let mut driver = driver
        .env("SELVEDGE_WORKER_TIMEOUT_MS", worker_timeout_ms.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let pids = lines.filter_map(|line| line.unwrap().split_once("worker: ")?.1.parse::<u32>().ok());
    let pids: Vec<_> = pids.take(2).collect();
    assert_eq!(pids.len(), 2, "the driver has added no workers");
    (driver, pids)
}

#[test]
fn jclust_10_workers_end_with_their_driver() {
    let _guard = beside_others();
    let (mut driver, pids) = driver(60_000);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert!(wait_until(&true, || !pids.iter().any(|pid| is_alive(*pid))));
}

/// Under TLS a stream that breaks off may come back, so the workers wait for their driver for as long as it may dial.
#[cfg(feature = "tls")]
#[test]
fn jclust_10_workers_under_tls_end_with_their_driver() {
    let _guard = beside_others();
    let mut part = part("deaths::a_driver");
    part.env("SELVEDGE_TEST_TLS", "1");
    let (mut driver, pids) = started(part, 60_000);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert!(wait_until(&true, || !pids.iter().any(|pid| is_alive(*pid))));
}

#[test]
fn jclust_09_workers_end_when_nothing_is_heard_of_their_driver() {
    let _guard = beside_others();
    let (mut driver, pids) = driver(10_000);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    // Its connections stay.
    signal(driver.id(), Signal::STOP);
    let ended = wait_until(&true, || !pids.iter().any(|pid| is_alive(*pid)));
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert!(ended);
}

#[test]
fn a_worker_that_is_stopped_is_silent_and_does_not_come_back() {
    let _guard = beside_others();
    let runtime = Runtime::new().silence_timeout(Duration::from_secs(1));
    let workers = runtime.add(local(1)).unwrap();
    let of_worker = workers[0].pid().unwrap();
    let actor = runtime
        .spawn::<Quiet>("quiet", ())
        .in_worker(&workers[0])
        .unwrap();
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    signal(of_worker, Signal::STOP);
    let error = waiting.wait().unwrap_err().to_string();
    assert!(error.contains("died"), "{error}");
    let error = actor.call().pid().wait().unwrap_err().to_string();
    assert!(error.contains("no sign of life"), "{error}");
    assert!(!is_alive(of_worker));
}
