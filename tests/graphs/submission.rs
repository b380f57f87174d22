//! Submission and fetching: capacity, cancellation, time-outs, threads, tear-down.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::actors::{self, Gate, PLACEMENTS, REMOTE, Table, Text, counter, until};
use selvedge::Wait;
use selvedge::prelude::*;

#[test]
fn dag_31_when_full_fail_refuses_and_gives_the_value_back() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let options = Options::new().max_inflight(10).on_full(OnFull::Fail);
        let gate = Gate::closed();
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let mut pending: Vec<_> = (0..10).map(|_| graph.execute(20)).collect();
        let refused = graph.try_execute(77).expect_err("the eleventh");
        assert_eq!(refused.value, 77);
        let text = refused.to_string();
        assert!(text.contains("10") && text.contains("max_inflight"), "{text}");
        match graph.execute(78).wait() {
            Err(ExecError::CapacityExceeded {
                inflight: 10,
                max_inflight: 10,
            }) => {}
            other => panic!("{placement}: {other:?}"),
        }
        gate.open();
        for execution in pending.drain(..) {
            assert_eq!(execution.wait()?, 20);
        }
        assert_eq!(graph.execute(1).wait()?, 1, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_31_when_full_block_waits_for_room() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile_with(Options::new().max_inflight(2), |x: Edge<i64>| a.echo(&x))?;
        let all: Vec<_> = (0..100).map(|x| graph.execute(x)).collect();
        for (x, execution) in all.into_iter().enumerate() {
            assert_eq!(execution.wait()?, x as i64, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_31_when_full_drop_oldest_cancels_the_oldest() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let options = Options::new().max_inflight(2).on_full(OnFull::DropOldest);
        let graph = runtime.compile_with(options.submit_timeout(Duration::ZERO), |x: Edge<i64>| {
            b.inc(&a.echo(&x))
        })?;
        // A call keeps `a` busy until a third submission, which finds no room yet, has cancelled the oldest execution.
        let gate = Gate::closed();
        let call = a.call().pass(0, gate.path());
        gate.reached(1);
        let (oldest, second) = (graph.execute(300), graph.execute(1));
        let refused = graph.execute(7).wait();
        assert!(
            matches!(refused, Err(ExecError::Timeout(_))),
            "{placement}: {refused:?}"
        );
        gate.open();
        assert_eq!(call.wait()?, 0);
        assert!(
            matches!(oldest.wait(), Err(ExecError::Cancelled { execution: 0 })),
            "{placement}"
        );
        assert_eq!(second.wait()?, 1);
        assert_eq!(graph.run(2)?, 3, "b never saw the cancelled execution");
    }
    Ok(())
}

#[test]
fn dag_31_drop_oldest_cancels_none_while_the_oldest_ends_already() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let options = Options::new().max_inflight(2).on_full(OnFull::DropOldest);
        let options = options.submit_timeout(Duration::ZERO);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.echo(&x))?;
        let gate = Gate::closed();
        let call = a.call().pass(0, gate.path());
        gate.reached(1);
        let (oldest, second) = (graph.execute(300), graph.execute(1));
        drop(oldest);
        let refused = graph.execute(7).wait();
        assert!(
            matches!(refused, Err(ExecError::Timeout(_))),
            "{placement}: {refused:?}"
        );
        gate.open();
        assert_eq!(call.wait()?, 0);
        assert_eq!(second.wait()?, 1, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_32_results_that_nobody_fetches_are_bounded() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let options = Options::new().max_inflight(2).max_buffered(5);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.echo(&x))?;
        let mut held: Vec<_> = (0..4).map(|_| graph.execute(1)).collect();
        // A result here implies that the four before it have arrived: one less than the limit.
        assert_eq!(graph.run(2)?, 2, "{placement}");
        held.push(graph.execute(1));
        let refused = (0..2).find_map(|_| match graph.execute(3) {
            // The first attempt may be accepted before the fifth result has arrived; its own result then arrives after
            // the fifth.
            execution if execution.number().is_some() => {
                assert_eq!(execution.wait().expect("a result"), 3);
                None
            }
            refused => refused.wait().err(),
        });
        match refused {
            Some(ExecError::ResultsBuffered {
                buffered: 5,
                max_buffered: 5,
            }) => {}
            other => panic!("{placement}: {other:?}"),
        }
        assert_eq!(held.pop().expect("the fifth").wait()?, 1);
        assert_eq!(graph.run(4)?, 4, "{placement}: there is room again");
        for execution in held {
            assert_eq!(execution.wait()?, 1);
        }
    }
    Ok(())
}

#[test]
fn dag_30_dropped_executions_never_block_and_free_their_slots() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile_with(Options::new().max_inflight(3), |x: Edge<i64>| a.echo(&x))?;
        for x in 0..50 {
            drop(graph.execute(x));
        }
        let (first, second, third) = (graph.execute(1), graph.execute(2), graph.execute(3));
        drop(second);
        assert_eq!((third.wait()?, first.wait()?), (3, 1), "{placement}");
    }
    Ok(())
}

#[test]
fn dag_30_a_drop_does_not_wait_for_an_inline_method() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let gate = Gate::closed();
    // A thread that waits for the method waits until the gate is open.
    let options = Options::new().timeout(Duration::from_secs(1800));
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
    let (computed, dropped) = (graph.execute(1), graph.execute(2));
    let dropped = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| computed.wait());
        gate.reached(1);
        let (said, heard) = std::sync::mpsc::channel();
        scope.spawn(move || {
            drop(dropped);
            said.send(())
        });
        let heard = heard.recv_timeout(Duration::from_secs(60));
        gate.open();
        assert!(matches!(waiter.join(), Ok(Ok(1))));
        heard
    });
    assert!(dropped.is_ok(), "it waited for the method");
    assert_eq!(graph.run(3)?, 3);
    Ok(())
}

#[test]
fn dag_30_dropping_an_execution_cancels_what_has_not_started() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let graph = runtime
            .compile(|(x, by): (Edge<i64>, Edge<i64>)| b.add(&a.pass(&x, gate.path()), &b.inc(&by)))?;
        let first = graph.execute((200, 1));
        gate.reached(1);
        // `a` is at the gate in the first execution, so `b` cannot end that execution.
        let second = graph.execute((1, 1000));
        drop(second);
        gate.open();
        assert_eq!(first.wait()?, 201, "{placement}");
        assert_eq!(graph.execute((0, 10)).wait()?, 11, "the second added nothing");
        assert_eq!(gate.visits(), 2, "{placement}: of the first and the third");
    }
    Ok(())
}

#[test]
fn dag_34_a_timeout_fires_in_time_and_nothing_is_lost() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let graph = runtime.compile(|x: Edge<i64>| a.pass(&x, gate.path()))?;
        let mut slow = graph.execute(2000);
        let mut behind = graph.execute(0);
        let error = behind
            .wait_timeout(Duration::from_millis(50))
            .expect_err("too early");
        let ExecError::Timeout(timeout) = &error else {
            panic!("{error:?}")
        };
        assert!(timeout.waited >= Duration::from_millis(50));
        assert_eq!(timeout.suspects[0].task, "a.pass");
        assert_eq!(timeout.suspects[0].execution, 0, "it covers earlier executions");
        assert!(error.to_string().contains("still computing"), "{error}");
        assert!(slow.try_get().is_none());
        gate.open();
        assert_eq!(slow.wait_timeout(Duration::from_secs(60))?, 2000);
        assert_eq!(behind.wait_timeout(Duration::from_secs(60))?, 0, "{placement}");
        assert!(matches!(
            behind.wait_timeout(Duration::ZERO),
            Err(ExecError::Taken { .. })
        ));
    }
    Ok(())
}

#[test]
fn dag_34_a_full_graph_refuses_after_submit_timeout_by_name_and_goes_on() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let limit = Duration::from_millis(20);
        let options = Options::new().max_inflight(2).submit_timeout(limit);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let pending = [graph.execute(1), graph.execute(2)];
        gate.reached(1);
        for error in [3, 4].map(|x| graph.execute(x).wait().expect_err("no room")) {
            let ExecError::Timeout(timeout) = &error else {
                panic!("{placement}: {error}")
            };
            assert_eq!(timeout.execution, None, "nothing was submitted");
            assert!(timeout.waited >= limit, "{error}");
            assert_eq!(timeout.option, "Options::submit_timeout");
            assert_eq!(timeout.suspects[0].task, "a.pass");
            let text = error.to_string();
            assert!(text.contains("no room to submit after"), "{text}");
            assert!(text.contains("Options::submit_timeout sets this time"), "{text}");
        }
        assert_eq!(graph.counters().submitted, 2, "{placement}");
        gate.open();
        for (execution, x) in pending.into_iter().zip(1..) {
            assert_eq!(execution.wait()?, x, "{placement}: what was in has stayed in");
        }
        assert_eq!(graph.run(5)?, 5, "{placement}: there is room again");
    }
    Ok(())
}

#[test]
fn dag_34_a_timeout_of_zero_returns_a_ready_result() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        let mut first = graph.execute(1);
        graph.execute(2).wait()?;
        assert_eq!(first.wait_timeout(Duration::ZERO)?, 1, "{placement}");
        let mut third = graph.execute(3);
        graph.execute(4).wait()?;
        assert_eq!(third.try_get().expect("ready")?, 3);
    }
    Ok(())
}

#[test]
fn dag_45_any_number_of_threads_may_execute_one_graph() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.scale(&x, 2))?;
        std::thread::scope(|scope| {
            for thread in 0..8i64 {
                let graph = &graph;
                scope.spawn(move || {
                    for i in 0..200 {
                        let x = thread * 1000 + i;
                        assert_eq!(graph.execute(x).wait().expect("result"), 2 * x);
                    }
                });
            }
        });
        let counters = graph.counters();
        assert_eq!(
            (counters.submitted, counters.finished),
            (1600, 1600),
            "{placement}"
        );
    }
    Ok(())
}

#[test]
fn rw_12_counters_tell_what_was_submitted_and_what_has_finished() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let graph = runtime.compile(|x: Edge<i64>| (a.echo(&x), b.pass(&x, gate.path())))?;
        let counted = || (graph.counters().submitted, graph.counters().finished);
        assert_eq!(counted(), (0, 0));
        let (early, late) = graph.execute(1).split();
        assert_eq!(early.wait()?, 1);
        assert_eq!(counted(), (1, 0), "{placement}: one of its two outputs has come");
        gate.open();
        assert_eq!(late.wait()?, 1);
        assert_eq!(counted(), (1, 1), "{placement}");
    }
    Ok(())
}

#[test]
fn dag_41_executing_and_waiting_after_tear_down_are_typed_errors() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        graph.execute(1).wait()?;
        assert!(graph.teardown().stuck.is_empty());
        assert!(graph.teardown().stuck.is_empty(), "idempotent");
        assert!(
            matches!(graph.execute(1).wait(), Err(ExecError::TornDown { .. })),
            "{placement}"
        );
        let refused = graph.try_execute(5).expect_err("torn down");
        assert_eq!(refused.value, 5);
        let again = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        assert_eq!(again.execute(2).wait()?, 2);
    }
    Ok(())
}

/// Whether a thread of this process sleeps.
fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.starts_with(" S"))
}

#[test]
fn dag_41_tear_down_during_a_task_ends_every_wait_and_frees_the_actor() -> Result<()> {
    for (placement, wait) in REMOTE
        .into_iter()
        .flat_map(|placement| [Wait::Park, Wait::Spin].map(|wait| (placement, wait)))
    {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let options = Options::new()
            .wait(wait)
            .teardown_timeout(Duration::from_secs(60));
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let pending = [1, 2].map(|x| graph.execute(x));
        gate.reached(1);
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            // One thread leads and drives the graph, the other follows.
            let waiters = pending.map(|execution| {
                let tell = tell.clone();
                scope.spawn(move || {
                    let _ = tell.send(rustix::thread::gettid().as_raw_pid());
                    execution.wait()
                })
            });
            for thread in told.iter().take(waiters.len()) {
                until("a thread that waits", || {
                    (wait == Wait::Spin || sleeps(thread)).then_some(())
                });
            }
            let teardown = scope.spawn(|| graph.teardown());
            // The method is still at the gate.
            for waiter in waiters {
                let result = waiter.join().expect("no panic");
                assert!(
                    matches!(result, Err(ExecError::TornDown { .. })),
                    "{placement}, {wait:?}: {result:?}"
                );
            }
            gate.open();
            assert!(teardown.join().expect("no panic").stuck.is_empty(), "{placement}");
        });
        assert_eq!(gate.visits(), 1, "{placement}, {wait:?}");
        let again = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        assert_eq!(again.execute(2).wait()?, 2, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_29_split_handles_are_waited_for_one_by_one_and_may_be_dropped() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        // A result left behind by any round would fill the buffer.
        let options = Options::new().max_inflight(2).max_buffered(3);
        let graph = runtime.compile_with(options, |x: Edge<i64>| (a.echo(&x), b.scale(&x, 2)))?;
        for x in 0..20 {
            let (first, second) = graph.execute(x).split();
            if x % 2 == 0 {
                drop(first);
                assert_eq!(second.wait()?, 2 * x, "{placement}");
            } else {
                assert_eq!(second.wait()?, 2 * x);
                assert_eq!(first.wait()?, x, "{placement}");
            }
        }
    }
    Ok(())
}

#[test]
fn dag_39_shutdown_drains_before_it_ends() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        let pending: Vec<_> = (0..5).map(|_| graph.execute(1)).collect();
        assert!(graph.shutdown(Duration::from_secs(5)).stuck.is_empty());
        for (index, execution) in pending.into_iter().enumerate() {
            assert_eq!(execution.wait()?, index as i64 + 1, "{placement}");
        }
    }
    Ok(())
}

pub struct Holder;

#[actor]
impl Holder {
    pub fn new() -> Self {
        Holder
    }

    /// Keeps its argument borrowed in its slot until the gate is open.
    pub fn hold(&mut self, x: &i64, #[constant] gate: &str) -> i64 {
        let gate = std::fs::File::open(gate).expect("a gate");
        gate.lock_shared().expect("a lock");
        *x
    }
}

#[test]
fn dag_31_room_that_comes_without_a_result_is_seen_by_who_spins() -> Result<()> {
    let runtime = Runtime::new();
    let (quick, last) = (
        counter(&runtime, "quick", Placement::Thread),
        counter(&runtime, "last", Placement::Thread),
    );
    let slow = runtime.spawn::<Holder>("slow", ()).in_thread()?;
    let gate = Gate::closed();
    // A thread that misses the notification notices the room only after this time.
    let far = Duration::from_secs(60);
    let options = Options::new()
        .max_inflight(2)
        .slots(1)
        .wait(Wait::Spin)
        .submit_timeout(far);
    let graph = runtime.compile_with(options, |x: Edge<i64>| {
        let (quick, slow) = (quick.fail_if_negative(&x), slow.hold(&x, gate.path()));
        last.add(&quick, &slow)
    })?;
    // The execution has ended, and `slow` still holds the slot of an input.
    assert!(matches!(graph.execute(-1).wait(), Err(ExecError::Task(_))));
    assert!(graph.try_execute(1).is_err(), "no room");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Gives the other thread time to wait; the result does not depend on it.
            std::thread::sleep(Duration::from_millis(20));
            gate.open();
        });
        graph.execute(1).wait()
    })
    .map(|sum| assert_eq!(sum, 2))?;
    assert!(begun.elapsed() < far);
    Ok(())
}

#[test]
fn dag_31_whoever_has_a_result_finds_room_for_the_next_execution() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        // The method reads its argument in place, in the slot that the next execution needs.
        let text = runtime.spawn::<Text>("text", ()).place(placement)?;
        let options = Options::new().max_inflight(1).wait(Wait::Park);
        let graph = runtime.compile_with(options.clone(), |x: Edge<String>| text.upper(&x))?;
        for _ in 0..2_000 {
            assert_eq!(graph.try_execute("a".into())?.wait()?, "A", "{placement}");
        }
        drop(graph);
        // The same check with a ring of exactly one slot.
        let graph = runtime.compile_with(options, |x: Edge<Table>| text.first(&x))?;
        for _ in 0..10_000 {
            assert_eq!(graph.try_execute(Table([[7; 32]; 8]))?.wait()?, 7, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_31_when_inputs_are_unread_the_lane_that_is_behind_is_named() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let options = Options::new().max_inflight(1).on_full(OnFull::Fail);
        let graph = runtime.compile_with(options, |x: Edge<i64>| {
            a.add(&a.fail_if_negative(&x), &b.pass(&x, gate.path()))
        })?;
        // Each execution ends before the next begins; the other branch has yet to read its input.
        let error = actors::until("a full input", || match graph.run(-1) {
            Err(ExecError::Task(_)) => None,
            other => Some(other.expect_err("it fails or is refused")),
        });
        let ExecError::InputsUnread { behind } = &error else {
            panic!("{placement}: {error}")
        };
        // Lane `a` may have the input of the last execution still unread as well.
        assert!(behind.iter().any(|it| it.task == "b.pass"), "{behind:?}");
        assert!(error.to_string().contains("b.pass"), "{error}");
        // The refusal may have been for lane `a`, which goes on.
        let refused = actors::until("a full graph", || graph.try_execute(7).err());
        assert_eq!(refused.value, 7);
        gate.open();
        let value = actors::until("room again", || graph.run(5).ok());
        assert_eq!(value, 10, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_29_outputs_that_are_not_one_edge_each_are_not_split() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let not_split = |error: ExecError| assert!(matches!(error, ExecError::NotSplit { .. }), "{error}");
        let graph = runtime.compile(|x: Edge<i64>| (vec![a.echo(&x)], x))?;
        let (list, one) = graph.execute(1).split();
        not_split(list.wait().expect_err("a vector"));
        not_split(one.wait().expect_err("beside a vector"));
        assert_eq!(graph.run(2)?, (vec![2], 2), "{placement}: the graph goes on");
        drop(graph);
        let graph = runtime.compile(|x: Edge<i64>| ([a.echo(&x)], x))?;
        not_split(graph.execute(1).split().0.wait().expect_err("an array"));
        drop(graph);
        let graph = runtime.compile(|x: Edge<i64>| a.pair(&x))?;
        not_split(graph.execute(1).split().1.wait().expect_err("one edge"));
        drop(graph);
        let graph = runtime.compile(|x: Edge<i64>| {
            let echo = || a.echo(&x);
            (echo(), echo(), echo(), echo(), echo(), echo(), echo(), a.inc(&x))
        })?;
        let (first, .., last) = graph.execute(5).split();
        assert_eq!((first.wait()?, last.wait()?), (5, 5), "{placement}");
    }
    Ok(())
}

#[test]
fn dag_26_a_vector_of_another_length_comes_back_and_the_graph_goes_on() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let options = Options::new().inputs(2);
    let graph = runtime.compile_with(options, |(x, xs): (Edge<i64>, Vec<Edge<i64>>)| {
        (a.add(&x, &xs[0]), a.echo(&xs[1]))
    })?;
    for wrong in [vec![], vec![1], vec![1, 2, 3]] {
        let refused = graph.try_execute((7, wrong.clone())).expect_err("another length");
        assert_eq!(refused.value, (7, wrong.clone()));
        let error = graph.execute((7, wrong)).wait().expect_err("another length");
        for error in [refused.error, error] {
            assert!(matches!(error, ExecError::InputCount { expected: 3 }), "{error}");
            assert!(error.to_string().contains("3 in all"), "{error}");
        }
    }
    assert_eq!(graph.try_execute((1, vec![2, 3])).expect("room").wait()?, (3, 3));
    assert_eq!(graph.counters().submitted, 1);
    Ok(())
}
