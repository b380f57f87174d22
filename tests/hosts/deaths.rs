//! Deaths of workers and of drivers.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge::prelude::*;

use crate::census::{is_alive, wait_until};
use crate::{beside_others, forever, local, pid};

struct Quiet;

#[actor]
impl Quiet {
    pub fn new() -> Self {
        Quiet
    }

    pub fn pid(&mut self) -> u32 {
        std::process::id()
    }
}

fn kill_9(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
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
    let kept = runtime.keep(pid::remote().on(&workers[0]));
    kept.fetch().unwrap();
    kill_9(victim);
    let error = waiting.wait().unwrap_err().to_string();
    assert!(
        error.contains("process 2") || error.contains("local 1"),
        "{error}"
    );
    let error = actor.call().pid().wait().unwrap_err().to_string();
    assert!(
        error.contains(&victim.to_string()) && error.contains("SIGKILL"),
        "{error}"
    );
    let error = runtime.call(pid::remote().on(&workers[0])).wait().unwrap_err();
    assert!(!error.to_string().is_empty());
    assert_eq!(runtime.call(pid::remote().on(&workers[1])).wait().unwrap(), other);
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
    let workers = runtime.add(local(2)).unwrap();
    for worker in &workers {
        println!("worker: {}", worker.pid().unwrap());
    }
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn jclust_10_workers_end_with_their_driver() {
    let _guard = beside_others();
    let mut driver = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "deaths::a_driver",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("SELVEDGE_TEST_DRIVER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let pids = lines.filter_map(|line| line.unwrap().split_once("worker: ")?.1.parse::<u32>().ok());
    let pids: Vec<u32> = pids.take(2).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    driver.kill().unwrap();
    driver.wait().unwrap();
    wait_until(&true, || !pids.iter().any(|pid| is_alive(*pid)));
}
