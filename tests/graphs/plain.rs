//! One graph, written once: over edges it is compiled, over values it makes plain calls, and both give the same
//! results.

use crate::actors::{CounterHandle, PLACEMENTS, counter};
use selvedge::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Method {
    /// Changes the actor's state.
    Inc,
    Add,
    Scale(i64),
    FailIfNegative,
}

/// A method of an actor, and the indices of its arguments: 0 for the input, n for the result of task n - 1.
#[derive(Clone, Debug)]
struct Task {
    actor: usize,
    method: Method,
    args: [usize; 2],
}

/// Runs the tasks in order and returns their results, for edges as well as for values.
fn walk<V>(tasks: &[Task], input: V, mut act: impl FnMut(&Task, [&V; 2]) -> V) -> Vec<V> {
    let mut values = vec![input];
    for task in tasks {
        let made = act(task, task.args.map(|arg| &values[arg]));
        values.push(made);
    }
    values.split_off(1)
}

fn bind(actors: &[CounterHandle], task: &Task, [a, b]: [&Edge<i64>; 2]) -> Edge<i64> {
    let actor = &actors[task.actor];
    match task.method {
        Method::Inc => actor.inc(a),
        Method::Add => actor.add(a, b),
        Method::Scale(by) => actor.scale(a, by),
        Method::FailIfNegative => actor.fail_if_negative(a),
    }
}

/// Calls the task's method. Returns `None` if the call or one of its arguments has failed.
fn call(actors: &[CounterHandle], task: &Task, [a, b]: [&Option<i64>; 2]) -> Option<i64> {
    let calls = actors[task.actor].call();
    let made = match task.method {
        Method::Inc => calls.inc((*a)?),
        Method::Add => calls.add((*a)?, (*b)?),
        Method::Scale(by) => calls.scale((*a)?, by),
        Method::FailIfNegative => calls.fail_if_negative((*a)?),
    };
    made.wait().ok()
}

#[test]
fn dag_51_a_graph_gives_what_plain_calls_give() -> Result<()> {
    let (mut good, mut failed) = (0, 0);
    for seed in 1..=40u64 {
        let mut state = seed;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % limit
        };
        let runtime = Runtime::new();
        let placed: Vec<Placement> = (0..1 + below(3)).map(|_| PLACEMENTS[below(3)]).collect();
        let spawn = || -> Vec<CounterHandle> {
            let named = (0..).zip(&placed);
            named
                .map(|(number, placement)| counter(&runtime, &format!("a{number}"), *placement))
                .collect()
        };
        let (bound, called) = (spawn(), spawn());
        let tasks: Vec<Task> = (0..1 + below(7))
            .map(|known| Task {
                actor: below(placed.len()),
                method: [
                    Method::Inc,
                    Method::Add,
                    Method::Scale(-2),
                    Method::FailIfNegative,
                ][below(4)],
                args: [below(known + 1), below(known + 1)],
            })
            .collect();
        let graph = runtime.compile(|x: Edge<i64>| walk(&tasks, x, |task, args| bind(&bound, task, args)))?;
        for x in (-3..4).rev() {
            let plain = walk(&tasks, Some(x), |task, args| call(&called, task, args));
            let plain: Option<Vec<i64>> = plain.into_iter().collect();
            let compiled = match graph.execute(x).wait() {
                Ok(values) => Some(values),
                Err(ExecError::Task(_)) => None,
                Err(error) => panic!("seed {seed}: {error}"),
            };
            assert_eq!(compiled, plain, "seed {seed}, {x}: {tasks:?} on {placed:?}");
            if plain.is_none() {
                // Tasks of this execution that had not begun were cancelled, so the states differ from here on.
                failed += 1;
                break;
            }
            good += 1;
        }
    }
    assert!(good > 100 && failed > 10, "{good} good, {failed} failed");
    Ok(())
}
