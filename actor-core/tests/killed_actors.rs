//! A killed actor's thread ends at once, not with the runtime. The file has one test, because it counts threads.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod toys;

use selvedge_core::Runtime;
use toys::*;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_killed_actor_takes_its_own_thread_with_it() {
    let _dog = Watchdog::new("killed actors");
    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    let mate = runtime.spawn::<Toy>("mate", FINE).in_lane(&lane).unwrap();
    let before = threads();
    for _ in 0..10 {
        let own = runtime.spawn::<Toy>("own", FINE).in_thread().unwrap();
        let shared = runtime.spawn::<Toy>("shared", FINE).in_lane(&lane).unwrap();
        own.0.kill();
        shared.0.kill();
    }
    eventually("no more threads than before", || threads() == before);
    assert_eq!(mate.add(1).wait_timeout(TIMEOUT).unwrap(), 1);
    mate.0.kill();
    let next = runtime.spawn::<Toy>("next", FINE).in_lane(&lane).unwrap();
    assert_eq!(
        next.add(1).wait_timeout(TIMEOUT).unwrap(),
        1,
        "an empty shared lane takes new actors"
    );
}
