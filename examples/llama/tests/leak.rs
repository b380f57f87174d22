//! A deployment leaves nothing behind. The test is alone in its program, because it counts the program's descriptors
//! and threads.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use std::time::{Duration, Instant};

use made::{CONFIG, Made, lives, one, pids, prompt};
use selvedge::prelude::*;
use selvedge_llama::deployment::{Deployment, Layout};

fn entries(directory: &str) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_dropped_deployment_leaves_no_process_no_thread_and_no_descriptor() {
    let made = Made::new("dropped", CONFIG);
    let runtime = Runtime::new();
    let mut held = Vec::new();
    for placement in [
        Placement::Process,
        Placement::Thread,
        Placement::Process,
        Placement::Thread,
    ] {
        let layout = Layout {
            pipeline: 2,
            tensor: 2,
            placement,
            slots: 2,
            ..Layout::default()
        };
        let model = Deployment::load(&runtime, &made.path, &layout).unwrap();
        model.step(one(0, 0, &prompt(8, 0))).wait().unwrap();
        let under_way: Vec<_> = (0..2)
            .map(|slot| model.step(one(slot, 0, &prompt(8, slot))))
            .collect();
        let pids = pids(&model);
        drop(model);
        // Each step returns a result or an error, whether it has finished or not.
        for step in under_way {
            let _ = step.wait();
        }
        assert!(!pids.iter().any(|pid| lives(*pid)), "a worker is left");
        held.push((entries("/proc/self/fd"), entries("/proc/self/task")));
    }
    // The first two rounds start what the runtime keeps. A thread ends only after its present work.
    let deadline = Instant::now() + Duration::from_secs(60);
    let now = || (entries("/proc/self/fd"), entries("/proc/self/task"));
    while now().0 > held[1].0 || now().1 > held[1].1 {
        assert!(Instant::now() < deadline, "descriptors and threads: {held:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
