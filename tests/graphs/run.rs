//! `Graph::run`: an execution from its input to its result in one call, with other executions in flight.

use std::time::{Duration, Instant};

use crate::actors::{Counter, CounterHandle, Gate, PLACEMENTS, REMOTE, counter, until};
use proptest::prelude::*;
use selvedge::prelude::*;

#[test]
fn dag_27_a_run_gives_what_an_execution_gives() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let one = runtime.compile(|x: Edge<i64>| b.scale(&a.inc(&x), 10))?;
        for x in 1..50 {
            let run = one.run(1)?;
            assert_eq!(run, 10 * (2 * x - 1), "{placement}");
            assert_eq!(one.execute(1).wait()?, run + 10, "{placement}");
        }
        assert_eq!(one.counters().finished, 98);
        let _ = one.teardown();
        let tuple = runtime.compile(|(x, y): (Edge<i64>, Edge<i64>)| (a.echo(&y), b.add(&x, &y)))?;
        assert_eq!(tuple.run((1, 2))?, (2, 3), "{placement}");
        assert_eq!(tuple.run((3, 4))?, (4, 7), "{placement}");
        let _ = tuple.teardown();
        let none = runtime.compile(|(): ()| a.tick())?;
        assert_eq!(none.run(())? + 1, none.run(())?, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_27_an_input_may_run_straight_through() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let graph = runtime.compile(|x: Edge<i64>| (x.clone(), a.inc(&x)))?;
    assert_eq!(graph.run(5)?, (5, 5));
    assert_eq!(graph.run(6)?, (6, 11));
    Ok(())
}

#[test]
fn dag_35_a_run_that_fails_says_why_and_the_graph_goes_on() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
        for x in 1..20 {
            assert_eq!(graph.run(x)?, x);
            let error = graph.run(-x).expect_err("it is negative").to_string();
            assert!(
                error.contains(&format!("-{x} is negative")),
                "{placement}: {error}"
            );
            assert_eq!(graph.execute(x).wait()?, x);
        }
        assert_eq!(graph.counters().finished, 57);
    }
    Ok(())
}

#[test]
fn dag_34_a_run_that_takes_too_long_names_who_is_at_it_and_the_next_one_is_right() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let options = Options::new().timeout(Duration::from_millis(20));
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        match graph.run(1) {
            Err(ExecError::Timeout(timeout)) => {
                let text = timeout.to_string();
                assert!(text.contains("a.pass"), "{placement}: {text}");
            }
            other => panic!("{placement}: {other:?}"),
        }
        gate.open();
        // Executions that timed out and new ones never mix, on machines of any speed.
        let mut asked = 1;
        let found = until("an answer", || {
            asked += 1;
            graph.run(asked).ok()
        });
        assert_eq!(asked, found, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_31_a_run_keeps_to_what_is_said_of_a_full_graph() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    let options = Options::new().max_inflight(1).on_full(OnFull::Fail);
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
    let pending = graph.execute(1);
    assert!(matches!(graph.run(2), Err(ExecError::CapacityExceeded { .. })));
    gate.open();
    assert_eq!(pending.wait()?, 1);
    assert_eq!(graph.run(3)?, 3);
    Ok(())
}

#[test]
fn dag_37_a_run_ends_with_its_actor_or_its_graph() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile(|x: Edge<i64>| a.exit_if_negative(&x))?;
    assert_eq!(graph.run(1)?, 1);
    assert!(matches!(graph.run(-1), Err(ExecError::ActorDied(_))));
    assert!(matches!(graph.run(1), Err(ExecError::ActorDied(_))));

    let b = counter(&runtime, "b", Placement::Thread);
    let graph = runtime.compile(|x: Edge<i64>| b.echo(&x))?;
    assert_eq!(graph.run(1)?, 1);
    let _ = graph.teardown();
    assert!(matches!(graph.run(1), Err(ExecError::TornDown { .. })));
    Ok(())
}

#[test]
fn dag_39_a_tear_down_ends_a_run_that_waits() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    // The call spins while it waits, so it holds the driver's lock when the graph ends.
    let options = Options::new()
        .wait(Wait::Spin)
        .teardown_timeout(Duration::from_millis(1));
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
    std::thread::scope(|scope| {
        let run = scope.spawn(|| graph.run(1));
        until("it has begun", || (graph.counters().submitted > 0).then_some(()));
        let _ = graph.teardown();
        assert!(matches!(run.join().unwrap(), Err(ExecError::TornDown { .. })));
    });
    gate.open();
    Ok(())
}

#[test]
fn dag_39_a_tear_down_without_time_leaves_lanes_some() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let options = Options::new().teardown_timeout(Duration::ZERO);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let pending = graph.execute(1);
        gate.reached(1);
        let begun = Instant::now();
        let stuck = graph.teardown().stuck;
        let waited = begun.elapsed();
        gate.open();
        assert_eq!(stuck.len(), 1, "{placement}");
        assert!(waited >= Duration::from_secs(1), "{placement}: {waited:?}");
        drop(pending);
    }
    Ok(())
}

#[test]
fn dag_39_a_tear_down_costs_no_actor_that_answers() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        for round in 0..30 {
            let options = Options::new().teardown_timeout(Duration::from_secs(60));
            let graph = runtime.compile_with(options, |x: Edge<i64>| a.echo(&x))?;
            // The tear-down reaches the lane while it begins, and while it waits for more input.
            if round % 2 == 1 {
                assert_eq!(graph.run(round)?, round, "{placement}");
            }
            assert!(graph.teardown().stuck.is_empty(), "{placement}, round {round}");
        }
    }
    Ok(())
}

#[test]
fn dag_27_many_threads_run_one_graph() -> Result<()> {
    for wait in [Wait::Auto, Wait::Park, Wait::Spin] {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", Placement::Thread);
        let graph = runtime.compile_with(Options::new().max_inflight(2).wait(wait), |x: Edge<i64>| {
            a.echo(&x)
        })?;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let graph = &graph;
                scope.spawn(move || {
                    for x in 0..200 {
                        let x = 1000 * thread + x;
                        assert_eq!(graph.run(x).unwrap(), x);
                        if x % 7 == 0 {
                            drop(graph.execute(x));
                        }
                    }
                });
            }
        });
        assert_eq!(graph.run(-1)?, -1);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Run,
    Execute,
    Fetch,
    Look,
    Drop,
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let one = prop_oneof![
        3 => Just(Use::Run),
        2 => Just(Use::Execute),
        1 => Just(Use::Fetch),
        1 => Just(Use::Look),
        1 => Just(Use::Drop),
    ];
    proptest::collection::vec(one, 1..60)
}

fn play(uses: &[Use], lanes: bool) -> Result<()> {
    let runtime = Runtime::new();
    let lane = runtime.lane("both");
    let spawn = |name: &str| -> Result<CounterHandle> {
        let spawned = runtime.spawn::<Counter>(name, (0,));
        Ok(if lanes {
            spawned.in_lane(&lane)?
        } else {
            spawned.in_thread()?
        })
    };
    let (a, b) = (spawn("a")?, spawn("b")?);
    let graph = runtime.compile_with(Options::new().max_inflight(3), |x: Edge<i64>| {
        b.scale(&a.fail_if_negative(&x), 2)
    })?;
    let mut held = std::collections::VecDeque::new();
    for (x, one) in (0i64..).zip(uses) {
        // Every fifth input is negative and fails.
        let x = if x % 5 == 4 { -x } else { x };
        let is_right = |found: std::result::Result<i64, ExecError>, x: i64| match found {
            Ok(found) => assert_eq!(found, 2 * x),
            Err(ExecError::Task(_)) => assert!(x < 0),
            Err(other) => panic!("{other}"),
        };
        match one {
            Use::Run => is_right(graph.run(x), x),
            Use::Execute => held.push_back((x, graph.execute(x))),
            Use::Fetch => {
                if let Some((x, execution)) = held.pop_back() {
                    is_right(execution.wait(), x);
                }
            }
            Use::Look => {
                if let Some((x, mut execution)) = held.pop_front() {
                    match execution.try_get() {
                        Some(found) => is_right(found, x),
                        None => held.push_front((x, execution)),
                    }
                }
            }
            Use::Drop => drop(held.pop_front()),
        }
    }
    let all = graph.counters().submitted;
    drop(held);
    graph.run(1)?;
    assert_eq!(graph.counters().submitted, all + 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn dag_27_runs_and_executions_in_any_order_give_their_own_results(uses in uses(), lanes: bool) {
        play(&uses, lanes).unwrap();
    }
}
