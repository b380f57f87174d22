//! No wait lasts for ever: stuck methods, stopped processes, idle graphs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::actors::{self, Gate, counter, until};
use crate::census;
use rustix::process::{Pid, Signal, kill_process};
use selvedge::prelude::*;
use selvedge::{Cause, Exit, FetchError, Phase};

/// Asserts that the wait ended within a minute. Benchmarks measure shorter times.
fn in_time(started: Instant) {
    let took = started.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn dag_54_a_method_that_never_returns_is_named_and_tear_down_ends() -> Result<()> {
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let options = Options::new().teardown_timeout(Duration::from_secs(2));
        let graph = runtime.compile_with(options, |x: Edge<i64>| b.echo(&a.hang_if_negative(&x)))?;
        assert_eq!(graph.execute(1).wait()?, 1);
        let mut stuck = graph.execute(-1);
        let started = Instant::now();
        let error = stuck
            .wait_timeout(Duration::from_millis(100))
            .expect_err("it hangs");
        in_time(started);
        let ExecError::Timeout(timeout) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(timeout.suspects.len(), 1, "{error}");
        assert_eq!(timeout.suspects[0].task, "a.hang_if_negative");
        assert_eq!(timeout.suspects[0].execution, 1);
        let started = Instant::now();
        let report = graph.teardown();
        in_time(started);
        assert_eq!(report.stuck.len(), 1);
        assert_eq!(report.stuck[0].actor, "a");
        assert_eq!(report.stuck[0].killed, placement == Placement::Process);
        drop(graph);
        let again = runtime.compile(|x: Edge<i64>| b.echo(&x))?;
        assert_eq!(again.execute(3).wait()?, 3, "the other actor is reusable");
        drop(again);
        let started = Instant::now();
        drop(runtime);
        in_time(started);
    }
    Ok(())
}

#[test]
fn dag_54_a_graph_says_who_holds_it_up_without_any_time_out() -> Result<()> {
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let options = Options::new().timeout(None);
        let graph = runtime.compile_with(options, |x: Edge<i64>| b.echo(&a.pass(&x, gate.path())))?;
        assert!(graph.suspects().is_empty(), "nothing is submitted");
        let pending = graph.execute(1);
        gate.reached(1);
        for _ in 0..3 {
            let suspects = graph.suspects();
            let [suspect] = suspects.as_slice() else {
                panic!("{placement}: {suspects:?}")
            };
            assert_eq!((suspect.actor.as_str(), suspect.task.as_str()), ("a", "a.pass"));
            assert_eq!((suspect.execution, suspect.phase), (0, Phase::Computing));
            assert!(suspect.to_string().contains("is still computing"), "{suspect}");
        }
        gate.open();
        assert_eq!(pending.wait()?, 1, "{placement}");
        until("nobody who holds it up", || {
            graph.suspects().is_empty().then_some(())
        });
        let _ = graph.teardown();
        assert!(graph.suspects().is_empty());
    }
    Ok(())
}

#[test]
fn dag_54_an_inline_actor_that_has_finished_holds_nothing_up() -> Result<()> {
    for placement in actors::PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| b.add(&a.scale(&x, 2), &x))?;
        for x in 1..=3 {
            assert_eq!(graph.run(x)?, 3 * x, "{placement}");
            until("nobody who holds it up", || {
                graph.suspects().is_empty().then_some(())
            });
        }
    }
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", Placement::Inline),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let graph = runtime.compile(|x: Edge<i64>| (a.echo(&x), b.pass(&x, gate.path())))?;
        let mut pending = graph.execute(1);
        gate.reached(1);
        // A poll of the execution computes the inline tasks.
        assert!(pending.try_get().is_none());
        let at_fault: Vec<String> = graph.suspects().into_iter().map(|it| it.actor).collect();
        assert_eq!(at_fault, ["b"], "{placement}");
        gate.open();
        assert_eq!(pending.wait()?, (1, 1), "{placement}");
    }
    Ok(())
}

#[test]
fn dag_34_a_time_out_tells_the_time_since_submission() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    let graph = runtime.compile(|x: Edge<i64>| a.pass(&x, gate.path()))?;
    let mut execution = graph.execute(1);
    // No single wait takes this long.
    let long = Duration::from_millis(40);
    for limit in [Duration::ZERO, Duration::from_millis(1)] {
        until("the time since submission", || {
            let Err(ExecError::Timeout(timeout)) = execution.wait_timeout(limit) else {
                panic!("it waits at the gate")
            };
            assert_eq!(timeout.option, "the argument of wait_timeout");
            (timeout.waited >= long).then_some(())
        });
    }
    gate.open();
    assert_eq!(execution.wait()?, 1);
    drop(graph);
    let gate = Gate::closed();
    let graph = runtime.compile(|x: Edge<i64>| (a.pass(&x, gate.path()), x))?;
    let (mut part, _) = graph.execute(1).split();
    until("the time since submission, of a part", || {
        let Err(ExecError::Timeout(timeout)) = part.wait_timeout(Duration::ZERO) else {
            panic!("it waits at the gate")
        };
        (timeout.waited >= long).then_some(())
    });
    gate.open();
    assert_eq!(part.wait()?, 1);
    Ok(())
}

/// Stops a process and waits until every thread of it has stopped.
fn stop(pid: Pid) -> Result<()> {
    kill_process(pid, Signal::STOP)?;
    let running = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
            .expect("tasks")
            .filter_map(|task| task.ok());
        let state =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        tasks
            .map(state)
            .filter(|stat| {
                !stat
                    .rsplit_once(')')
                    .is_some_and(|(_, rest)| rest.starts_with(" T"))
            })
            .count()
    };
    assert_eq!(census::wait_until(&0, running), 0);
    Ok(())
}

#[remote]
fn numbers(many: u64) -> Vec<u64> {
    (0..many).collect()
}

#[remote]
fn total(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

#[test]
fn a_worker_that_stays_stopped_is_killed_and_every_wait_for_it_ends() -> Result<()> {
    let runtime = Runtime::new().silence_timeout(Duration::from_secs(3));
    let (frozen, asks) = (runtime.worker("frozen")?, runtime.worker("asks")?);
    let actor = counter(&runtime, "a", Placement::Process);
    let kept: Ref<Vec<u64>> = frozen.keep(numbers::remote(3));
    assert_eq!(runtime.call(total::remote(&kept).on(&asks)).wait()?, 3);
    let graph = runtime.compile_with(Options::new().timeout(None), |x: Edge<i64>| actor.echo(&x))?;
    assert_eq!(graph.execute(1).wait()?, 1);
    let pids = [frozen.pid(), actor.actor().pid()].map(|pid| Pid::from_raw(pid.expect("a process") as i32));
    let pids = pids.map(|pid| pid.expect("pid"));
    for pid in pids {
        stop(pid)?;
    }
    let there = runtime.call(numbers::remote(4).on(&frozen));
    let between = runtime.call(total::remote(&kept).on(&asks));
    let (called, executed) = (actor.call().echo(2), graph.execute(2));
    assert!(matches!(kept.fetch(), Err(FetchError::OwnerLost { .. })));
    let errors = [
        there.wait().expect_err("it is dead").to_string(),
        between.wait().expect_err("its argument is lost").to_string(),
    ];
    assert!(
        errors[0].contains("died") && errors[1].contains("lost"),
        "{errors:?}"
    );
    let called = called.wait().expect_err("it is dead");
    assert!(called.to_string().contains("no sign of life for 3s"), "{called}");
    let ExecError::ActorDied(died) = executed.wait().expect_err("it is dead") else {
        panic!("another error")
    };
    assert_eq!(died.death.exit, Exit::Silent(Duration::from_secs(3)));
    for pid in pids {
        assert_eq!(kill_process(pid, Signal::CONT), Err(rustix::io::Errno::SRCH));
    }
    assert_eq!(runtime.call(total::remote(vec![1, 2]).on(&asks)).wait()?, 3);
    Ok(())
}

#[test]
fn dag_54_a_stopped_worker_is_named_and_tear_down_ends() -> Result<()> {
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Process),
        counter(&runtime, "b", Placement::Process),
    );
    let busy = counter(&runtime, "busy", Placement::Thread);
    let gate = Gate::closed();
    let options = Options::new().teardown_timeout(Duration::from_secs(2));
    let graph = runtime.compile_with(options, |x: Edge<i64>| {
        (b.echo(&a.echo(&x)), busy.pass(&x, gate.path()))
    })?;
    let pid = Pid::from_raw(a.actor().pid().expect("a process") as i32).expect("pid");
    stop(pid)?;
    let mut pending = graph.execute(2);
    gate.reached(1);
    let error = pending
        .wait_timeout(Duration::from_millis(100))
        .expect_err("it is stopped");
    let ExecError::Timeout(timeout) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(timeout.suspects.len(), 1, "who computes is not at fault: {error}");
    assert_eq!(timeout.suspects[0].actor, "a");
    assert!(
        timeout.suspects[0].stopped && error.to_string().contains("stopped"),
        "{error}"
    );
    kill_process(pid, Signal::CONT)?;
    gate.open();
    assert_eq!(
        pending.wait_timeout(Duration::from_secs(60))?,
        (2, 2),
        "nothing was lost"
    );
    stop(pid)?;
    drop(pending);
    let started = Instant::now();
    let report = graph.teardown();
    in_time(started);
    assert_eq!(report.stuck[0].actor, "a");
    drop(graph);
    let died = until("it was killed", || a.actor().last_death());
    assert!(
        matches!(died.exit, Exit::Killed(_)),
        "the tear-down has killed it: {died}"
    );
    let again = runtime.compile(|x: Edge<i64>| b.echo(&x))?;
    assert_eq!(again.execute(3).wait()?, 3);
    Ok(())
}

/// The clock ticks that a process has computed, and the number of times that its threads have gone to sleep.
fn work_of(pid: u32) -> (u64, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, rest) = stat.rsplit_once(')').expect("comm");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
    let sleeps = tasks.map(|task| census::sleeps_of(&task.expect("a task").path()).expect("sleeps"));
    (ticks, sleeps.sum())
}

#[test]
fn no_busy_waiting_an_idle_graph_of_four_workers_uses_no_cpu() -> Result<()> {
    let runtime = Runtime::new();
    let actors: Vec<_> = (0..4)
        .map(|i| counter(&runtime, &format!("a{i}"), Placement::Process))
        .collect();
    let graph = runtime.compile(|x: Edge<i64>| actors.iter().fold(x, |edge, a| a.echo(&edge)))?;
    assert_eq!(graph.execute(1).wait()?, 1);
    let pids: Vec<u32> = actors.iter().filter_map(|a| a.actor().pid()).collect();
    assert_eq!(pids.len(), 4);
    // The spin budget is far below a clock tick, so every lane is parked soon. A lane that looks again and again computes all the
    // time, and one that polls sleeps more often than for the two signs of life in each window, whatever its interval. On a machine
    // whose host takes its memory away, an answer to those takes milliseconds.
    let work = || -> Vec<_> { pids.iter().map(|pid| work_of(*pid)).collect() };
    let mut found = Vec::new();
    let idle = (0..5).any(|_| {
        let before = work();
        std::thread::sleep(Duration::from_secs(2));
        let after = work().into_iter().zip(before);
        found = after
            .map(|(after, before)| (after.0 - before.0, after.1 - before.1))
            .collect();
        found.iter().all(|(ticks, sleeps)| *ticks < 10 && *sleeps < 10)
    });
    assert!(idle, "ticks and sleeps: {found:?}");
    assert_eq!(graph.execute(2).wait()?, 2);
    Ok(())
}

/// An actor that counts its async methods that were dropped at an await.
struct Waits {
    dropped: Arc<AtomicU32>,
}

struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[actor]
impl Waits {
    pub fn new() -> Self {
        Waits {
            dropped: Arc::default(),
        }
    }

    /// For a negative `x`, reports through the file `said` that it runs, then awaits for ever.
    pub async fn for_ever_if_negative(&mut self, x: i64, #[constant] said: &str) -> i64 {
        if x < 0 {
            let _dropped = Dropped(Arc::clone(&self.dropped));
            std::fs::write(said, "so").expect("a file");
            std::future::pending::<()>().await;
        }
        x
    }

    pub fn dropped(&mut self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Spawns two inline actors, two on a thread each, or two in one worker process.
fn two_that_wait(runtime: &Runtime, placement: Placement) -> Result<[WaitsHandle; 2]> {
    let worker = (placement == Placement::Process)
        .then(|| runtime.worker("w"))
        .transpose()?;
    let spawn = |name: &str| {
        let spawned = runtime.spawn::<Waits>(name, ());
        match &worker {
            Some(worker) => spawned.in_worker(worker),
            None => spawned.place(placement),
        }
    };
    Ok([spawn("a")?, spawn("b")?])
}

/// Waits until the method has reported through the file that it runs, then empties the file.
fn begun(said: &Gate) {
    until("it awaits", || {
        std::fs::read(said.path()).ok().filter(|said| !said.is_empty())
    });
    std::fs::write(said.path(), "").expect("a file");
}

/// A time limit far above all others in this file: a wait until this limit counts as endless.
const LONG: Duration = Duration::from_secs(1800);

#[test]
fn dag_54_an_async_method_is_dropped_where_it_awaits_when_its_graph_ends_and_nobody_is_killed() -> Result<()>
{
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let [a, b] = two_that_wait(&runtime, placement)?;
        let options = Options::new().teardown_timeout(LONG);
        let said = Gate::closed();
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.for_ever_if_negative(&x, said.path()))?;
        let stuck = graph.execute(-1);
        begun(&said);
        assert!(graph.teardown().stuck.is_empty(), "{placement}");
        assert!(matches!(stuck.wait(), Err(ExecError::TornDown { .. })));
        drop(graph);
        assert_eq!(a.call().dropped().wait()?, 1, "{placement}: its state is kept");
        assert_eq!(b.call().dropped().wait()?, 0, "{placement}");
        let again = runtime.compile(|x: Edge<i64>| a.for_ever_if_negative(&x, said.path()))?;
        assert_eq!(again.run(3)?, 3, "{placement}: the same actor, where it was");
    }
    Ok(())
}

#[test]
fn dag_54_an_async_method_is_dropped_where_it_awaits_when_its_execution_is_dropped() -> Result<()> {
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let [a, b] = two_that_wait(&runtime, placement)?;
        let said = Gate::closed();
        let graph = runtime.compile(|x: Edge<i64>| {
            b.for_ever_if_negative(&a.for_ever_if_negative(&x, said.path()), said.path())
        })?;
        for round in 1..=3 {
            let stuck = graph.execute(-1);
            begun(&said);
            drop(stuck);
            assert_eq!(graph.run(round)?, round, "{placement}");
        }
        // The method of an oldest execution that is cancelled to make room is dropped too.
        drop(graph);
        let options = Options::new().max_inflight(1).on_full(OnFull::DropOldest);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.for_ever_if_negative(&x, said.path()))?;
        let oldest = graph.execute(-1);
        begun(&said);
        assert_eq!(graph.run(7)?, 7, "{placement}");
        let cancelled = oldest.wait().expect_err("it made room");
        assert!(
            matches!(cancelled, ExecError::Cancelled { execution: 0 }),
            "{cancelled}"
        );
        drop(graph);
        assert_eq!(b.call().dropped().wait()?, 0, "{placement}");
        assert_eq!(a.call().dropped().wait()?, 4, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_54_an_async_method_is_dropped_where_it_awaits_when_another_actor_has_died() -> Result<()> {
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let [a, _] = two_that_wait(&runtime, placement)?;
        let b = counter(&runtime, "b that dies", Placement::Process);
        let said = Gate::closed();
        let graph = runtime.compile(|x: Edge<i64>| (a.for_ever_if_negative(&x, said.path()), b.echo(&x)))?;
        let mut stuck = graph.execute(-1);
        begun(&said);
        b.actor().kill();
        let error = stuck.wait_timeout(LONG).expect_err("b has died");
        assert!(matches!(error, ExecError::ActorDied(_)), "{error}");
        // The execution and the graph still exist; dropping either would drop the method too.
        let dropped = a.call().dropped().wait_timeout(Duration::from_secs(60))?;
        assert_eq!(dropped, 1, "{placement}");
        drop((stuck, graph));
    }
    Ok(())
}

#[test]
fn dag_54_an_inline_async_method_that_awaits_for_ever_is_dropped_when_the_time_is_over() -> Result<()> {
    let runtime = Runtime::new();
    let [a, _] = two_that_wait(&runtime, Placement::Inline)?;
    let said = Gate::closed();
    let options = Options::new().timeout(Duration::from_millis(20));
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.for_ever_if_negative(&x, said.path()))?;
    let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    // First outside a Tokio runtime, then within one.
    for round in 1..=2 {
        let late = if round == 1 {
            graph.run(-1)
        } else {
            tokio.block_on(async { graph.run(-1) })
        };
        let Err(ExecError::Task(error)) = late else {
            panic!("it came back: {late:?}")
        };
        assert!(matches!(error.cause(), Cause::TimedOut { .. }), "{error}");
        assert!(
            error.to_string().contains("dropped where it awaited, after 20ms"),
            "{error}"
        );
        assert_eq!(a.call().dropped().wait()?, round);
        assert_eq!(graph.run(3)?, 3, "the graph goes on");
    }
    Ok(())
}
