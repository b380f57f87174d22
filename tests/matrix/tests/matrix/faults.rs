//! The faults.

use std::time::Duration;

use selvedge_test_hosts::{Faults, Hosts};

use crate::cell::{Fault, LOADS, Outcome, Scene, meet};

/// A limit for silence that only a fault reaches which lasts, and one that none reaches.
const SHORT: [u64; 2] = [2_000, 5_000];
const LONG: [u64; 2] = [60_000, 60_000];

/// Faults after which nothing is heard of host 1.
const SILENCE: Fault = Fault {
    name: "",
    begin: |_| {},
    outcome: Outcome::Error,
    is_dark: true,
    silence_ms: SHORT,
    heals_late: false,
    loads: &LOADS,
};

/// Ends of processes, of which the network tells: they are known long before the limit for silence.
const END: Fault = Fault {
    is_dark: false,
    silence_ms: LONG,
    ..SILENCE
};

/// Faults that heal.
const PASSING: Fault = Fault {
    outcome: Outcome::Heals,
    ..END
};

#[test]
fn a_worker_is_killed() {
    let fault = Fault {
        name: "kill -9 of the worker",
        begin: |scene| scene.sshd.worker(1).kill(),
        ..END
    };
    meet(&fault, &["calls", "references", "graph"]);
}

#[test]
fn a_host_is_killed() {
    let fault = Fault {
        name: "kill of the host",
        begin: |scene| scene.hosts.host(1).kill().unwrap(),
        ..END
    };
    meet(&fault, &["actor"]);
}

#[test]
fn a_host_loses_its_power() {
    let fault = Fault {
        name: "power-off of the host",
        begin: |scene| scene.hosts.host(1).power_off().unwrap(),
        ..SILENCE
    };
    meet(&fault, &["channel", "references"]);
}

#[test]
fn a_host_is_frozen() {
    let fault = Fault {
        name: "freeze of the host",
        begin: |scene| scene.hosts.host(1).freeze().unwrap(),
        ..SILENCE
    };
    meet(&fault, &["idle"]);
}

fn cut_off(hosts: &Hosts) {
    for other in [0, 2] {
        hosts.cut(hosts.host(1), hosts.host(other));
    }
}

#[test]
fn a_host_is_cut_off() {
    let fault = Fault {
        name: "cut both ways",
        begin: |scene| cut_off(scene.hosts),
        ..SILENCE
    };
    meet(&fault, &["calls"]);
}

/// The worker would wait for its driver for longer than the test does: its link has to tell it the end.
#[test]
fn a_cut_heals_when_the_worker_counts_as_dead() {
    let fault = Fault {
        name: "cut that heals too late",
        begin: |scene| cut_off(scene.hosts),
        silence_ms: [SHORT[0], 600_000],
        heals_late: true,
        ..SILENCE
    };
    meet(&fault, &["actor"]);
}

#[test]
fn a_host_hears_nothing() {
    let fault = Fault {
        name: "cut towards the host",
        begin: |scene| {
            for other in [0, 2] {
                let hosts = scene.hosts;
                hosts.cut_one_way(hosts.host(other), hosts.host(1));
            }
        },
        ..SILENCE
    };
    meet(&fault, &["references"]);
}

#[test]
fn a_host_is_not_heard() {
    let fault = Fault {
        name: "cut from the host",
        begin: |scene| {
            for other in [0, 2] {
                let hosts = scene.hosts;
                hosts.cut_one_way(hosts.host(1), hosts.host(other));
            }
        },
        ..SILENCE
    };
    meet(&fault, &["actor"]);
}

fn cut_workers(scene: &mut Scene<'_>) {
    scene.hosts.cut(scene.hosts.host(1), scene.hosts.host(2));
}

#[test]
fn workers_are_cut_from_each_other_and_the_driver_goes_on() {
    let fault = Fault {
        name: "cut between the workers",
        begin: cut_workers,
        loads: &["idle", "calls", "actor"],
        ..PASSING
    };
    meet(&fault, &["actor"]);
}

/// The driver reaches both, and the system finds that their connection carries nothing. The sample has no such cell.
#[test]
fn workers_are_cut_from_each_other_and_a_wait_for_the_other_ends() {
    let fault = Fault {
        name: "cut between the workers",
        begin: cut_workers,
        loads: &["references", "channel", "graph", "collective"],
        ..SILENCE
    };
    meet(&fault, &[]);
}

#[test]
fn a_cut_of_two_seconds_heals() {
    let fault = Fault {
        name: "cut of 2 s",
        begin: |scene| {
            cut_off(scene.hosts);
            // The fault's length. What is seen does not depend on it.
            std::thread::sleep(Duration::from_secs(2));
            scene.hosts.heal_all();
        },
        ..PASSING
    };
    meet(&fault, &["channel"]);
}

/// The sample has no such cell.
#[test]
fn chan_11_ten_cuts_of_two_seconds_heal() {
    let fault = Fault {
        name: "ten cuts of 2 s",
        begin: |scene| {
            scene.driver.tell("go on");
            for _ in 0..10 {
                cut_off(scene.hosts);
                // The fault's length, and the time after it. What is seen does not depend on them.
                std::thread::sleep(Duration::from_secs(2));
                scene.hosts.heal_all();
                std::thread::sleep(Duration::from_secs(1));
            }
        },
        loads: &["graph", "collective"],
        ..PASSING
    };
    meet(&fault, &[]);
}

fn seed() -> u64 {
    std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap())
}

#[test]
fn packets_are_lost() {
    let fault = Fault {
        name: "loss of 20 %",
        begin: |scene| {
            scene.hosts.faults(Faults {
                seed: seed(),
                loss: 0.2,
                ..Faults::default()
            });
        },
        ..PASSING
    };
    meet(&fault, &["calls"]);
}

#[test]
fn packets_are_late() {
    let fault = Fault {
        name: "delay of 50 ms",
        begin: |scene| {
            scene.hosts.faults(Faults {
                delay: Duration::from_millis(50),
                ..Faults::default()
            });
        },
        ..PASSING
    };
    meet(&fault, &["references"]);
}

#[test]
fn packets_overtake_and_come_twice() {
    let fault = Fault {
        name: "overtaking, repetition",
        begin: |scene| {
            scene.hosts.faults(Faults {
                seed: seed(),
                repetition: 0.2,
                delay: Duration::from_millis(1),
                jitter: Duration::from_millis(20),
                ..Faults::default()
            });
        },
        ..PASSING
    };
    meet(&fault, &["actor"]);
}

fn reset(scene: &mut Scene<'_>) {
    scene.driver.tell("reset");
    let count: u32 = scene.driver.hear("reset").1.parse().unwrap();
    assert!(count >= 4, "{count} ends of connections");
}

#[test]
fn connections_are_reset() {
    let fault = Fault {
        name: "reset of connections",
        begin: reset,
        ..PASSING
    };
    meet(&fault, &["idle", "channel", "graph"]);
}
