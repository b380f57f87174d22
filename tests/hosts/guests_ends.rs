//! Deaths of workers that have dialled in, and of their driver.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use selvedge::prelude::*;
use selvedge::{CallError, Exit, SpawnError};

use crate::census::{is_alive, wait_until};
use crate::deaths::{Quiet, kill_9, signal};
use crate::guests::{ByHand, Invited, door, guests};
use crate::{beside_others, forever, part, pid};

#[test]
fn a_worker_that_has_dialled_in_and_is_killed_is_dead_by_its_link_and_named() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let (workers, started) = guests(&runtime, &door(), &["b", "c"], &[]);
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    let actor = runtime
        .spawn::<Quiet>("quiet", ())
        .in_worker(&workers[0])
        .unwrap();
    let kept = runtime.keep(pid::remote().on(&workers[0]));
    kept.fetch().unwrap();
    kill_9(started[0].0.id());
    let error = waiting.wait().unwrap_err().to_string();
    assert!(
        error.contains("worker `guest ") && error.contains("died"),
        "{error}"
    );
    let error = actor.call().pid().wait().unwrap_err().to_string();
    assert!(
        error.contains("its link has ended") && error.contains("on host `b`"),
        "{error}"
    );
    assert_eq!(workers[0].pid(), None);
    let found = runtime.call(pid::remote().on(&workers[1])).wait();
    assert_eq!(found.ok(), workers[1].pid());
}

#[test]
fn an_actor_is_not_to_restart_with_a_worker_that_nobody_can_start_again() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let (workers, _started) = guests(&runtime, &door(), &["b"], &[]);
    let spawn = runtime
        .spawn::<Quiet>("quiet", ())
        .restart(Restart::OnFailure { max: 1 });
    let error = spawn.in_worker(&workers[0]).err().unwrap();
    assert!(matches!(error, SpawnError::NoRestart { .. }), "{error}");
}

#[test]
fn a_worker_that_has_dialled_in_and_is_frozen_is_fenced_and_not_let_in_again() {
    let _guard = beside_others();
    let runtime = Runtime::new().silence_timeout(Duration::from_secs(1));
    let (workers, mut started) = guests(&runtime, &door(), &["b"], &[]);
    let actor = runtime
        .spawn::<Quiet>("quiet", ())
        .in_worker(&workers[0])
        .unwrap();
    let of_worker = started[0].0.id();
    signal(of_worker, Signal::STOP);
    let error = actor.call().pid().wait().unwrap_err();
    assert!(error.to_string().contains("no sign of life"), "{error}");
    let CallError::ActorDied { death, .. } = error else {
        panic!("{error}");
    };
    assert!(matches!(death.exit, Exit::Fenced(_)), "{death}");
    // Its process lives, and ends when it finds its link cut.
    assert!(is_alive(of_worker));
    signal(of_worker, Signal::CONT);
    assert!(started[0].0.wait().unwrap().success());
    assert!(runtime.call(pid::remote().on(&workers[0])).wait().is_err());
}

/// A driver that waits for one worker to dial in, and to be killed.
#[test]
#[ignore = "a part of the test below"]
fn a_driver() {
    if std::env::var_os("SELVEDGE_TEST_DRIVER").is_none() {
        return;
    }
    let (runtime, door) = (Runtime::new(), door());
    let file = Invited::to(&runtime, &door);
    let started = ByHand::start(&door, &file, &[]);
    let _workers = runtime.add(door).unwrap();
    // The driver is killed, and drops nothing.
    drop(file);
    println!("worker: {}", started.0.id());
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn jclust_10_workers_that_have_dialled_in_end_with_their_driver() {
    let _guard = beside_others();
    let mut part = part("guests_ends::a_driver");
    let mut driver = part.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let pid = lines.find_map(|line| line.unwrap().split_once("worker: ")?.1.parse::<u32>().ok());
    let pid = pid.expect("the driver has added no worker");
    assert!(is_alive(pid));
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert!(wait_until(&true, || !is_alive(pid)));
}
