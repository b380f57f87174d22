//! What is left of sessions and routers that were closed.

use std::fs;
use std::process::Command;

use crate::routers::{pair, router, run, session};

/// The threads and the descriptors of this process.
fn held() -> (usize, usize) {
    let entries = |path| fs::read_dir(path).unwrap().count();
    (entries("/proc/self/task"), entries("/proc/self/fd"))
}

/// A session that was used, at a router of its own.
fn round() {
    let router = router();
    let (listens, dials) = (session(&router), session(&router));
    run(async { drop(pair(&listens, &dials).await) });
}

/// What is held once nothing of it goes away any more for a moment.
fn settled_now() -> (usize, usize) {
    let mut least = held();
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = held();
        least = (least.0.min(now.0), least.1.min(now.1));
    }
    least
}

/// What is held, when it is no more than this or a minute is over: the threads that close are on their way out.
fn settled(most: (usize, usize)) -> (usize, usize) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let found = held();
        if (found.0 <= most.0 && found.1 <= most.1) || std::time::Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Alone in its process, since tests beside it open and close.
#[test]
#[ignore = "a part of the test below"]
fn rounds() {
    // The threads that zenoh keeps for all sessions of a process are there after the first ones.
    (0..3).for_each(|_| round());
    let before = settled_now();
    (0..10).for_each(|_| round());
    let after = settled(before);
    println!("held: {before:?} and {after:?}");
    assert!(
        after.0 <= before.0 && after.1 <= before.1,
        "{before:?} and {after:?}"
    );
}

#[test]
fn sessions_that_were_closed_leave_no_thread_and_no_descriptor() {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "leaks::rounds", "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
