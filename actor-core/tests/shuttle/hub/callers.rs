//! Callers that wait for answers, and the thread that is the peer of all links.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::sync::mpsc::channel;
use shuttle::thread;

use super::lead::Lead;
use super::stream::{Stream, Wait, Waits, task};
use crate::looking::Looking;
use crate::sleeper::Sleeper;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// The number of points at which PCT changes priorities.
const DEPTH: usize = 4;

/// A thread looks once, and sleeps then.
const ONCE: Looking = Looking {
    limit: Duration::ZERO,
    leaves: 0,
};

#[derive(Clone, Copy)]
struct Scenario {
    callers: usize,
    calls: usize,
    /// For each link, whether it is a byte ring.
    links: &'static [bool],
    /// The way in which callers look at all links before they sleep.
    looking: Option<Looking>,
    has_deadline: bool,
}

/// Runs `SCHEDULES` schedules of either kind; 20 000 without that variable.
pub(super) fn explore(run: impl Fn() + Copy + Send + Sync + 'static) {
    let schedules = std::env::var("SCHEDULES").map_or(20_000, |number| number.parse().unwrap());
    shuttle::check_random(run, schedules);
    shuttle::check_pct(run, schedules, DEPTH);
}

fn check(scenario: Scenario) {
    explore(move || scenario.run());
}

impl Scenario {
    /// All calls are answered, or shuttle finds that all threads wait.
    fn run(self) {
        let lead = Arc::new(Lead::default());
        lead.poll().unwrap();
        lead.set_spin(Some(Duration::ZERO));
        let waits: Waits = Arc::new(Mutex::new(vec![None; self.callers]));
        let links: Vec<_> = self
            .links
            .iter()
            .map(|is_ring| Stream::listed(&lead, &waits, *is_ring))
            .collect();
        let streams: Vec<_> = links.iter().map(|(stream, _)| Arc::clone(stream)).collect();
        let tasks: Vec<_> = streams
            .iter()
            .cloned()
            .map(|stream| thread::spawn(move || task(&stream)))
            .collect();
        let (ask, asked) = channel::<usize>();
        let peer = {
            let streams = streams.clone();
            thread::spawn(move || {
                for caller in asked {
                    streams[caller % streams.len()].stream().answer(caller);
                }
            })
        };
        let callers: Vec<_> = (0..self.callers)
            .map(|caller| {
                let (lead, waits, ask) = (Arc::clone(&lead), Arc::clone(&waits), ask.clone());
                thread::spawn(move || {
                    for _ in 0..self.calls {
                        let wait = Wait {
                            sleeper: Sleeper::looking(Some(Arc::clone(&lead)), self.looking),
                            is_answered: Arc::new(AtomicBool::new(false)),
                        };
                        waits.lock()[caller] = Some(wait.clone());
                        ask.send(caller).unwrap();
                        let deadline = self
                            .has_deadline
                            .then(|| Instant::now() + Duration::from_secs(3600));
                        wait.sleeper
                            .sleep(deadline, || !wait.is_answered.load(Ordering::Acquire));
                    }
                })
            })
            .collect();
        drop(ask);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        peer.join().unwrap();
        streams.iter().for_each(|stream| stream.stream().end());
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert!(waits.lock().iter().all(Option::is_none));
    }
}

const TWO: Scenario = Scenario {
    callers: 2,
    calls: 2,
    links: &[false],
    looking: None,
    has_deadline: false,
};

#[test]
fn callers_of_one_peer_over_a_socket_are_all_answered() {
    check(TWO);
}

#[test]
fn callers_of_one_peer_over_a_ring_are_all_answered() {
    check(Scenario {
        links: &[true],
        ..TWO
    });
}

#[test]
fn callers_that_look_at_rings_before_they_sleep_are_all_answered() {
    check(Scenario {
        links: &[true, true],
        looking: Some(ONCE),
        callers: 3,
        ..TWO
    });
}

#[test]
fn callers_that_look_at_sockets_before_they_sleep_are_all_answered() {
    check(Scenario {
        links: &[false, true],
        looking: Some(ONCE),
        callers: 3,
        ..TWO
    });
}

#[test]
fn callers_of_more_peers_than_one_wait_reports_are_all_answered() {
    check(Scenario {
        links: &[false, true, false],
        callers: 4,
        ..TWO
    });
}

#[test]
fn callers_whose_waits_end_early_are_all_answered() {
    check(Scenario {
        links: &[false, true],
        callers: 3,
        has_deadline: true,
        ..TWO
    });
}
