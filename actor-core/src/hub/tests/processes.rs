//! Hubs of real worker processes, which are executions of this test program.

#[path = "../../../../tests/census/mod.rs"]
mod census;
#[path = "../../../tests/toys/mod.rs"]
#[allow(unsafe_code, reason = "entries of the registries that are made by the linker")]
mod toys;

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::puppet::{Instruction, ORDERS};
use super::*;
use crate::home::handles::Worker;
use crate::home::placement::Restart;
use crate::hub::post::{Post, PostError};
use crate::runtime::Runtime;
use census::{Census, settled, wait_until};
pub(super) use toys::eventually;
use toys::{FINE, Toy, Watchdog, kill_9};

/// Peers, each with a number.
type Counts = Vec<(Peer, u64)>;

/// A runtime with workers, and what the services of its driver see.
struct Stage {
    runtime: Runtime,
    workers: Vec<Worker>,
    seen: mpsc::Receiver<Seen>,
    reports: mpsc::Receiver<Seen>,
}

impl Stage {
    fn new(workers: usize) -> Self {
        let runtime = Runtime::new();
        let hub = hub(&runtime);
        let seen = Recorder::register(&hub);
        let (sender, reports) = mpsc::channel();
        hub.register(ORDERS, Arc::new(Recorder(Mutex::new(sender))));
        let workers = (0..workers)
            .map(|count| runtime.worker(format!("puppet {count}")).unwrap())
            .collect();
        Stage {
            runtime,
            workers,
            seen,
            reports,
        }
    }

    fn hub(&self) -> Arc<Hub> {
        hub(&self.runtime)
    }

    /// The workers as peers.
    fn peers<const N: usize>(&self) -> [Peer; N] {
        self.hub().peers().try_into().unwrap()
    }

    fn order(&self, to: Peer, order: &Instruction) {
        self.hub().send(to, order.letter("")).unwrap();
    }

    /// Letters, deaths and peers that a worker has seen since its last report.
    fn report(&self, of: Peer) -> (Counts, Counts, Vec<Peer>) {
        self.order(of, &Instruction::Report);
        loop {
            match self.reports.recv_timeout(TIMEOUT).unwrap() {
                Seen::Letter(from, letter) => match Instruction::of(&letter) {
                    Instruction::Reported {
                        letters,
                        deaths,
                        peers,
                    } if from == of => return (letters, deaths, peers),
                    order => panic!("{order:?}"),
                },
                // Told to each service; `seen` has it too.
                Seen::Died(..) => {}
            }
        }
    }
}

fn hub(runtime: &Runtime) -> Arc<Hub> {
    Arc::clone(&runtime.inner().directory.hub)
}

/// Stops a process, and returns when none of its threads runs any more.
fn stop(pid: u32) {
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    eventually("all threads are stopped", || tasks().all(is_stopped));
}

fn numbered(from: Peer, numbers: std::ops::Range<u64>) -> Vec<(Peer, u64)> {
    numbers.map(|number| (from, number)).collect()
}

#[test]
fn jrem_10_letters_arrive_in_order_between_processes() {
    let _dog = Watchdog::new("letters between processes");
    let stage = Stage::new(2);
    let ([one, two], driver) = (stage.peers(), stage.hub().me());
    // Driver to worker and back.
    let (to, first, count) = (driver, 0, 3_000);
    stage.order(one, &Instruction::Send { to, first, count });
    for count in 0..count {
        let (from, letter) = next_letter(&stage.seen);
        assert_eq!((from, number(&letter)), (one, count));
    }
    // Worker to worker, both ways, without the driver in between.
    let before = stage.hub().traffic(two);
    for (from, to) in [(one, two), (two, one)] {
        let (first, count) = (10, 3_000);
        stage.order(from, &Instruction::Send { to, first, count });
        let mut letters = Vec::new();
        eventually("the letters arrive", || {
            letters.extend(stage.report(to).0);
            letters.len() >= 3_000
        });
        assert_eq!(letters, numbered(from, 10..3_010));
    }
    let of_service = |traffic: &[(Service, crate::hub::ServiceTraffic)]| {
        traffic.iter().find(|(service, _)| *service == SERVICE).copied()
    };
    assert_eq!(of_service(&before), of_service(&stage.hub().traffic(two)));
    assert_eq!(stage.report(one).2, [driver, two]);
}

#[test]
fn hub_1_kill_9_is_told_once_with_the_fates_to_the_driver_and_to_the_other_worker() {
    let _dog = Watchdog::new("a killed peer");
    let stage = Stage::new(2);
    let [victim, other] = stage.peers();
    stage.order(
        other,
        &Instruction::Send {
            to: victim,
            first: 0,
            count: 1,
        },
    );
    eventually("the letter arrives", || !stage.report(victim).0.is_empty());
    let pid = stage.workers[0].pid().unwrap();
    stop(pid);
    let mut last = 0;
    for count in 0..5_000 {
        last = stage.hub().send(victim, letter(count, vec![0; 100])).unwrap();
    }
    stage.order(
        other,
        &Instruction::Send {
            to: victim,
            first: 1,
            count: 2_000,
        },
    );
    stage.report(other);
    kill_9(pid);
    let (dead, fates) = next_death(&stage.seen);
    assert_eq!(dead, victim);
    assert_fates(&fates, last);
    assert!(fates.len() >= 5_000, "nothing was acknowledged: {}", fates.len());
    assert_eq!(fates.last().unwrap().1, Outcome::NotSent);
    assert_eq!(
        stage.hub().send(victim, letter(0, "")),
        Err(PostError::Dead(victim))
    );
    let mut deaths = Vec::new();
    eventually("the other worker is told", || {
        deaths.extend(stage.report(other).1);
        !deaths.is_empty()
    });
    let [(dead, fates)] = deaths[..] else {
        panic!("{deaths:?}");
    };
    // Of 2 001 letters the victim may have acknowledged the first.
    assert_eq!(dead, victim);
    assert!((2_000..=2_001).contains(&fates), "{fates}");
    // Nothing is told twice.
    assert_eq!(stage.report(other).1, []);
    eventually("no process is left", || stage.workers[0].pid().is_none());
    assert_eq!(stage.report(other).1, []);
    assert_eq!(stage.report(other).2, [stage.hub().me()]);
    drop(stage.workers);
    let _ = stage.runtime.shutdown(TIMEOUT);
    assert_eq!(next_death(&stage.seen), (other, vec![]));
    assert!(stage.seen.try_recv().is_err());
}

#[test]
fn hub_2_a_restarted_worker_is_another_peer_with_fresh_sessions() {
    let _dog = Watchdog::new("a restarted peer");
    let stage = Stage::new(1);
    let [other] = stage.peers();
    let spawn = stage.runtime.spawn::<Toy>("phoenix", FINE);
    let toy = spawn.restart(Restart::OnFailure { max: 3 }).in_process().unwrap();
    stage.report(other);
    let (_, sockets) = readers_and_sockets(stage.workers[0].pid().unwrap());
    let mut before = None;
    for life in 1..=3 {
        let phoenix = *stage.hub().peers().last().unwrap();
        assert_eq!(phoenix.incarnation, Incarnation(life));
        assert_eq!(phoenix.process, before.map_or(phoenix, |it: Peer| it).process);
        assert_eq!(
            stage.hub().send(phoenix, Instruction::Echo.letter("hello")),
            Ok(1)
        );
        assert_eq!(next_letter(&stage.seen), (phoenix, letter(0, "hello")));
        stage.order(
            other,
            &Instruction::Send {
                to: phoenix,
                first: 0,
                count: 10,
            },
        );
        // A report tells of what has come since the last one, which may be some of the letters.
        let mut letters = Vec::new();
        eventually("the pair between the workers is renewed", || {
            letters.extend(stage.report(phoenix).0);
            letters.len() >= 10
        });
        assert_eq!(letters, numbered(other, 0..10));
        let pid = toy.real_pid();
        kill_9(pid);
        let (dead, fates) = next_death(&stage.seen);
        assert_eq!((dead, fates), (phoenix, vec![]));
        eventually("it has started again", || {
            toy.add(0).wait_timeout(TIMEOUT).is_ok()
        });
        assert_ne!(toy.real_pid(), pid);
        assert_eq!(
            stage.hub().send(phoenix, letter(9, "")),
            Err(PostError::Dead(phoenix))
        );
        before = Some(phoenix);
    }
    let mut deaths = Vec::new();
    eventually("the other worker is told of each life", || {
        deaths.extend(stage.report(other).1);
        deaths.len() >= 3
    });
    let lives: Vec<u32> = deaths.iter().map(|(peer, _)| peer.incarnation.0).collect();
    assert_eq!(lives, [1, 2, 3]);
    eventually("the sockets to earlier lives are closed", || {
        readers_and_sockets(stage.workers[0].pid().unwrap()) == (1, sockets)
    });
}

#[test]
fn a_worker_that_writes_garbage_to_the_driver_is_cut_off_and_killed() {
    let _dog = Watchdog::new("garbage");
    let stage = Stage::new(2);
    let [hostile, victim] = stage.peers();
    let to = victim;
    stage.order(
        hostile,
        &Instruction::Send {
            to,
            first: 0,
            count: 1,
        },
    );
    eventually("they are linked", || !stage.report(victim).0.is_empty());
    stage.order(hostile, &Instruction::Garble { to });
    let mut deaths = Vec::new();
    eventually("the other worker has cut it off", || {
        deaths.extend(stage.report(victim).1);
        !deaths.is_empty()
    });
    assert_eq!(deaths, [(hostile, 0)]);
    let to = stage.hub().me();
    stage.order(hostile, &Instruction::Garble { to });
    assert_eq!(next_death(&stage.seen).0, hostile);
    let why = stage.hub().end_of(hostile).unwrap().to_string();
    assert!(why.contains("are no frame"), "{why}");
    eventually("its process was killed", || stage.workers[0].pid().is_none());
    // The first report of the death was the only one.
    assert_eq!(stage.report(victim).1, []);
}

/// Links all pairs of three workers, with kills and a restart in between.
fn live_a_life() {
    let stage = Stage::new(3);
    let peers: [Peer; 3] = stage.peers();
    for from in peers {
        for to in peers.into_iter().filter(|to| *to != from) {
            stage.order(
                from,
                &Instruction::Send {
                    to,
                    first: 0,
                    count: 20,
                },
            );
        }
    }
    for peer in peers {
        let mut letters = 0;
        eventually("the letters arrive", || {
            letters += stage.report(peer).0.len();
            letters == 40
        });
    }
    let spawn = stage.runtime.spawn::<Toy>("phoenix", FINE);
    let toy = spawn.restart(Restart::OnFailure { max: 1 }).in_process().unwrap();
    let phoenix = *stage.hub().peers().last().unwrap();
    stage
        .hub()
        .send(phoenix, Instruction::Echo.letter("hello"))
        .unwrap();
    next_letter(&stage.seen);
    kill_9(toy.real_pid());
    assert_eq!(next_death(&stage.seen).0, phoenix);
    eventually("it has started again", || {
        toy.add(0).wait_timeout(TIMEOUT).is_ok()
    });
    kill_9(stage.workers[1].pid().unwrap());
    assert_eq!(next_death(&stage.seen).0, peers[1]);
    let _ = stage.runtime.shutdown(TIMEOUT);
}

#[test]
#[ignore = "counts the resources of the whole process: started by the test below, alone"]
fn census_of_a_process_of_its_own() {
    live_a_life(); // opens what the process itself opens once
    let before = settled(Census::take);
    for _ in 0..4 {
        live_a_life();
    }
    assert_eq!(wait_until(&before, Census::take), before);
}

/// The threads of a process that read links, and its sockets.
fn readers_and_sockets(pid: u32) -> (usize, usize) {
    let entries = |folder| std::fs::read_dir(format!("/proc/{pid}/{folder}")).unwrap();
    let threads = entries("task").filter(|task| {
        let name = std::fs::read_to_string(task.as_ref().unwrap().path().join("comm"));
        name.is_ok_and(|name| name.trim() == "selvedge-hub")
    });
    let sockets = entries("fd").filter(|fd| {
        let target = std::fs::read_link(fd.as_ref().unwrap().path());
        target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    });
    (threads.count(), sockets.count())
}

#[test]
fn a_hub_that_nobody_uses_has_no_thread_and_no_socket() {
    let _dog = Watchdog::new("an unused hub");
    let stage = Stage::new(2);
    let [worker, _] = stage.peers();
    let pid = stage.workers[0].pid().unwrap();
    let (readers, control_only) = readers_and_sockets(pid);
    assert_eq!(readers, 0);
    stage
        .hub()
        .send(worker, Instruction::Echo.letter("hello"))
        .unwrap();
    next_letter(&stage.seen);
    assert_eq!(readers_and_sockets(pid), (1, control_only + 1));
}

#[test]
fn links_leave_no_descriptor_thread_or_child_after_kills() {
    let name = concat!(module_path!(), "::census_of_a_process_of_its_own");
    let (_, name) = name.split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--test-threads=1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{errors}"
    );
}
