//! Actors whose async methods overlap, cancellation at the await, and the token of methods that block.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::actors::{REMOTE, until};
use selvedge::prelude::*;
use selvedge::{Call, CallError, cancellation};

/// A file to which methods in any process append letters.
struct Log(PathBuf);

impl Log {
    fn new() -> Log {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("selvedge-overlap-{}-{number}", std::process::id()));
        File::create(&path).expect("a file");
        Log(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }

    fn count(&self, letter: char) -> usize {
        let text = std::fs::read_to_string(&self.0).expect("a file");
        text.chars().filter(|it| *it == letter).count()
    }

    fn reaches(&self, letter: char, many: usize) {
        until(&format!("{many} times {letter}"), || {
            (self.count(letter) >= many).then_some(())
        });
        assert_eq!(self.count(letter), many, "{letter}");
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn say(log: &str, letter: &str) {
    let mut log = File::options().append(true).open(Path::new(log)).expect("a log");
    log.write_all(letter.as_bytes()).expect("a file");
}

/// Counts a method in flight; says `d` if the method is dropped before its end.
struct InFlight<'a> {
    waits: &'a Waits,
    over: bool,
}

impl<'a> InFlight<'a> {
    fn begin(waits: &'a Waits) -> Self {
        waits.flying.set(waits.flying.get() + 1);
        waits.most.set(waits.most.get().max(waits.flying.get()));
        InFlight { waits, over: false }
    }

    fn end(mut self) {
        self.over = true;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.waits.flying.set(self.waits.flying.get() - 1);
        if !self.over {
            say(&self.waits.log, "d");
        }
    }
}

/// Holds what is neither `Sync` nor behind a lock.
pub struct Waits {
    flying: Cell<u32>,
    most: Cell<u32>,
    total: u64,
    log: String,
    together: tokio::sync::Barrier,
    here: tokio::sync::Notify,
}

#[actor(concurrency = 8)]
impl Waits {
    pub fn new(log: &str) -> Self {
        Waits {
            flying: Cell::new(0),
            most: Cell::new(0),
            total: 0,
            log: log.to_owned(),
            together: tokio::sync::Barrier::new(8),
            here: tokio::sync::Notify::new(),
        }
    }

    /// Waits until eight of these are in flight.
    pub async fn together(&self, x: u64) -> u64 {
        let flight = InFlight::begin(self);
        self.together.wait().await;
        flight.end();
        x
    }

    /// Awaits for a time that depends on `x`.
    pub async fn nap(&self, x: u64) -> u64 {
        let flight = InFlight::begin(self);
        tokio::time::sleep(Duration::from_millis(1 + x * 7 % 5)).await;
        flight.end();
        x
    }

    pub async fn ten_ms(&self, x: &u64) -> u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        *x
    }

    /// Returns the bytes and their number, after an await.
    pub async fn measure(&self, text: &str, bytes: &[u8]) -> (String, usize) {
        tokio::task::yield_now().await;
        (text.to_uppercase(), bytes.len())
    }

    pub async fn panics_if_odd(&self, x: u64) -> u64 {
        let flight = InFlight::begin(self);
        tokio::time::sleep(Duration::from_millis(1 + x * 7 % 5)).await;
        assert!(x.is_multiple_of(2), "{x} is odd");
        flight.end();
        x
    }

    /// Panics before it awaits anything.
    pub async fn panics_at_once(&self, x: u64) -> u64 {
        let _flight = InFlight::begin(self);
        assert_eq!(x, 0, "{x} is not zero");
        x
    }

    pub async fn fails_if_odd(&self, x: u64) -> Result<u64> {
        tokio::task::yield_now().await;
        if x.is_multiple_of(2) {
            Ok(x)
        } else {
            Err(format!("{x} is odd").into())
        }
    }

    /// Wakes itself until two methods have been in flight at a time.
    pub async fn yields_for_another(&self, x: u64) -> u64 {
        let flight = InFlight::begin(self);
        while self.most.get() < 2 {
            tokio::task::yield_now().await;
        }
        flight.end();
        x
    }

    /// Wakes itself for ever.
    pub async fn yields_for_ever(&self, _x: u64) -> u64 {
        let _flight = InFlight::begin(self);
        say(&self.log, "b");
        loop {
            tokio::task::yield_now().await;
        }
    }

    pub async fn for_ever(&self, _x: u64) -> u64 {
        let _flight = InFlight::begin(self);
        say(&self.log, "b");
        std::future::pending().await
    }

    /// Waits for [`Waits::notify`].
    pub async fn notified(&self, x: u64) -> u64 {
        say(&self.log, "n");
        self.here.notified().await;
        say(&self.log, "m");
        x
    }

    pub async fn notify(&self) {
        self.here.notify_waiters();
    }

    /// The number of methods in flight beside this one.
    pub async fn alone(&mut self, x: u64) -> u32 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.total += x;
        self.flying.get()
    }

    /// The number of methods in flight beside this one.
    pub fn add(&mut self, x: u64) -> u32 {
        self.total += x;
        self.flying.get()
    }

    pub fn total(&self, _x: u64) -> u64 {
        self.total
    }

    pub fn most(&self) -> u32 {
        self.most.get()
    }

    /// Blocks until the execution or the call is cancelled.
    pub fn blocks(&mut self, x: u64) -> u64 {
        let token = cancellation();
        say(&self.log, "b");
        let elsewhere = std::thread::spawn(move || {
            let begun = Instant::now();
            while !token.is_cancelled() {
                assert!(begun.elapsed() < Duration::from_secs(30), "not cancelled");
                std::thread::yield_now();
            }
        });
        elsewhere.join().expect("cancelled");
        say(&self.log, "c");
        x
    }
}

/// Awaits one after the other.
pub struct OneByOne {
    log: String,
}

#[actor]
impl OneByOne {
    pub fn new(log: &str) -> Self {
        OneByOne { log: log.to_owned() }
    }

    pub async fn for_ever(&mut self, x: u64) -> u64 {
        struct Dropped<'a>(&'a str);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                say(self.0, "d");
            }
        }
        let _dropped = Dropped(&self.log);
        say(&self.log, "b");
        std::future::pending::<()>().await;
        x
    }

    pub async fn soon(&self, x: u64) -> u64 {
        tokio::task::yield_now().await;
        x
    }
}

fn waits(runtime: &Runtime, log: &Log, placement: Placement) -> WaitsHandle {
    runtime
        .spawn::<Waits>("w", (log.path(),))
        .place(placement)
        .expect("spawn")
}

#[test]
fn exactly_as_many_methods_as_allowed_are_in_flight_and_results_keep_their_order() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| w.together(&x))?;
        let results: std::result::Result<Vec<u64>, _> = graph.map(0..400).collect();
        assert_eq!(results?, (0..400).collect::<Vec<_>>(), "{placement}");
        assert_eq!(w.call().most().wait()?, 8, "{placement}");
        drop(graph);
        let graph = runtime.compile(|x: Edge<u64>| w.nap(&x))?;
        let results: std::result::Result<Vec<u64>, _> = graph.map(0..400).collect();
        assert_eq!(results?, (0..400).collect::<Vec<_>>(), "{placement}");
        assert_eq!(w.call().most().wait()?, 8, "{placement}");
    }
    Ok(())
}

#[test]
fn calls_overlap_with_each_other_and_with_a_graph() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let calls: Vec<Call<u64>> = (0..24).map(|x| w.call().together(x)).collect();
        for (x, call) in (0..).zip(calls) {
            assert_eq!(call.wait()?, x, "{placement}");
        }
        let graph = runtime.compile(|x: Edge<u64>| w.together(&x))?;
        for _ in 0..20 {
            let executions: Vec<_> = (0..4).map(|x| graph.execute(x)).collect();
            let calls: Vec<Call<u64>> = (4..8).map(|x| w.call().together(x)).collect();
            let called: std::result::Result<Vec<u64>, CallError> =
                calls.into_iter().map(Call::wait).collect();
            assert_eq!(called?, [4, 5, 6, 7], "{placement}");
            for (x, execution) in (0..).zip(executions) {
                assert_eq!(execution.wait()?, x, "{placement}");
            }
        }
        assert_eq!(w.call().most().wait()?, 8, "{placement}");
    }
    Ok(())
}

#[test]
fn a_method_that_wakes_itself_holds_up_neither_executions_nor_calls_nor_its_own_end() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| w.yields_for_another(&x))?;
        let both = [graph.execute(1), graph.execute(2)];
        for (x, execution) in (1..).zip(both) {
            assert_eq!(execution.wait()?, x, "{placement}");
        }
        let endless = w.call().yields_for_ever(0);
        log.reaches('b', 1);
        assert_eq!(graph.run(3)?, 3, "{placement}");
        assert_eq!(w.call().nap(4).wait()?, 4, "{placement}");
        drop(endless);
        log.reaches('d', 1);
        drop(graph);
        let graph = runtime.compile(|x: Edge<u64>| w.yields_for_ever(&x))?;
        let endless = graph.execute(0);
        log.reaches('b', 2);
        drop((endless, graph));
        log.reaches('d', 2);
        assert_eq!(w.call().nap(5).wait()?, 5, "{placement}");
    }
    Ok(())
}

#[test]
fn a_method_with_exclusive_access_runs_alone_also_among_calls() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| (w.nap(&x), w.add(&x), w.alone(&x), w.total(&x)))?;
        let executions: Vec<_> = (1..=50).map(|x| graph.execute(x)).collect();
        let calls: Vec<_> = (0..50)
            .map(|x| (w.call().nap(x), w.call().add(0), w.call().alone(0)))
            .collect();
        let mut total = 0;
        for (x, execution) in (1..).zip(executions) {
            total += 2 * x;
            assert_eq!(execution.wait()?, (x, 0, 0, total), "{placement}");
        }
        for (x, (nap, add, alone)) in (0..).zip(calls) {
            assert_eq!(
                (nap.wait()?, add.wait()?, alone.wait()?),
                (x, 0, 0),
                "{placement}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_task_on_the_same_lane_reads_the_result_and_arguments_of_all_kinds_arrive() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let other = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| {
            let here = w.nap(&w.nap(&x));
            (w.nap(&other.nap(&here)), w.total(&here), x)
        })?;
        let results: std::result::Result<Vec<_>, _> = graph.map(0..60).collect();
        let expected: Vec<_> = (0..60).map(|x| (x, 0, x)).collect();
        assert_eq!(results?, expected, "{placement}");
        drop(graph);
        let graph = runtime.compile(|(text, bytes): (Edge<String>, Edge<Vec<u8>>)| {
            let (text, bytes) = w.measure(&text, &bytes).split();
            (text, bytes)
        })?;
        for n in 0..30 {
            let measured = graph.run(("a".repeat(n), vec![0; 1000 * n]))?;
            assert_eq!(measured, ("A".repeat(n), 1000 * n), "{placement}");
        }
    }
    Ok(())
}

#[test]
fn a_panic_or_an_error_fails_its_own_execution_only() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| (w.panics_if_odd(&x), w.fails_if_odd(&x)))?;
        let executions: Vec<_> = (0..60).map(|x| graph.execute(x)).collect();
        for (x, execution) in (0..).zip(executions) {
            match execution.wait() {
                Ok(value) => assert_eq!(value, (x, x), "{placement}"),
                Err(ExecError::Task(_)) => assert_eq!(x % 2, 1, "{placement}"),
                Err(error) => panic!("{placement}: {error}"),
            }
        }
        let calls: Vec<_> = (0..20).map(|x| w.call().panics_if_odd(x)).collect();
        for (x, call) in (0..).zip(calls) {
            let result = call.wait();
            assert_eq!(
                result.is_err_and(|error| error.is_panic()),
                x % 2 == 1,
                "{placement}"
            );
        }
        assert_eq!(log.count('d'), 40, "{placement}: each panic drops its own future");
    }
    Ok(())
}

#[test]
fn a_panic_rebuilds_the_state_once_the_others_have_ended() -> Result<()> {
    let (runtime, log) = (Runtime::new(), Log::new());
    let spawn = runtime.spawn::<Waits>("w", (log.path(),));
    let w = spawn.on_panic(OnPanic::Rebuild).in_thread()?;
    assert_eq!(w.call().add(5).wait()?, 0);
    let nap = w.call().nap(4);
    let panics = w.call().panics_if_odd(5);
    assert!(panics.wait().is_err());
    assert_eq!(nap.wait()?, 4, "it keeps the state that it borrows");
    assert_eq!(w.call().total(0).wait()?, 0, "the state is new");
    Ok(())
}

#[test]
fn no_task_sees_the_state_of_before_a_panic_that_had_it_rebuilt() -> Result<()> {
    let (runtime, log) = (Runtime::new(), Log::new());
    let spawn = runtime.spawn::<Waits>("w", (log.path(),));
    let w = spawn.on_panic(OnPanic::Rebuild).in_thread()?;
    let graph = runtime.compile(|x: Edge<u64>| (w.panics_at_once(&x), w.add(&x)))?;
    let mut execution = graph.execute(5);
    // Before the failure is known here, which cancels the tasks that have not started.
    let total = || w.call().total(0).wait().expect("a total");
    until("what was added after the panic", || (total() == 5).then_some(()));
    let failed = execution.wait_timeout(Duration::from_secs(60));
    assert!(matches!(failed, Err(ExecError::Task(_))));
    assert_eq!(total(), 5);
    Ok(())
}

#[test]
fn dropped_executions_end_where_they_await_each_once_and_others_go_on() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| w.for_ever(&x))?;
        for round in 1..=3 {
            let executions: Vec<_> = (0..8).map(|x| graph.execute(x)).collect();
            log.reaches('b', 8 * round);
            let begun = Instant::now();
            drop(executions);
            log.reaches('d', 8 * round);
            println!(
                "{placement}: eight dropped executions ended within {:?}",
                begun.elapsed()
            );
            assert!(graph.ended().is_none());
        }
        drop(graph);
        let other = runtime.compile(|x: Edge<u64>| w.nap(&x))?;
        assert_eq!(other.run(3)?, 3, "{placement}");
        assert_eq!(log.count('d'), 24, "{placement}");
    }
    Ok(())
}

#[test]
fn a_wait_that_times_out_ends_its_execution_where_it_awaits() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let options = Options::new().timeout(Duration::from_millis(20));
        let graph = runtime.compile_with(options, |x: Edge<u64>| w.for_ever(&x))?;
        let Err(ExecError::Timeout(late)) = graph.run(1) else {
            panic!("{placement}: a result")
        };
        assert_eq!(late.suspects[0].task, "w.for_ever", "{placement}");
        log.reaches('d', 1);
    }
    Ok(())
}

#[test]
fn a_teardown_and_the_end_of_an_actor_drop_what_is_in_flight() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| w.for_ever(&x))?;
        let executions: Vec<_> = (0..5).map(|x| graph.execute(x)).collect();
        log.reaches('b', 5);
        assert!(graph.teardown().stuck.is_empty(), "{placement}");
        log.reaches('d', 5);
        for execution in executions {
            let ended = execution.wait();
            assert!(
                matches!(ended, Err(ExecError::TornDown { .. })),
                "{placement}: {ended:?}"
            );
        }
        assert_eq!(w.call().nap(3).wait()?, 3, "{placement}");
        let call = w.call().for_ever(1);
        log.reaches('b', 6);
        drop(graph);
        assert!(runtime.shutdown(Duration::from_secs(20)).stuck_lanes.is_empty());
        assert!(call.wait().is_err(), "{placement}");
    }
    Ok(())
}

#[test]
fn a_dropped_call_ends_where_it_awaits_and_a_detached_one_goes_on() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let one = runtime.spawn::<OneByOne>("one", (log.path(),)).place(placement)?;
        let (overlapping, alone) = (w.call().for_ever(1), one.call().for_ever(2));
        log.reaches('b', 2);
        drop((overlapping, alone));
        log.reaches('d', 2);
        assert_eq!(one.call().soon(7).wait()?, 7, "{placement}");
        let mut late = one.call().for_ever(2);
        log.reaches('b', 3);
        let waited = late.wait_timeout(Duration::from_millis(5));
        assert!(matches!(waited, Err(CallError::Timeout { .. })), "{placement}");
        assert_eq!(log.count('d'), 2, "{placement}: it goes on while it is kept");
        drop(late);
        log.reaches('d', 3);
        w.call().notified(1).detach();
        drop(w.call().notified(2));
        // The dropped call may have begun as well.
        until("a call waits", || (log.count('n') > 0).then_some(()));
        until("the detached call", || {
            let _ = w.call().notify().wait();
            (log.count('m') == 1).then_some(())
        });
        assert_eq!(w.call().nap(3).wait()?, 3, "{placement}");
        assert_eq!(log.count('m'), 1, "{placement}");
    }
    Ok(())
}

#[test]
fn a_call_that_is_dropped_before_its_async_method_begins_does_not_begin() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let one = runtime.spawn::<OneByOne>("one", (log.path(),)).place(placement)?;
        let first = one.call().for_ever(1);
        log.reaches('b', 1);
        let queued: Vec<_> = (2..10).map(|x| one.call().for_ever(x)).collect();
        drop(queued);
        drop(first);
        assert_eq!(one.call().soon(7).wait()?, 7, "{placement}");
        assert_eq!((log.count('b'), log.count('d')), (1, 1), "{placement}");
    }
    Ok(())
}

#[test]
fn a_method_that_blocks_sees_that_its_execution_or_call_is_cancelled() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let call = w.call().blocks(1);
        log.reaches('b', 1);
        drop(call);
        log.reaches('c', 1);
        let graph = runtime.compile(|x: Edge<u64>| w.blocks(&x))?;
        let execution = graph.execute(1);
        log.reaches('b', 2);
        assert_eq!(log.count('c'), 1, "{placement}");
        drop(execution);
        log.reaches('c', 2);
        drop(graph);
        let options = Options::new().timeout(Duration::from_millis(20));
        let limited = runtime.compile_with(options, |x: Edge<u64>| w.blocks(&x))?;
        assert!(
            matches!(limited.run(1), Err(ExecError::Timeout(_))),
            "{placement}"
        );
        log.reaches('c', 3);
        let _execution = limited.execute(1);
        log.reaches('b', 4);
        assert!(limited.teardown().stuck.is_empty(), "{placement}");
        log.reaches('c', 4);
    }
    Ok(())
}

#[test]
fn an_inline_method_that_blocks_sees_that_its_graph_is_torn_down() -> Result<()> {
    let (runtime, log) = (Runtime::new(), Log::new());
    let w = waits(&runtime, &log, Placement::Inline);
    let options = Options::new().teardown_timeout(Duration::from_secs(60));
    let graph = runtime.compile_with(options, |x: Edge<u64>| w.blocks(&x))?;
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| graph.run(1));
        log.reaches('b', 1);
        assert_eq!(log.count('c'), 0);
        let _teardown = graph.teardown();
        log.reaches('c', 1);
        let _ended = runs.join().expect("no panic");
    });
    Ok(())
}

#[test]
fn an_inline_actor_runs_one_method_after_the_other() -> Result<()> {
    let (runtime, log) = (Runtime::new(), Log::new());
    let w = waits(&runtime, &log, Placement::Inline);
    let graph = runtime.compile(|x: Edge<u64>| (w.nap(&x), w.add(&x)))?;
    let results: std::result::Result<Vec<_>, _> = graph.map(0..40).collect();
    assert_eq!(results?, (0..40).map(|x| (x, 0)).collect::<Vec<_>>());
    assert_eq!(w.call().nap(2).wait()?, 2);
    assert_eq!(w.call().most().wait()?, 1);
    Ok(())
}

#[test]
fn an_actor_that_is_lent_overlaps_in_the_graph_and_its_calls_find_it() -> Result<()> {
    let (runtime, log) = (Runtime::new(), Log::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crowd: Vec<_> = (0..cores + 3)
        .map(|_| waits(&runtime, &log, Placement::Thread))
        .collect();
    for round in 0..6 {
        let options = Options::new().lanes(if round % 2 == 0 {
            Lanes::Auto
        } else {
            Lanes::Spawned
        });
        let napping: Vec<_> = crowd.iter().map(|w| w.call().nap(4)).collect();
        let graph = runtime.compile_with(options, |x: Edge<u64>| {
            crowd.iter().map(|w| w.together(&x)).collect::<Vec<_>>()
        })?;
        let executions: Vec<_> = (0..16).map(|x| graph.execute(x)).collect();
        let calls: Vec<_> = crowd.iter().map(|w| w.call().nap(round)).collect();
        for (x, execution) in (0..).zip(executions) {
            assert_eq!(execution.wait()?, vec![x; crowd.len()]);
        }
        for call in calls {
            assert_eq!(call.wait()?, round);
        }
        for call in napping {
            assert_eq!(call.wait()?, 4);
        }
        drop(graph);
        assert_eq!(crowd[1].call().nap(round).wait()?, round);
    }
    Ok(())
}

#[test]
fn the_death_of_a_worker_ends_what_is_in_flight() -> Result<()> {
    let (runtime, log) = (Runtime::new(), Log::new());
    let w = waits(&runtime, &log, Placement::Process);
    let graph = runtime.compile(|x: Edge<u64>| w.for_ever(&x))?;
    let execution = graph.execute(1);
    let call = w.call().for_ever(2);
    log.reaches('b', 2);
    w.actor().kill();
    assert!(matches!(call.wait(), Err(CallError::ActorDied { .. })));
    assert!(matches!(execution.wait(), Err(ExecError::ActorDied(_))));
    Ok(())
}

#[test]
fn spawn_sets_the_concurrency_of_one_actor() -> Result<()> {
    for (concurrency, most) in [(1, 1), (3, 3)] {
        let (runtime, log) = (Runtime::new(), Log::new());
        let spawn = runtime.spawn::<Waits>("w", (log.path(),));
        let w = spawn.concurrency(concurrency).in_thread()?;
        let graph = runtime.compile(|x: Edge<u64>| w.nap(&x))?;
        let results: std::result::Result<Vec<u64>, _> = graph.map(0..40).collect();
        assert_eq!(results?, (0..40).collect::<Vec<_>>());
        assert_eq!(w.call().most().wait()?, most);
    }
    Ok(())
}

#[test]
fn a_thousand_waits_of_ten_milliseconds_keep_their_order() -> Result<()> {
    for placement in REMOTE {
        let (runtime, log) = (Runtime::new(), Log::new());
        let w = waits(&runtime, &log, placement);
        let graph = runtime.compile(|x: Edge<u64>| w.ten_ms(&x))?;
        let begun = Instant::now();
        let results: std::result::Result<Vec<u64>, _> = graph.map(0..1000).collect();
        println!(
            "{placement}: 1 000 waits of 10 ms, 8 at a time, took {:?}",
            begun.elapsed()
        );
        assert_eq!(results?, (0..1000).collect::<Vec<_>>(), "{placement}");
    }
    Ok(())
}
