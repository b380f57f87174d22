//! Restarts that fail. The file has one test, because it takes all descriptors from the whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod toys;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use selvedge_core::{CallError, Restart, Runtime};
use toys::*;

/// Runs `act` while no descriptor can be opened.
fn without_descriptors<T>(act: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..before
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let done = act();
    setrlimit(Resource::Nofile, before).unwrap();
    done
}

#[test]
fn a_restart_that_fails_is_one_of_those_that_are_allowed_and_not_the_last() {
    let _dog = Watchdog::new("restarts");
    let runtime = Runtime::new();
    for max in [u32::MAX, 2] {
        let spawn = runtime
            .spawn::<Toy>("phoenix", FINE)
            .restart(Restart::OnFailure { max });
        let toy = spawn.in_process().unwrap();
        let pid = toy.real_pid();
        let failed = || {
            let death = toy.0.last_death();
            death.is_some_and(|death| death.to_string().contains("did not start again"))
        };
        if max == u32::MAX {
            without_descriptors(|| {
                kill_9(pid);
                eventually("a restart fails", failed);
            });
            assert_ne!(toy.real_pid(), pid, "the next one is tried");
            continue;
        }
        without_descriptors(|| {
            kill_9(pid);
            eventually("a restart fails", failed);
            let died = toy.add(1).wait_timeout(TIMEOUT);
            let Err(CallError::ActorDied { death, .. }) = died else {
                panic!("{died:?}");
            };
            let text = death.to_string();
            assert!(text.contains("a socket pair for its link"), "{text}");
        });
    }
}
