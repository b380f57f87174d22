//! Actors that closures build: their state holds what serde does not know, and they live in the process that spawns them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Spawn, SpawnError, ThisProcess};

/// Sends what it is given, and keeps a file, a closure and a counter of its drops.
struct Tee {
    log: Sender<u32>,
    _file: std::fs::File,
    scale: Box<dyn Fn(u32) -> u32 + Send>,
    drops: Counted,
}

/// Counts its drops.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[actor(local)]
impl Tee {
    /// An ordinary function, whose arguments need not travel.
    pub fn new(log: Sender<u32>, drops: Arc<AtomicU32>) -> Self {
        let (drops, _file) = (Counted(drops), std::fs::File::open("/dev/null").unwrap());
        let scale = Box::new(|x| x * 10);
        Tee {
            log,
            _file,
            scale,
            drops,
        }
    }

    pub fn tee(&mut self, x: u32) -> u32 {
        assert!(x != 13, "unlucky");
        self.log.send(x).unwrap();
        (self.scale)(x)
    }

    pub fn thread(&self) -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    pub fn drops(&self) -> u32 {
        self.drops.0.load(Ordering::Relaxed)
    }
}

/// Takes from a `Receiver`, which cannot be cloned.
struct Source(Receiver<u32>);

#[actor(local)]
impl Source {
    pub fn next(&mut self, _tick: u32) -> Result<u32> {
        Ok(self.0.try_recv()?)
    }
}

/// An actor with a constructor, which closures may build as well.
struct Plain(u32);

#[actor]
impl Plain {
    pub fn new(start: u32) -> Self {
        Plain(start)
    }

    pub fn add(&mut self, x: u32) -> u32 {
        self.0 += x;
        self.0
    }
}

fn tee<'r>(runtime: &'r Runtime, log: &Sender<u32>, drops: &Arc<AtomicU32>) -> Spawn<'r, Tee, ThisProcess> {
    let (log, drops) = (log.clone(), Arc::clone(drops));
    runtime.spawn_with("tee", move || Tee::new(log, drops))
}

const GRACE: Duration = Duration::from_secs(10);

#[test]
fn state_that_serde_does_not_know_lives_inline_on_a_thread_and_on_a_shared_lane() {
    let runtime = Runtime::new();
    let (log, logged) = channel();
    let drops = Arc::default();
    let lane = runtime.lane("shared");
    let spawned = [
        tee(&runtime, &log, &drops).inline(),
        tee(&runtime, &log, &drops).in_thread(),
        tee(&runtime, &log, &drops).in_lane(&lane),
    ];
    drop(log);
    for tee in spawned {
        let tee = tee.unwrap();
        let graph = runtime.compile(|x: Edge<u32>| tee.tee(&x)).unwrap();
        assert_eq!(graph.run(4).unwrap(), 40);
        assert_eq!(logged.recv_timeout(GRACE).unwrap(), 4);
        assert!(graph.teardown().stuck.is_empty());
        assert_eq!(tee.call().tee(5).wait().unwrap(), 50);
        assert_eq!(logged.recv_timeout(GRACE).unwrap(), 5);
    }
    drop(lane);
    assert!(runtime.shutdown(GRACE).stuck_lanes.is_empty());
    // An inline actor ends with its runtime. Every sender is gone then, so every state was dropped.
    drop(runtime);
    assert_eq!(logged.recv_timeout(GRACE), Err(RecvTimeoutError::Disconnected));
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}

#[test]
fn a_closure_runs_on_the_thread_of_its_actor_and_may_hold_what_cannot_be_copied() {
    let runtime = Runtime::new();
    let (sender, receiver) = channel();
    let source = runtime
        .spawn_with("source", move || Source(receiver))
        .in_thread()
        .unwrap();
    sender.send(7).unwrap();
    let graph = runtime.compile(|tick: Edge<u32>| source.next(&tick)).unwrap();
    assert_eq!(graph.run(0).unwrap(), 7);
    assert!(graph.run(1).unwrap_err().to_string().contains("empty channel"));

    let seen = Arc::new(Mutex::new(String::new()));
    let made = Arc::clone(&seen);
    let (log, _logged) = channel();
    let there = runtime.spawn_with("there", move || {
        *made.lock().unwrap() = std::thread::current().name().unwrap_or_default().to_owned();
        Tee::new(log, Arc::default())
    });
    let there = there.in_thread().unwrap();
    assert_eq!(*seen.lock().unwrap(), there.call().thread().wait().unwrap());
    assert_ne!(
        *seen.lock().unwrap(),
        std::thread::current().name().unwrap_or_default()
    );
}

#[test]
fn a_panic_keeps_the_state_or_builds_it_again() {
    let runtime = Runtime::new();
    let (log, _logged) = channel();
    let drops: Arc<AtomicU32> = Arc::default();
    let kept = tee(&runtime, &log, &drops).in_thread().unwrap();
    assert!(kept.call().tee(13).wait().unwrap_err().is_panic());
    assert_eq!(
        (
            kept.call().drops().wait().unwrap(),
            kept.call().tee(1).wait().unwrap()
        ),
        (0, 10)
    );

    let again = Arc::clone(&drops);
    let rebuilt = tee(&runtime, &log, &drops).rebuild_with(move || Tee::new(log.clone(), Arc::clone(&again)));
    let rebuilt = rebuilt.in_thread().unwrap();
    for panics in 1..=3 {
        assert!(rebuilt.call().tee(13).wait().unwrap_err().is_panic());
        assert_eq!(rebuilt.call().drops().wait().unwrap(), panics);
    }
    assert_eq!(rebuilt.call().tee(2).wait().unwrap(), 20);
    assert!(runtime.shutdown(GRACE).stuck_lanes.is_empty());
    assert_eq!(drops.load(Ordering::Relaxed), 5);
}

#[test]
fn a_closure_that_fails_or_panics_is_an_error_and_what_it_held_is_dropped() {
    let runtime = Runtime::new();
    let drops: Arc<AtomicU32> = Arc::default();
    let held = Counted(Arc::clone(&drops));
    let failed = runtime.try_spawn_with::<Plain, _>("plain", move || {
        let _held = held;
        Err(std::io::Error::other("no model on this disk"))
    });
    let error = failed.in_thread().map(drop).unwrap_err();
    assert!(matches!(&error, SpawnError::Constructor { actor, .. } if actor == "plain"));
    assert!(error.to_string().contains("no model on this disk"), "{error}");

    let held = Counted(Arc::clone(&drops));
    let panicked = runtime.spawn_with::<Plain>("plain", move || {
        let _held = held;
        panic!("no luck today")
    });
    let error = panicked.inline().map(drop).unwrap_err();
    assert!(error.to_string().contains("no luck today"), "{error}");

    // Nobody chose a place for this one.
    let held = Counted(Arc::clone(&drops));
    drop(runtime.spawn_with("plain", move || {
        let _held = &held;
        Plain(0)
    }));
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}

#[test]
fn a_closure_does_not_cross_into_a_worker() {
    let runtime = Runtime::new();
    let worker = runtime.worker("elsewhere").unwrap();
    let refused = runtime
        .spawn_with("plain", || Plain(1))
        .in_lane(&worker.lane("there"));
    let error = refused.map(drop).unwrap_err();
    assert!(matches!(&error, SpawnError::ThisProcessOnly { actor } if actor == "plain"));
    assert!(error.to_string().contains("Runtime::spawn"), "{error}");
    // The lane and the worker can be used as before.
    let plain = runtime.spawn::<Plain>("plain", (1,)).in_worker(&worker).unwrap();
    assert_eq!(plain.call().add(2).wait().unwrap(), 3);
}

#[test]
fn an_actor_with_a_constructor_may_be_built_by_a_closure() {
    let runtime = Runtime::new();
    let plain = runtime.spawn_with("plain", || Plain(40)).inline().unwrap();
    let graph = runtime.compile(|x: Edge<u32>| plain.add(&x)).unwrap();
    assert_eq!(graph.run(2).unwrap(), 42);
}
