//! Lanes that are merged while a graph runs: the results stay the same, calls reach their actors, and no value is lost.

use std::time::Duration;

use crate::actors::{self, Counter, Gate, PLACEMENTS, REMOTE, counter};
use selvedge::prelude::*;
use selvedge::{Plan, Transport};

fn lanes(plan: &Plan) -> usize {
    plan.lanes.len() - 1
}

/// The number of lanes that remain after a merge: one core belongs to the driver.
fn merged_lanes() -> usize {
    cores().saturating_sub(1).max(1)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Spawns more actors, each with its own lane, than the machine has cores.
fn crowd(runtime: &Runtime, placement: Placement) -> Vec<actors::CounterHandle> {
    (0..cores() + 6)
        .map(|index| counter(runtime, &format!("c{index}"), placement))
        .collect()
}

fn chain(crowd: &[actors::CounterHandle], x: Edge<i64>) -> Edge<i64> {
    crowd.iter().fold(x, |x, actor| actor.add(&x, &constant(1)))
}

#[test]
fn graph_02_merged_lanes_give_what_lanes_of_their_own_give() -> Result<()> {
    let runtime = Runtime::new();
    let crowd = crowd(&runtime, Placement::Thread);
    let own = runtime.compile(|x: Edge<i64>| chain(&crowd, x))?;
    assert_eq!(lanes(own.plan()), crowd.len());
    assert_eq!(own.execute(5).wait()?, 5 + crowd.len() as i64);
    drop(own);
    let merged = runtime.compile_with(Options::new().lanes(Lanes::Auto), |x: Edge<i64>| chain(&crowd, x))?;
    assert_eq!(lanes(merged.plan()), merged_lanes());
    assert!(
        merged.describe().contains("one being the driver's"),
        "{}",
        merged.describe()
    );
    for x in 0..100 {
        assert_eq!(merged.execute(x).wait()?, x + crowd.len() as i64);
    }
    Ok(())
}

#[test]
fn graph_02_calls_from_many_threads_while_actors_come_and_go() -> Result<()> {
    let runtime = Runtime::new();
    let crowd = crowd(&runtime, Placement::Thread);
    std::thread::scope(|scope| {
        let calls: Vec<_> = crowd
            .iter()
            .map(|actor| {
                scope.spawn(move || {
                    for call in 1..=300 {
                        assert_eq!(actor.call().inc(1).wait().unwrap(), call);
                    }
                })
            })
            .collect();
        for _ in 0..30 {
            let graph = runtime
                .compile_with(Options::new().lanes(Lanes::Auto), |x: Edge<i64>| chain(&crowd, x))
                .unwrap();
            assert_eq!(graph.execute(0).wait().unwrap(), crowd.len() as i64);
        }
        calls.into_iter().for_each(|call| call.join().unwrap());
    });
    Ok(())
}

#[test]
fn dag_54_a_method_that_never_returns_on_a_merged_lane_is_named_and_tear_down_ends() -> Result<()> {
    let runtime = Runtime::new();
    let crowd = crowd(&runtime, Placement::Thread);
    let options = Options::new()
        .lanes(Lanes::Auto)
        .timeout(Duration::from_millis(200))
        .teardown_timeout(Duration::from_millis(200));
    let graph = runtime.compile_with(options, |x: Edge<i64>| {
        let x = chain(&crowd[..3], x);
        let x = crowd[3].hang_if_negative(&x);
        chain(&crowd[4..], x)
    })?;
    // Loaded machines are slow; only a method that never returns may exceed this limit.
    assert!(graph.execute(0).wait_timeout(Duration::from_secs(60)).is_ok());
    let error = graph.execute(-100).wait().unwrap_err();
    assert!(error.to_string().contains("c3.hang_if_negative"), "{error}");
    let teardown = graph.teardown();
    assert!(!teardown.stuck.is_empty());
    Ok(())
}

#[test]
fn task_09_a_panic_on_a_merged_lane_is_one_tasks_error() -> Result<()> {
    let runtime = Runtime::new();
    let crowd = crowd(&runtime, Placement::Thread);
    let graph = runtime.compile_with(Options::new().lanes(Lanes::Auto), |x: Edge<i64>| {
        chain(&crowd[2..], crowd[1].panic_if_negative(&x))
    })?;
    let error = graph.execute(-1).wait().unwrap_err();
    assert!(error.to_string().contains("c1.panic_if_negative"), "{error}");
    assert_eq!(graph.execute(1).wait()?, 1 + crowd.len() as i64 - 2);
    Ok(())
}

#[test]
fn graph_02_lanes_of_one_worker_process_are_merged_too() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let crowd: Vec<_> = (0..cores() + 3)
        .map(|index| {
            runtime
                .spawn::<Counter>(&format!("c{index}"), (0,))
                .in_worker(&worker)
        })
        .collect::<Result<_, _>>()?;
    for _ in 0..3 {
        let graph =
            runtime.compile_with(Options::new().lanes(Lanes::Auto), |x: Edge<i64>| chain(&crowd, x))?;
        assert_eq!(lanes(graph.plan()), merged_lanes());
        assert_eq!(graph.execute(1).wait()?, 1 + crowd.len() as i64);
        assert_eq!(crowd[3].call().inc(0).wait()?, 0);
    }
    Ok(())
}

/// Tasks that wait for no value: signals start and order them, across every kind of lane.
#[test]
fn dag_19_a_graph_without_inputs_starts_its_tasks_itself() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", Placement::Thread),
        );
        let graph =
            runtime.compile(|(): ()| (a.inc(&constant(2)), b.echo(&a.echo(&constant(7))), b.tick()))?;
        for round in 1..=3 {
            assert_eq!(graph.execute(()).wait()?, (2 * round, 7, round), "{placement}");
        }
    }
    Ok(())
}

#[test]
fn graph_05_a_task_runs_after_another_without_getting_a_value() -> Result<()> {
    for first in REMOTE {
        for second in PLACEMENTS {
            let gate = Gate::closed();
            let runtime = Runtime::new();
            let (a, b) = (counter(&runtime, "a", first), counter(&runtime, "b", second));
            let graph =
                runtime.compile_with(Options::new().timeout(Duration::from_secs(60)), |x: Edge<i64>| {
                    let slow = a.pass(&x, gate.path());
                    // The task takes only a constant, so the signal starts it.
                    let late = b.inc(&constant(1)).after(&slow).after(&slow);
                    (slow, late, b.echo(&x).named("early"))
                })?;
            let handles = graph.execute(3).split();
            assert!(
                graph.describe().contains("after end of a.pass"),
                "{}",
                graph.describe()
            );
            let (slow, mut late, _) = handles;
            assert!(late.try_get().is_none(), "{first} {second}");
            gate.open();
            assert_eq!((slow.wait()?, late.wait()?), (3, 1), "{first} {second}");
        }
    }
    Ok(())
}

#[test]
fn task_08_what_runs_after_a_failed_task_is_skipped_with_its_error() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| {
            let checked = a.fail_if_negative(&x);
            b.inc(&x).after(&checked)
        })?;
        let error = graph.execute(-1).wait().unwrap_err();
        assert!(error.to_string().contains("a.fail_if_negative"), "{error}");
        assert_eq!(graph.execute(5).wait()?, 5, "the skipped task did nothing");
    }
    Ok(())
}

#[test]
fn graph_05_an_order_that_cannot_be_is_refused() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let error = runtime
        .compile(|x: Edge<i64>| {
            let first = a.echo(&x);
            let second = a.inc(&x);
            (first.after(&second), second)
        })
        .unwrap_err();
    assert_eq!(error.diagnostics[0].code.as_str(), "D0115");
}

/// Commuting methods do not wait for each other: the second ends while the first has no input.
#[test]
fn graph_04_methods_that_commute_run_as_their_inputs_come() -> Result<()> {
    let runtime = Runtime::new();
    let (a, slow) = (
        counter(&runtime, "a", Placement::Thread),
        counter(&runtime, "slow", Placement::Thread),
    );
    let options = |commuting: bool| {
        let options = Options::new().timeout(Duration::from_secs(60));
        if commuting {
            options.commuting(a.actor())
        } else {
            options
        }
    };
    for commuting in [false, true] {
        let gate = Gate::closed();
        let graph = runtime.compile_with(options(commuting), |x: Edge<i64>| {
            let late = a.echo(&slow.pass(&x, gate.path()));
            (late, a.add(&x, &x))
        })?;
        let order = graph.describe();
        let (one, other) = (
            order.find("COMPUTE a.echo").unwrap(),
            order.find("COMPUTE a.add").unwrap(),
        );
        assert_eq!(other < one, commuting, "{order}");
        let (late, mut early) = graph.execute(4).split();
        if commuting {
            // The gate is closed: only an order that does not wait for it ends.
            assert_eq!(early.wait_timeout(Duration::from_secs(60))?, 8);
        }
        gate.open();
        assert_eq!(late.wait()?, 4);
    }
    Ok(())
}

/// Graphs with rendezvous transfers compile and run for every placement of their actors.
#[test]
fn graph_15_a_rendezvous_runs_over_the_channels_there_are() -> Result<()> {
    for (one, other) in [
        (Placement::Thread, Placement::Thread),
        (Placement::Thread, Placement::Process),
    ] {
        for overlap in [false, true] {
            let runtime = Runtime::new();
            let (a, b) = (counter(&runtime, "a", one), counter(&runtime, "b", other));
            let options = Options::new()
                .transport(Transport::Rendezvous)
                .overlap(overlap)
                .slots(1);
            // Each actor gives the other a value: if both read first, or both write first, the graph hangs.
            let graph = runtime.compile_with(options, |x: Edge<i64>| {
                let (u, v) = (a.echo(&x), b.scale(&x, 10));
                (a.add(&u, &v), b.add(&v, &u))
            })?;
            assert!(graph.describe().contains("rendezvous"));
            for x in 0..50 {
                assert_eq!(graph.execute(x).wait()?, (11 * x, 11 * x));
            }
        }
    }
    Ok(())
}

/// A method without arguments is a task like others once an input starts it.
#[test]
fn dag_18_a_task_without_arguments_is_started_by_an_input_or_refused() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let refused = runtime
        .compile(|x: Edge<i64>| (a.echo(&x), a.tick()))
        .unwrap_err();
    assert_eq!(refused.diagnostics[0].code.as_str(), "D0102");
    let graph = runtime.compile(|x: Edge<i64>| a.tick().after(&x))?;
    assert_eq!((graph.execute(5).wait()?, graph.execute(5).wait()?), (1, 2));
    Ok(())
}

#[test]
fn dag_37_of_the_actors_that_share_a_lane_the_one_at_work_is_named() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let crowd: Vec<_> = (0..4)
        .map(|index| {
            runtime
                .spawn::<Counter>(format!("c{index}"), (0,))
                .in_worker(&worker)
        })
        .collect::<Result<_, _>>()?;
    let graph = runtime.compile_with(Options::new().lanes(Lanes::Auto), |x: Edge<i64>| {
        chain(&crowd[1..], crowd[0].exit_if_negative(&x))
    })?;
    assert_eq!(graph.execute(1).wait()?, 4);
    let error = graph.execute(-1).wait().unwrap_err();
    let ExecError::ActorDied(died) = &error else {
        panic!("{error}")
    };
    assert_eq!(died.actor, "c0", "{error}");
    // The graph cannot be used any more, and neither can a new graph over the dead actor.
    let error = graph
        .recompile(&selvedge::Profile::default())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.diagnostics[0].code.as_str(), "D0106");
    Ok(())
}

#[test]
fn graph_12_durations_that_nothing_has_do_no_harm() -> Result<()> {
    let runtime = Runtime::new();
    let crowd = crowd(&runtime, Placement::Thread);
    let options = Options::new().lanes(Lanes::Auto).slots(selvedge::Slots::Auto);
    let graph = runtime.compile_with(options, |x: Edge<i64>| {
        crowd
            .iter()
            .fold(x, |x, actor| actor.echo(&x).takes(Duration::MAX))
    })?;
    assert_eq!(graph.execute(3).wait()?, 3);
    assert!(graph.describe().contains("one execution alone"));
    Ok(())
}

/// An actor that makes two results at once, reads one, or keeps one until a gate opens.
struct Halves(i64);

#[actor]
impl Halves {
    pub fn new() -> Self {
        Halves(0)
    }

    pub fn pair(&mut self, x: i64) -> (String, String) {
        self.0 += 1;
        (format!("first {x}"), format!("second {x}"))
    }

    pub fn see(&mut self, text: &str) -> String {
        self.0 += 1;
        text.to_owned()
    }

    pub fn hold(&mut self, text: &str, #[constant] gate: String) -> String {
        if let Ok(gate) = std::fs::File::open(gate) {
            let _ = gate.lock_shared();
        }
        text.to_owned()
    }

    pub fn count(&mut self) -> i64 {
        self.0
    }
}

#[test]
fn rw_13_while_one_of_two_outputs_is_full_the_other_is_not_one_ahead() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let spawn = |name: &str| runtime.spawn::<Halves>(name, ()).place(placement);
        let (a, b, c) = (spawn("a")?, spawn("b")?, spawn("c")?);
        let gate = Gate::closed();
        let options = Options::new().max_inflight(4).slots(1);
        let graph = runtime.compile_with(options, |x: Edge<i64>| {
            let (first, second) = a.pair(&x).split();
            (b.see(&first), c.hold(&second, gate.path()))
        })?;
        let executions: Vec<_> = (0..3).map(|x| graph.execute(x)).collect();
        let made = || a.call().count().wait().unwrap();
        actors::until("the second pair", || (made() == 2).then_some(()));
        actors::until("the first half", || {
            (b.call().count().wait().unwrap() == 1).then_some(())
        });
        // A lane answers calls while it waits: `a` waits for the slot that `c` keeps, `b` for an input that has not
        // arrived.
        for _ in 0..20 {
            assert_eq!((made(), b.call().count().wait()?), (2, 1), "{placement}");
        }
        gate.open();
        for (x, execution) in executions.into_iter().enumerate() {
            assert_eq!(execution.wait()?, (format!("first {x}"), format!("second {x}")));
        }
        assert_eq!(b.call().count().wait()?, 3);
    }
    Ok(())
}
