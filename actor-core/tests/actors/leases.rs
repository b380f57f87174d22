//! Leases of lanes: one holder at a time, for programs in this process and in workers, with reports of deaths.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::toys::*;
use rustix::process::{Pid, Signal, kill_process};
use selvedge_core::{
    ActorRef, CallError, Death, Exit, LaneId, Lease, LeaseError, ProcessId, Restart, Runtime,
};

fn refs(toys: &[&ToyHandle]) -> Vec<ActorRef> {
    toys.iter().map(|toy| toy.0.clone()).collect()
}

fn now() -> Instant {
    Instant::now()
}

/// A toy in a process or a thread of its own, and a lease of it.
fn leased(is_in_process: bool) -> (Runtime, ToyHandle, Lease) {
    let runtime = Runtime::new();
    let spawn = runtime.spawn::<Toy>("toy", FINE);
    let toy = match is_in_process {
        true => spawn.in_process(),
        false => spawn.in_thread(),
    };
    let toy = toy.unwrap();
    let lease = runtime.lease("holder", &refs(&[&toy]), soon()).unwrap();
    (runtime, toy, lease)
}

#[test]
fn a_lane_has_one_holder_at_a_time() {
    let _dog = Watchdog::new("one holder");
    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    let a = runtime.spawn::<Toy>("a", FINE).in_lane(&lane).unwrap();
    let b = runtime.spawn::<Toy>("b", FINE).in_lane(&lane).unwrap();
    let c = runtime.spawn::<Toy>("c", FINE).inline().unwrap();
    let lease = runtime.lease("first", &refs(&[&a, &c]), soon()).unwrap();
    assert_eq!(lease.inline_actors().len(), 1);
    for (toy, name) in [(&b, "b"), (&c, "c")] {
        // The refusal comes at once, for any deadline.
        match runtime.lease("second", &refs(&[toy]), soon()).unwrap_err() {
            LeaseError::Busy { actor, holder } => {
                assert_eq!((actor.as_str(), holder.as_str()), (name, "first"))
            }
            other => panic!("{other}"),
        }
    }
    drop(lease);
    assert!(runtime.lease("second", &refs(&[&b, &c]), now()).is_ok());
}

#[test]
fn an_ending_lease_is_waited_for_where_it_still_runs() {
    let _dog = Watchdog::new("ending");
    let runtime = Runtime::new();
    let busy = runtime.spawn::<Toy>("busy", FINE).in_thread().unwrap();
    let idle = runtime.spawn::<Toy>("idle", FINE).in_thread().unwrap();
    let lease = runtime.lease("first", &refs(&[&busy, &idle]), soon()).unwrap();
    let program = ToyProgram::boxed(Act::ServeUntil(busy.0.id(), 1));
    lease.start_local(vec![(busy.0.lane(), program)]).unwrap();
    let refused = runtime.lease("second", &refs(&[&idle]), soon());
    assert!(matches!(refused, Err(LeaseError::Busy { .. })), "{refused:?}");
    lease.ending();
    assert!(
        runtime.lease("second", &refs(&[&idle]), now()).is_ok(),
        "nothing runs there"
    );
    let refused = runtime.lease("second", &refs(&[&busy]), now() + Duration::from_millis(20));
    assert!(matches!(refused, Err(LeaseError::Busy { .. })), "{refused:?}");
    let finish = busy.clone();
    let finisher = std::thread::spawn(move || finish.add(1).wait_timeout(TIMEOUT).unwrap());
    assert!(runtime.lease("second", &refs(&[&busy, &idle]), soon()).is_ok());
    finisher.join().unwrap();
    drop(lease);
    assert!(runtime.lease("third", &refs(&[&busy, &idle]), now()).is_ok());
}

#[test]
fn the_dead_and_strangers_are_refused() {
    let runtime = Runtime::new();
    let (alive, dead) = (
        runtime.spawn::<Toy>("alive", FINE).in_thread().unwrap(),
        runtime.spawn::<Toy>("dead", FINE).in_process().unwrap(),
    );
    kill_9(dead.0.pid().unwrap());
    eventually("the death is known", || !dead.0.is_alive());
    match runtime
        .lease("holder", &refs(&[&alive, &dead]), soon())
        .unwrap_err()
    {
        LeaseError::Dead(death) => assert_eq!((death.actor.as_str(), death.exit), ("dead", Exit::Signal(9))),
        other => panic!("{other}"),
    }
    assert!(
        runtime.lease("holder", &refs(&[&alive]), now()).is_ok(),
        "all or nothing"
    );
    let other = Runtime::new();
    let stranger = other.spawn::<Toy>("stranger", FINE).inline().unwrap();
    let refused = runtime.lease("holder", &refs(&[&stranger]), now());
    assert!(matches!(refused, Err(LeaseError::Foreign { .. })));
}

#[test]
fn a_restarting_actor_is_waited_for() {
    let _dog = Watchdog::new("restarting");
    let runtime = Runtime::new();
    let spawn = runtime
        .spawn::<Toy>("phoenix", FINE)
        .restart(Restart::OnFailure { max: 1 });
    let toy = spawn.in_process().unwrap();
    let pid = toy.0.pid().unwrap();
    kill_9(pid);
    eventually("the death is known", || toy.0.last_death().is_some());
    let lease = runtime.lease("holder", &refs(&[&toy]), soon()).unwrap();
    assert_ne!(toy.real_pid(), pid);
    drop(lease);
}

#[test]
fn a_program_runs_on_a_thread_and_calls_ring_its_bell() {
    let _dog = Watchdog::new("program on a thread");
    let (_runtime, toy, lease) = leased(false);
    let served = Arc::new(AtomicU64::new(0));
    let act = Act::ServeUntil(toy.0.id(), 6);
    let program = Box::new(ToyProgram {
        act,
        served: Arc::clone(&served),
    });
    lease.start_local(vec![(toy.0.lane(), program)]).unwrap();
    let again = lease.start_local(vec![(toy.0.lane(), ToyProgram::boxed(Act::Hang))]);
    assert!(matches!(again, Err(LeaseError::Running { .. })));
    for (x, sum) in [(1, 1), (2, 3)] {
        assert_eq!(toy.add(x).wait_timeout(TIMEOUT).unwrap(), sum);
    }
    assert_eq!(lease.join(now()), vec![toy.0.lane()]);
    assert_eq!(toy.add(3).wait_timeout(TIMEOUT).unwrap(), 6);
    assert_eq!(lease.join(soon()), Vec::<LaneId>::new());
    assert!(served.load(Ordering::Relaxed) >= 1);
    assert_eq!(
        toy.add(0).wait_timeout(TIMEOUT).unwrap(),
        6,
        "the lane is free again"
    );
    lease
        .start_local(vec![(toy.0.lane(), ToyProgram::boxed(Act::Add(toy.0.id(), 10)))])
        .unwrap();
    assert!(lease.join(soon()).is_empty());
    assert_eq!(toy.add(0).wait_timeout(TIMEOUT).unwrap(), 16);
}

#[test]
fn a_program_runs_in_a_worker() {
    let _dog = Watchdog::new("program in a worker");
    let (_runtime, toy, lease) = leased(true);
    let id = toy.0.id();
    let start = |act| loading(&lease, &toy, act).wait(soon()).unwrap();
    start(Act::ServeUntil(id, 5));
    assert_eq!(lease.join(now()), vec![toy.0.lane()]);
    assert_eq!(toy.add(5).wait_timeout(TIMEOUT).unwrap(), 5);
    assert!(lease.join(soon()).is_empty());
    // The end of a program that ends right after its start is received after the start.
    for round in 1..=20 {
        start(Act::Add(id, 1));
        assert!(lease.join(soon()).is_empty());
        assert_eq!(toy.add(0).wait_timeout(TIMEOUT).unwrap(), 5 + round);
    }
}

#[test]
fn programs_that_cannot_be_loaded_are_refused_with_the_reason() {
    let _dog = Watchdog::new("refused programs");
    let (_runtime, toy, lease) = leased(true);
    let process = toy.0.address().process;
    let stranger = shipped(vec![(LaneId(999), Act::Hang)]);
    let cases = [
        ("nosuch", Vec::new(), "nosuch"),
        ("toy", vec![0xff], ""),
        ("toy", stranger, "lane 999"),
    ];
    for (kind, bytes, text) in cases {
        let loading = lease.load_worker(process, kind, bytes, soon()).unwrap();
        match loading.wait(soon()).unwrap_err() {
            LeaseError::Refused { worker, reason } => {
                assert_eq!(worker.worker(), Some("toy"));
                assert!(reason.contains(text), "{reason}");
            }
            other => panic!("{other}"),
        }
    }
    let unknown = lease.load_worker(ProcessId(99), "toy", Vec::new(), soon());
    assert!(matches!(unknown, Err(LeaseError::UnknownProcess { .. })));
    let unknown = lease.start_local(vec![(LaneId(99), ToyProgram::boxed(Act::Hang))]);
    assert!(matches!(unknown, Err(LeaseError::UnknownLane { .. })));
}

#[test]
fn watchers_hear_of_every_death_once_and_of_earlier_ones_too() {
    let _dog = Watchdog::new("watchers");
    let runtime = Runtime::new();
    let toy = runtime.spawn::<Toy>("victim", FINE).in_process().unwrap();
    let other = runtime.spawn::<Toy>("bystander", FINE).in_process().unwrap();
    let lease = runtime.lease("holder", &refs(&[&toy]), soon()).unwrap();
    let bystanders = runtime.lease("other", &refs(&[&other]), soon()).unwrap();
    let watch = |lease: &Lease| {
        let (told, tell) = mpsc::channel::<Death>();
        lease.on_death(Box::new(move |death| told.send(death.clone()).unwrap()));
        tell
    };
    let (early, unconcerned) = (watch(&lease), watch(&bystanders));
    loading(&lease, &toy, Act::Hang).wait(soon()).unwrap();
    kill_9(toy.0.pid().unwrap());
    let death = early.recv_timeout(TIMEOUT).unwrap();
    assert_eq!((death.actor.as_str(), &death.exit), ("victim", &Exit::Signal(9)));
    let late = watch(&lease);
    assert_eq!(late.try_recv().unwrap(), death, "told before `on_death` returns");
    assert!(lease.join(soon()).is_empty(), "a dead lane runs nothing");
    assert!(early.try_recv().is_err() && late.try_recv().is_err() && unconcerned.try_recv().is_err());
}

#[test]
fn a_thread_that_never_comes_back_is_given_up() {
    let _dog = Watchdog::new("stuck thread");
    let runtime = Runtime::new();
    let lane = runtime.lane("tar pit");
    let toy = runtime.spawn::<Toy>("stuck", FINE).in_lane(&lane).unwrap();
    let mate = runtime.spawn::<Toy>("mate", FINE).in_lane(&lane).unwrap();
    let lease = runtime.lease("holder", &refs(&[&toy]), soon()).unwrap();
    lease
        .start_local(vec![(toy.0.lane(), ToyProgram::boxed(Act::Hang))])
        .unwrap();
    let mut queued = mate.add(1);
    assert_eq!(lease.join(now() + Duration::from_millis(20)), vec![toy.0.lane()]);
    lease.kill(&[toy.0.lane()]);
    assert!(lease.join(now()).is_empty(), "a lost lane is not waited for");
    let answered = queued.wait_timeout(TIMEOUT);
    assert!(
        matches!(answered, Err(CallError::ActorDied { .. })),
        "{answered:?}"
    );
    for toy in [&toy, &mate] {
        assert!(!toy.0.is_alive());
        assert!(matches!(
            runtime.lease("next", &refs(&[toy]), now()),
            Err(LeaseError::Dead(_))
        ));
    }
    drop(lease);
    let started = now();
    let report = runtime.shutdown(Duration::from_millis(50));
    assert_eq!(report.stuck_lanes, vec!["tar pit".to_owned()]);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_worker_that_never_comes_back_is_killed() {
    let _dog = Watchdog::new("stuck worker");
    let (_runtime, toy, lease) = leased(true);
    loading(&lease, &toy, Act::Hang).wait(soon()).unwrap();
    let late = lease.join(now() + Duration::from_millis(20));
    assert_eq!(late, vec![toy.0.lane()]);
    lease.kill(&late);
    assert!(lease.join(soon()).is_empty());
    let exit = toy.0.last_death().unwrap().exit;
    assert!(
        matches!(&exit, Exit::Killed(why) if why.contains("did not return in time")),
        "{exit}"
    );
}

#[test]
fn programs_that_a_silent_worker_may_still_start_keep_their_lanes() {
    let _dog = Watchdog::new("silent worker");
    let (runtime, toy, lease) = leased(true);
    let (id, lane) = (toy.0.id(), toy.0.lane());
    let pid = Pid::from_raw(i32::try_from(toy.real_pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let silent = loading(&lease, &toy, Act::ServeUntil(id, 1)).wait(now() + Duration::from_millis(20));
    assert!(matches!(silent, Err(LeaseError::Silent { .. })), "{silent:?}");
    assert_eq!(lease.join(now()), vec![lane]);
    drop(lease);
    let refused = runtime.lease("next", &refs(&[&toy]), now());
    assert!(matches!(refused, Err(LeaseError::Busy { .. })), "{refused:?}");
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(toy.add(1).wait_timeout(TIMEOUT).unwrap(), 1);
    assert!(runtime.lease("next", &refs(&[&toy]), soon()).is_ok());
}

#[test]
fn a_panicking_program_ends_and_leaves_the_lane_usable() {
    let _dog = Watchdog::new("panicking program");
    for process in [false, true] {
        let (_runtime, toy, lease) = leased(process);
        let lane = toy.0.lane();
        if process {
            loading(&lease, &toy, Act::Panic).wait(soon()).unwrap();
        } else {
            lease
                .start_local(vec![(lane, ToyProgram::boxed(Act::Panic))])
                .unwrap();
        }
        assert!(lease.join(soon()).is_empty());
        assert_eq!(lease.panics(), vec![(lane, "a program's own bug".to_owned())]);
        assert_eq!(toy.add(1).wait_timeout(TIMEOUT).unwrap(), 1);
    }
}

#[test]
fn a_program_that_ends_before_its_lease_is_told_and_one_that_was_to_end_is_not() {
    let _dog = Watchdog::new("ends");
    let runtime = Runtime::new();
    let here = runtime.spawn::<Toy>("here", FINE).in_thread().unwrap();
    let there = runtime.spawn::<Toy>("there", FINE).in_process().unwrap();
    let lease = runtime.lease("holder", &refs(&[&here, &there]), soon()).unwrap();
    let (told, ends) = mpsc::channel();
    lease.on_end(Box::new(move || told.send(()).unwrap()));
    let run_both = || {
        let act = |toy: &ToyHandle| Act::Add(toy.0.id(), 1);
        lease
            .start_local(vec![(here.0.lane(), ToyProgram::boxed(act(&here)))])
            .unwrap();
        loading(&lease, &there, act(&there)).wait(soon()).unwrap();
        assert!(lease.join(soon()).is_empty());
    };
    run_both();
    for _ in 0..2 {
        ends.recv_timeout(TIMEOUT).unwrap();
    }
    lease.ending();
    run_both();
    assert!(ends.try_recv().is_err());
}

#[test]
fn a_shutdown_tells_the_holders_of_leases() {
    let _dog = Watchdog::new("shutdown under a lease");
    let (runtime, _toy, lease) = leased(false);
    let told = Raised::default();
    let heard = told.clone();
    lease.on_death(Box::new(move |_| heard.set()));
    let _report = runtime.shutdown(TIMEOUT);
    assert!(told.is_set());
    assert!(matches!(
        runtime.lease("late", &[], now()),
        Err(LeaseError::Shutdown)
    ));
}

#[test]
fn workers_load_at_once_and_none_waits_for_another() {
    let _dog = Watchdog::new("workers that load");
    let runtime = Runtime::new();
    let slow = runtime.spawn::<Toy>("slow", FINE).in_process().unwrap();
    let quick = runtime.spawn::<Toy>("quick", FINE).in_process().unwrap();
    let lease = runtime.lease("holder", &refs(&[&slow, &quick]), soon()).unwrap();
    let pid = Pid::from_raw(i32::try_from(slow.real_pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let load = |toy: &ToyHandle| loading(&lease, toy, Act::ServeUntil(toy.0.id(), 1));
    let (first, second) = (load(&slow), load(&quick));
    second.wait(soon()).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    first.wait(soon()).unwrap();
    assert_eq!(slow.add(1).wait_timeout(TIMEOUT).unwrap(), 1);
    assert_eq!(quick.add(1).wait_timeout(TIMEOUT).unwrap(), 1);
    assert!(lease.join(soon()).is_empty());
}
