//! Deaths of workers: they are noticed and named, and the restart policy decides what follows.

use std::sync::mpsc;
use std::time::Duration;

use crate::toys::*;
use selvedge_core::{CallError, Death, Exit, Restart, Runtime, SpawnError};

fn died(error: CallError) -> Death {
    match error {
        CallError::ActorDied { death, .. } => *death,
        other => panic!("not a death: {other}"),
    }
}

#[test]
fn kill_9_gives_a_death_with_signal_pid_and_last_words() {
    let _dog = Watchdog::new("kill 9");
    let runtime = Runtime::new();
    let toy = runtime.spawn::<Toy>("victim", FINE).in_process().unwrap();
    for i in 0..30 {
        toy.say(&format!("word {i}")).wait().unwrap();
    }
    let pid = toy.0.pid().unwrap();
    let mut hanging = toy.0.call::<_, ()>(HANG, ());
    kill_9(pid);
    let death = died(hanging.wait_timeout(TIMEOUT).unwrap_err());
    assert_eq!(
        (death.actor.as_str(), &death.exit, death.pid),
        ("victim", &Exit::Signal(9), Some(pid))
    );
    assert_eq!(*death.actors, [toy.0.id()]);
    let tail: Vec<String> = (10..30).map(|i| format!("word {i}")).collect();
    assert_eq!(death.stderr_tail, tail);
    assert!(!toy.0.is_alive());
    assert_eq!(toy.0.last_death(), Some(death.clone()));
    assert_eq!(died(toy.add(1).wait().unwrap_err()), death);
    assert_eq!(toy.0.pid(), None);
    eventually("no zombie is left", || !exists(pid));
}

#[test]
fn an_exit_gives_its_code() {
    let runtime = Runtime::new();
    let toy = runtime.spawn::<Toy>("leaver", FINE).in_process().unwrap();
    let death = died(toy.0.call::<_, ()>(EXIT, (3,)).wait_timeout(TIMEOUT).unwrap_err());
    assert_eq!(death.exit, Exit::Code(3));
}

#[test]
fn a_restarted_actor_keeps_its_reference_and_starts_afresh() {
    let _dog = Watchdog::new("restart");
    let runtime = Runtime::new();
    let spawn = runtime
        .spawn::<Toy>("phoenix", (Birth::Fine, 7))
        .restart(Restart::OnFailure { max: 2 });
    let toy = spawn.in_process().unwrap();
    for round in 0..2 {
        assert_eq!(toy.add(1).wait().unwrap(), 8, "round {round}");
        let pid = toy.real_pid();
        let death = died(toy.0.call::<_, ()>(DIE, ()).wait_timeout(TIMEOUT).unwrap_err());
        assert_eq!((death.exit, death.pid), (Exit::Signal(9), Some(pid)));
        // A call waits for the worker, whether the worker is still restarting or runs again.
        assert_eq!(toy.add(0).wait_timeout(TIMEOUT).unwrap(), 7, "round {round}");
        assert_ne!(toy.real_pid(), pid);
        assert!(toy.0.is_alive());
        assert_eq!(toy.0.last_death().unwrap().pid, Some(pid));
    }
    kill_9(toy.real_pid());
    eventually("the third death is the last", || {
        !toy.0.is_alive() && toy.0.pid().is_none()
    });
    died(toy.add(0).wait_timeout(TIMEOUT).unwrap_err());
}

#[test]
fn actors_of_one_worker_die_together_and_each_follows_its_policy() {
    let _dog = Watchdog::new("shared worker");
    let runtime = Runtime::new();
    let worker = runtime.worker("colony").unwrap();
    let mortal = runtime.spawn::<Toy>("mortal", FINE).in_worker(&worker).unwrap();
    let spawn = runtime
        .spawn::<Toy>("phoenix", FINE)
        .restart(Restart::OnFailure { max: 1 });
    let phoenix = spawn.in_worker(&worker).unwrap();
    let pid = worker.pid().unwrap();
    let death = died(mortal.0.call::<_, ()>(DIE, ()).wait_timeout(TIMEOUT).unwrap_err());
    assert_eq!(*death.actors, [mortal.0.id(), phoenix.0.id()]);
    assert_eq!(phoenix.0.last_death(), Some(death));
    assert_eq!(phoenix.add(1).wait_timeout(TIMEOUT).unwrap(), 1);
    died(mortal.add(1).wait_timeout(TIMEOUT).unwrap_err());
    // The worker runs again, so it takes new actors.
    let late = runtime.spawn::<Toy>("late", FINE).in_worker(&worker).unwrap();
    assert_eq!(Some(late.real_pid()), worker.pid());
    assert_ne!(worker.pid(), Some(pid));
}

#[test]
fn a_dead_shared_worker_refuses_new_actors() {
    let runtime = Runtime::new();
    let worker = runtime.worker("colony").unwrap();
    let toy = runtime.spawn::<Toy>("toy", FINE).in_worker(&worker).unwrap();
    kill_9(worker.pid().unwrap());
    eventually("the death is known", || !toy.0.is_alive());
    let refused = runtime.spawn::<Toy>("late", FINE).in_worker(&worker);
    assert!(matches!(refused, Err(SpawnError::Worker { .. })), "{refused:?}");
}

#[test]
fn kill_ends_an_actor_for_good() {
    let _dog = Watchdog::new("kill");
    let runtime = Runtime::new();
    let spawn = || runtime.spawn::<Toy>("toy", FINE);
    let phoenix = spawn().restart(Restart::OnFailure { max: 9 });
    for toy in [
        spawn().inline().unwrap(),
        spawn().in_thread().unwrap(),
        phoenix.in_process().unwrap(),
    ] {
        assert_eq!(toy.add(1).wait().unwrap(), 1);
        let place = toy.0.placement();
        toy.0.kill();
        assert!(!toy.0.is_alive(), "{place}");
        assert_eq!(
            died(toy.add(1).wait_timeout(TIMEOUT).unwrap_err()).actor,
            "toy",
            "{place}"
        );
    }
    assert!(runtime.actors().is_empty());
}

#[test]
fn every_call_around_a_death_is_answered_with_the_death() {
    let _dog = Watchdog::new("calls around a death");
    let runtime = Runtime::new();
    for _ in 0..20 {
        let toy = runtime.spawn::<Toy>("victim", FINE).in_process().unwrap();
        let pid = toy.0.pid().unwrap();
        let (told, tell) = mpsc::channel();
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let (toy, told) = (toy.clone(), told.clone());
                std::thread::spawn(move || {
                    loop {
                        if let Err(error) = toy.add(1).wait_timeout(TIMEOUT) {
                            return told.send(error).unwrap();
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(2));
        kill_9(pid);
        for _ in &callers {
            assert_eq!(died(tell.recv_timeout(TIMEOUT).unwrap()).exit, Exit::Signal(9));
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    }
}
