//! Failures of user code are data: they arrive typed and with all names, and the graph goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::actors::{self, Counter, Gate, Negative, PLACEMENTS, counter};
use selvedge::prelude::*;
use selvedge::{Cause, TaskError};

fn task_error<T: std::fmt::Debug>(result: std::result::Result<T, ExecError>) -> TaskError {
    match result {
        Err(ExecError::Task(error)) => error,
        other => panic!("expected a task error, got {other:?}"),
    }
}

#[test]
fn dag_35_a_user_error_arrives_again_and_again_and_the_graph_goes_on() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
        for execution in 0..6i64 {
            if execution % 2 == 0 {
                let error = task_error(graph.execute(-3).wait());
                assert_eq!(error.execution(), execution as u64);
                assert_eq!(error.info().task, "a.fail_if_negative");
                assert_eq!(error.info().actor, "a");
                assert!(error.info().bound_at.file.ends_with("errors.rs"), "{error}");
                let text = error.to_string();
                assert!(
                    text.contains("-3 is negative") && text.contains("errors.rs:"),
                    "{text}"
                );
                match error.cause() {
                    Cause::Error {
                        type_name, message, ..
                    } => {
                        assert!(type_name.ends_with("Negative"), "{type_name}");
                        assert_eq!(message, "-3 is negative");
                    }
                    other => panic!("{other:?}"),
                }
                // The error value stays in its process; its text is sent.
                let original = (placement != Placement::Process).then_some(&Negative(-3));
                assert_eq!(error.downcast_ref::<Negative>(), original, "{placement}");
                assert_eq!(text.contains("process "), original.is_none(), "{text}");
            } else {
                assert_eq!(graph.execute(execution).wait()?, execution, "{placement}");
            }
        }
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
struct Closed(#[source] Negative);

struct Store;

#[actor]
impl Store {
    pub fn new() -> Self {
        Store
    }

    pub fn put(&mut self, x: i64) -> std::result::Result<i64, Closed> {
        Err(Closed(Negative(x)))
    }
}

#[test]
fn dag_35_type_text_and_sources_arrive_from_everywhere_and_the_value_from_this_process() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let store = runtime.spawn::<Store>("store", ()).place(placement)?;
        let graph = runtime.compile(|x: Edge<i64>| store.put(&x))?;
        for x in 1..4 {
            let error = task_error(graph.execute(x).wait());
            let Cause::Error {
                type_name,
                message,
                sources,
            } = error.cause()
            else {
                panic!("{placement}: {error}")
            };
            assert!(type_name.ends_with("::Closed"), "{type_name}");
            assert_eq!(message, "the store is closed");
            assert_eq!(*sources, [format!("{x} is negative")], "{placement}");
            let original = error.downcast_ref::<Closed>().map(|closed| closed.0.0);
            assert_eq!(original, (placement != Placement::Process).then_some(x));
        }
    }
    Ok(())
}

#[test]
fn task_08_tasks_after_a_failed_one_are_skipped_and_the_first_cause_arrives() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| b.echo(&b.inc(&a.fail_if_negative(&x))))?;
        assert_eq!(graph.execute(1).wait()?, 1);
        for _ in 0..3 {
            let error = task_error(graph.execute(-1).wait());
            assert_eq!(error.info().task, "a.fail_if_negative", "{placement}");
        }
        // The skipped tasks did not change the state of their actors.
        assert_eq!(graph.execute(1).wait()?, 2, "{placement}");
    }
    Ok(())
}

#[test]
fn task_09_a_panic_is_an_error_that_names_the_task() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.panic_if_negative(&x))?;
        for _ in 0..3 {
            let error = task_error(graph.execute(-4).wait());
            assert!(
                error.is_panic() && error.to_string().contains("-4 is negative"),
                "{error}"
            );
            assert_eq!(graph.execute(4).wait()?, 4, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn task_09_after_a_panic_the_policy_says_whether_the_state_is_rebuilt() -> Result<()> {
    for (policy, kept) in [(OnPanic::Keep, 15), (OnPanic::Rebuild, 10)] {
        for placement in PLACEMENTS {
            let runtime = Runtime::new();
            let a = runtime
                .spawn::<Counter>("a", (10,))
                .on_panic(policy)
                .place(placement)?;
            let graph =
                runtime.compile(|(x, by): (Edge<i64>, Edge<i64>)| (a.panic_if_negative(&x), a.inc(&by)))?;
            assert_eq!(graph.execute((1, 4)).wait()?.1, 15, "{placement}");
            // `inc` runs after the panic in the same execution, on the state that the policy left.
            let (failed, total) = graph.execute((-1, 0)).split();
            assert!(task_error(failed.wait()).is_panic());
            assert_eq!(total.wait()?, kept, "{placement} {policy:?}");
        }
    }
    Ok(())
}

#[test]
fn dag_36_only_outputs_that_depend_on_the_failure_fail() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| (a.fail_if_negative(&x), b.echo(&x)))?;
        for _ in 0..3 {
            assert!(matches!(graph.execute(-2).wait(), Err(ExecError::Task(_))));
            let (failed, healthy) = graph.execute(-2).split();
            assert_eq!(healthy.wait()?, -2, "{placement}");
            assert_eq!(task_error(failed.wait()).info().actor, "a");
            let (failed, healthy) = graph.execute(-3).split();
            assert_eq!(task_error(failed.wait()).info().actor, "a");
            assert_eq!(healthy.wait()?, -3, "{placement}: after the other has failed");
            assert_eq!(graph.execute(2).wait()?, (2, 2));
        }
    }
    Ok(())
}

#[test]
fn rw_10_both_parts_of_a_failing_pair_fail() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.pair_or_fail(&x).split())?;
        for _ in 0..3 {
            let (first, second) = graph.execute(-1).split();
            for error in [task_error(second.wait()), task_error(first.wait())] {
                assert_eq!(error.info().task, "a.pair_or_fail", "{placement}");
                let Cause::Error { message, .. } = error.cause() else {
                    panic!("{placement}: {error}")
                };
                assert_eq!(message, "-1 is negative", "{placement}");
            }
        }
        assert_eq!(graph.execute(1).wait()?, (1, 2));
    }
    Ok(())
}

#[test]
fn rw_04_the_first_failed_output_ends_the_wait_and_later_executions_are_right() -> Result<()> {
    // The gate of the slow branch opens after the answer, so only fail-fast can give an answer.
    for placement in actors::REMOTE {
        let runtime = Runtime::new();
        let (a, b, c) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
            counter(&runtime, "c", placement),
        );
        for failing_first in [true, false] {
            let gate = Gate::closed();
            let graph = runtime.compile(|(x, y): (Edge<i64>, Edge<i64>)| {
                let (failing, slow) = (a.fail_if_negative(&x), b.pass(&y, gate.path()));
                if failing_first {
                    c.add(&failing, &slow)
                } else {
                    c.add(&slow, &failing)
                }
            })?;
            let error = task_error(graph.execute((-1, 1)).wait());
            assert_eq!(error.info().actor, "a", "{placement}");
            gate.open();
            // The late result of the slow branch is drained: executions do not mix.
            for x in 0..3 {
                assert_eq!(graph.execute((x, 1)).wait()?, x + 1, "{placement}");
            }
        }
    }
    Ok(())
}

#[test]
fn rw_05_all_inputs_failing_leave_nothing_behind() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b, c) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
            counter(&runtime, "c", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| {
            c.sum3(
                &a.fail_if_negative(&x),
                &b.fail_if_negative(&x),
                &a.fail_if_negative(&x),
            )
        })?;
        for _ in 0..5 {
            task_error(graph.execute(-1).wait());
            assert_eq!(graph.execute(2).wait()?, 6, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_43_a_failure_in_one_graph_does_not_reach_the_next() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let first = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
        assert!(matches!(first.run(-1), Err(ExecError::Task(_))), "{placement}");
        let pending: Vec<_> = (0..5).map(|_| first.execute(-1)).collect();
        drop(first);
        drop(pending);
        let second = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
        assert_eq!(second.run(9)?, 9, "{placement}");
        let error = second.run(-2).expect_err("its own failure");
        let task = error.as_task().expect("a failed task");
        assert_eq!(task.execution(), 1, "{placement}");
        assert!(
            error.to_string().contains("-2 is negative"),
            "{placement}: {error}"
        );
    }
    Ok(())
}

#[test]
fn task_14_ordinary_calls_are_served_while_a_graph_runs() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        assert_eq!(graph.execute(1).wait()?, 1);
        assert_eq!(a.call().inc(10).wait()?, 11, "{placement}");
        assert_eq!(graph.execute(1).wait()?, 12, "{placement}");
    }
    Ok(())
}

/// A panic payload whose destructor panics.
struct Shell;

impl Drop for Shell {
    fn drop(&mut self) {
        panic!("shell in drop");
    }
}

/// A payload whose `Serialize` and `Deserialize` panic or fail for certain numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Bomb(i64);

impl serde::Serialize for Bomb {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        assert!(self.0 != 1, "bomb in serialize");
        if self.0 == 4 {
            std::panic::panic_any(Shell);
        }
        serializer.serialize_i64(self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Bomb {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match i64::deserialize(deserializer)? {
            2 => panic!("bomb in deserialize"),
            3 => Err(serde::de::Error::custom("bomb refused")),
            5 => std::panic::panic_any(Shell),
            x => Ok(Bomb(x)),
        }
    }
}

struct Bomber;

#[actor]
impl Bomber {
    pub fn new() -> Self {
        Bomber
    }

    pub fn make(&mut self, x: i64) -> Bomb {
        Bomb(x)
    }

    pub fn open(&mut self, bomb: &Bomb) -> i64 {
        bomb.0
    }
}

#[test]
fn chan_14_a_payload_whose_own_code_fails_is_the_tasks_error_and_the_graph_goes_on() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime.spawn::<Bomber>("a", ()).in_process()?;
    let b = runtime.spawn::<Bomber>("b", ()).in_process()?;
    let graph = runtime.compile(|x: Edge<i64>| {
        let bomb = a.make(&x);
        (b.open(&bomb), bomb)
    })?;
    for x in 1..=5 {
        let error = task_error(graph.execute(x).wait());
        assert!(error.info().bound_at.file.ends_with("errors.rs"), "{error}");
        assert!(x != 3 || error.to_string().contains("bomb refused"), "{error}");
        assert_eq!(graph.execute(7).wait()?, (7, Bomb(7)), "after {x}");
    }
    // The same failures at the driver's own end.
    drop(graph);
    let graph = runtime.compile(|x: Edge<i64>| a.make(&x))?;
    for x in 1..=5 {
        assert_eq!(task_error(graph.execute(x).wait()).info().task, "a.make");
        assert_eq!(graph.execute(7).wait()?, Bomb(7));
    }
    Ok(())
}

/// A payload that panics when it is dropped, if the first flag is set, or when it is cloned, if the second flag is set.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Fragile(i64, bool, bool);

impl Drop for Fragile {
    fn drop(&mut self) {
        if self.1 && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        if self.2 {
            std::panic::resume_unwind(Box::new("cloned"));
        }
        Fragile(self.0, self.1, self.2)
    }
}

struct Glazier;

#[actor]
impl Glazier {
    pub fn new() -> Self {
        Glazier
    }

    pub fn make(&mut self, x: i64, drops: bool, clones: bool) -> Fragile {
        Fragile(x, drops, clones)
    }

    pub fn look(&mut self, pane: &Fragile) -> i64 {
        pane.0
    }

    pub fn whole(&mut self, pair: &(i64, Fragile)) -> i64 {
        pair.0
    }

    pub fn number(&mut self, x: i64) -> i64 {
        x
    }

    pub fn keep(&mut self, pane: Fragile) -> i64 {
        let number = pane.0;
        std::mem::forget(pane);
        number
    }
}

#[test]
fn rw_05_a_payload_that_panics_in_drop_or_clone_brings_no_execution_out_of_step() -> Result<()> {
    for (from, to) in PLACEMENTS
        .iter()
        .flat_map(|from| PLACEMENTS.map(|to| (*from, to)))
    {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Glazier>("a", ()).place(from)?;
        let b = runtime.spawn::<Glazier>("b", ()).place(to)?;
        let graph = runtime.compile(|(x, drops, clones): (Edge<i64>, Edge<bool>, Edge<bool>)| {
            let pane = a.make(&x, &drops, &clones);
            // Both actors read the value, by reference and by value.
            (b.look(&pane), a.look(&pane), a.keep(&pane), b.keep(&pane))
        })?;
        for execution in 0..12 {
            let (drops, clones) = (execution % 3 == 1, execution % 4 == 2);
            let result = graph.execute((execution, drops, clones)).wait();
            match result {
                Ok(numbers) => assert_eq!(numbers, (execution, execution, execution, execution)),
                Err(error) => assert!(
                    clones && error.as_task().is_some_and(TaskError::is_panic),
                    "{from} to {to}, {execution}: {error}"
                ),
            }
        }
    }
    Ok(())
}

#[test]
fn rw_05_a_split_input_that_panics_in_drop_or_clone_fails_its_execution_and_nobody_else() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Glazier>("a", ()).place(placement)?;
        // The whole is cloned for its part; the other part, which no task reads, is dropped.
        let graph = runtime.compile(|pair: Edge<(i64, Fragile)>| {
            let (number, _) = pair.split();
            (a.whole(&pair), a.number(&number))
        })?;
        for execution in 0..12 {
            let (drops, clones) = (execution % 3 == 1, execution % 4 == 2);
            let pair = (execution, Fragile(execution, drops, clones));
            let ended = catch_unwind(AssertUnwindSafe(|| match execution % 2 {
                0 => graph.execute(pair).wait(),
                _ => graph.run(pair),
            }));
            match ended.expect("no panic leaves the graph") {
                Ok(numbers) => assert!(numbers == (execution, execution) && !clones, "{placement}"),
                Err(error) => {
                    let task = error.as_task().expect("a failure of user code");
                    assert!(clones && task.is_panic(), "{placement}, {execution}: {error}");
                    assert_eq!(task.info().task, "the graph's input");
                    assert_eq!(task.execution(), execution as u64);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn rw_05_an_input_that_nobody_reads_may_panic_when_it_is_dropped() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Glazier>("a", ()).place(placement)?;
        let graph = runtime.compile(|(x, pane): (Edge<i64>, Edge<Fragile>)| a.number(&x).after(&pane))?;
        for execution in 0..6 {
            let input = (execution, Fragile(execution, execution % 3 == 1, false));
            let ended = catch_unwind(AssertUnwindSafe(|| match execution % 2 {
                0 => graph.run(input),
                _ => graph.execute(input).wait(),
            }));
            assert_eq!(
                ended.expect("no panic leaves the graph")?,
                execution,
                "{placement}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_call_whose_result_does_not_decode_fails_and_panics_nowhere() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime.spawn::<Bomber>("a", ()).in_process()?;
    for x in 1..=3 {
        assert!(a.call().make(x).wait().is_err(), "{x}");
        assert_eq!(a.call().make(7).wait()?, Bomb(7));
    }
    assert!(a.call().open(Bomb(1)).wait().is_err(), "its own Serialize panics");
    Ok(())
}

#[test]
fn a_graph_whose_runtime_is_shut_down_says_so() -> Result<()> {
    for placement in [Placement::Thread, Placement::Process] {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.sleep_ms(&x))?;
        let execution = graph.execute(50);
        let _ = runtime.shutdown(std::time::Duration::from_secs(60));
        assert!(
            matches!(execution.wait(), Ok(50) | Err(ExecError::Shutdown { .. })),
            "{placement}"
        );
        let late = graph.execute(1).wait();
        assert!(
            matches!(late, Err(ExecError::Shutdown { .. })),
            "{placement} {late:?}"
        );
    }
    Ok(())
}

#[test]
fn two_actors_of_one_name_are_told_apart() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let [first, second] = [(); 2].map(|()| counter(&runtime, "tok", placement));
        let graph = runtime.compile(|x: Edge<i64>| {
            let x = first.echo(&first.echo(&x));
            second.fail_if_negative(&second.echo(&x))
        })?;
        let error = task_error(graph.run(-1));
        assert_eq!(error.info().actor, "tok#2", "{placement}");
        assert_eq!(error.info().task, "tok#2.fail_if_negative", "{placement}");
        let labels: Vec<&str> = graph
            .plan()
            .ir
            .tasks
            .iter()
            .map(|task| task.label.as_str())
            .collect();
        assert_eq!(labels[..3], ["tok.echo", "tok.echo#2", "tok#2.echo"]);
    }
    Ok(())
}
