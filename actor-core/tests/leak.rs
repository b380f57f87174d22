//! No resource remains after a runtime ends. The file has one test, because it counts the resources of the whole
//! process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

#[path = "../../tests/census/mod.rs"]
mod census;
mod toys;

use std::time::Duration;

use census::{Census, settled, wait_until};
use selvedge_core::{Restart, Runtime};
use toys::*;

/// Creates, uses and drops everything that a runtime can own, with deaths, restarts, kills and failures in between.
fn live_a_life() {
    let runtime = Runtime::new();
    let worker = runtime.worker("colony").unwrap();
    let lane = runtime.lane("shared");
    let toys = [
        runtime.spawn::<Toy>("inline", FINE).inline().unwrap(),
        runtime.spawn::<Toy>("thread", FINE).in_thread().unwrap(),
        runtime.spawn::<Toy>("lane", FINE).in_lane(&lane).unwrap(),
        runtime.spawn::<Toy>("worker", FINE).in_worker(&worker).unwrap(),
        runtime.spawn::<Toy>("own", FINE).in_process().unwrap(),
    ];
    for toy in &toys {
        assert_eq!(toy.0.call::<_, u64>(NAP, (0_u64,)).wait().unwrap(), 0);
        toy.say("hello").wait().unwrap();
    }
    assert!(
        runtime
            .spawn::<Toy>("stillborn", (Birth::Refuses, 0))
            .in_thread()
            .is_err()
    );
    assert!(
        runtime
            .spawn::<Toy>("stillborn", (Birth::Exits, 0))
            .in_process()
            .is_err()
    );
    let victim = runtime.spawn::<Toy>("victim", FINE).in_process().unwrap();
    kill_9(victim.real_pid());
    let phoenix = runtime
        .spawn::<Toy>("phoenix", FINE)
        .restart(Restart::OnFailure { max: 1 });
    let phoenix = phoenix.in_process().unwrap();
    let pid = phoenix.real_pid();
    kill_9(pid);
    eventually("restarted", || {
        phoenix.0.pid().is_some_and(|new| new != pid) && phoenix.0.is_alive()
    });
    let actors: Vec<_> = toys.iter().map(|toy| toy.0.clone()).collect();
    let lease = runtime.lease("holder", &actors, soon()).unwrap();
    loading(&lease, &toys[3], Act::Hang).wait(soon()).unwrap();
    drop(lease);
    let report = runtime.shutdown(Duration::from_secs(1));
    assert_eq!(report.stuck_lanes, Vec::<String>::new());
}

#[test]
fn a_runtime_leaves_no_thread_descriptor_or_child() {
    let _dog = Watchdog::new("leak");
    live_a_life(); // opens what the process itself opens once (standard streams' locks, libraries)
    let before = settled(Census::take);
    for _ in 0..5 {
        live_a_life();
    }
    assert_eq!(wait_until(&before, Census::take), before);
}
