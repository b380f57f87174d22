//! No worker outlives its driver, for every way in which the driver may end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::toys::*;
use selvedge_core::Runtime;

const HELPER: &str = "SELVEDGE_TEST_DRIVER";

/// A driver that the other tests run as a process of its own: spawns workers, prints their pids, then ends as told.
#[test]
fn helper_driver() {
    let Ok(end) = std::env::var(HELPER) else { return };
    let runtime = Runtime::new();
    let busy = runtime.spawn::<Toy>("busy", FINE).in_process().unwrap();
    let idle = runtime.spawn::<Toy>("idle", FINE).in_process().unwrap();
    println!("\nworkers {} {}", busy.real_pid(), idle.real_pid());
    std::io::stdout().flush().unwrap();
    let hanging = busy.0.call::<_, ()>(HANG, ());
    match end.as_str() {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        _ => hanging.wait().unwrap(),
    }
}

fn run(end: &str) {
    let mut driver = Command::new("/proc/self/exe")
        .args([
            "--exact",
            "orphans::helper_driver",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(HELPER, end)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let pids: Vec<u32> = lines
        .map_while(Result::ok)
        .find_map(|line| {
            Some(
                line.strip_prefix("workers ")?
                    .split(' ')
                    .map(|pid| pid.parse().unwrap())
                    .collect(),
            )
        })
        .unwrap();
    assert_eq!(pids.len(), 2);
    if end == "kill" {
        assert!(pids.iter().all(|&pid| exists(pid)));
        driver.kill().unwrap();
    }
    driver.wait().unwrap();
    eventually("the workers are gone", || !pids.iter().any(|&pid| alive(pid)));
}

/// Whether a process runs. The process that adopts an orphan reaps it; this crate counts a zombie as gone.
fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn kill_9_of_the_driver_ends_its_workers() {
    run("kill");
}

#[test]
fn an_exit_without_destructors_ends_the_workers() {
    run("exit");
}

#[test]
fn an_abort_ends_the_workers() {
    run("abort");
}
