//! Graphs that are refused when compiled: with a code, the user's line, and a way to correct it.

use crate::actors::{Counter, PLACEMENTS, counter};
use selvedge::CompileError;
use selvedge::prelude::*;

fn refused<I, O>(result: std::result::Result<Graph<I, O>, CompileError>) -> String {
    let text = result.expect_err("it must be refused").to_string();
    assert!(
        text.contains("diagnostics.rs"),
        "no line of the user's program in:\n{text}"
    );
    text
}

#[test]
fn dag_20_a_task_whose_result_is_unused_is_refused_and_all_are_listed() {
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Inline),
        counter(&runtime, "b", Placement::Inline),
    );
    let text = refused(runtime.compile(|x: Edge<i64>| {
        let _ = a.inc(&x);
        let _ = b.scale(&x, 2);
        b.echo(&x)
    }));
    assert!(
        text.contains("D0103") && text.contains("a.inc") && text.contains("b.scale"),
        "{text}"
    );
}

#[test]
fn dag_20_an_unused_part_of_a_pair_is_refused() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    for part in 0..2 {
        let text = refused(runtime.compile(|x: Edge<i64>| {
            let (first, second) = a.pair(&x).split();
            if part == 0 { first } else { second }
        }));
        assert!(text.contains("D0103") && text.contains("a.pair"), "{text}");
    }
}

/// Knows of its values only that they travel.
struct Echo<T>(Option<T>);

#[actor]
impl<T: Wire> Echo<T> {
    pub fn new() -> Self {
        Echo(None)
    }

    pub fn echo(&mut self, x: T) -> T {
        x
    }

    pub fn pair(&mut self, x: T, y: T) -> (T, T) {
        (x, y)
    }
}

#[test]
fn dag_10_a_result_of_a_generic_type_is_one_value_also_where_it_is_a_tuple() -> Result<()> {
    let runtime = Runtime::new();
    let pairs = runtime.spawn::<Echo<(i64, i64)>>("pairs", ()).inline()?;
    let text = refused(runtime.compile(|x: Edge<(i64, i64)>| pairs.echo(&x).split()));
    assert!(
        text.contains("D0124") && text.contains("`pairs.echo`") && text.contains(".split()"),
        "{text}"
    );
    let whole = runtime.compile(|x: Edge<(i64, i64)>| pairs.echo(&x))?;
    assert_eq!(whole.run((1, 2))?, (1, 2));
    drop(whole);
    let numbers = runtime.spawn::<Echo<i64>>("numbers", ()).inline()?;
    let split = runtime.compile(|(x, y): (Edge<i64>, Edge<i64>)| numbers.pair(&x, &y).split())?;
    assert_eq!(split.run((1, 2))?, (1, 2));
    Ok(())
}

#[test]
fn dag_21_an_unused_input_is_refused() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let text = refused(runtime.compile(|(x, _unused): (Edge<i64>, Edge<i64>)| a.echo(&x)));
    assert!(text.contains("D0104"), "{text}");
}

#[test]
fn dag_18_a_task_of_constants_only_is_refused() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let text = refused(runtime.compile(|x: Edge<i64>| a.add(&a.echo(&constant(3)), &x)));
    assert!(text.contains("D0102") && text.contains("a.echo"), "{text}");
}

#[test]
fn dag_03_edges_of_two_graphs_are_refused() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let mut stolen = None;
    let first = runtime.compile(|x: Edge<i64>| {
        let y = a.echo(&x);
        stolen = Some(y.clone());
        y
    });
    drop(first);
    let stolen = stolen.expect("an edge");
    let text = refused(runtime.compile(|x: Edge<i64>| a.add(&x, &stolen)));
    assert!(text.contains("D0101"), "{text}");
}

#[test]
fn dag_39_an_actor_of_a_running_graph_is_refused_and_the_graph_is_named() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile_with(Options::new().named("first"), |x: Edge<i64>| a.echo(&x))?;
        let text = refused(runtime.compile(|x: Edge<i64>| a.echo(&x)));
        assert!(
            text.contains("D0105") && text.contains("`a`") && text.contains("first"),
            "{text}"
        );
        assert_eq!(graph.execute(1).wait()?, 1, "the first is not disturbed");
    }
    Ok(())
}

#[test]
fn dag_05_a_dead_actor_is_refused() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    a.actor().kill();
    let text = refused(runtime.compile(|x: Edge<i64>| a.echo(&x)));
    assert!(text.contains("D0106") && text.contains("`a`"), "{text}");
}

#[test]
fn dag_05_an_actor_of_another_runtime_is_refused() {
    let (runtime, other) = (Runtime::new(), Runtime::new());
    let a = counter(&other, "a", Placement::Inline);
    let text = refused(runtime.compile(|x: Edge<i64>| a.echo(&x)));
    assert!(text.contains("D0107") && text.contains("`a`"), "{text}");
}

#[test]
fn dag_05_an_actor_of_another_runtime_is_never_taken_for_ones_own() {
    // Each actor is the first of its runtime, on its first lane, in its first worker.
    for placement in PLACEMENTS {
        let (runtime, other) = (Runtime::new(), Runtime::new());
        let own = counter(&runtime, "own", placement);
        let foreign = counter(&other, "foreign", placement);
        let orders = [
            refused(runtime.compile(|x: Edge<i64>| foreign.scale(&own.echo(&x), 2))),
            refused(runtime.compile(|x: Edge<i64>| own.echo(&foreign.scale(&x, 2)))),
            refused(runtime.compile(|x: Edge<i64>| (own.echo(&x), foreign.scale(&x, 2)))),
        ];
        for text in orders {
            assert!(text.contains("D0107") && text.contains("`foreign`"), "{text}");
            assert!(!text.contains("`own`"), "{text}");
        }
        let commuting = Options::new().commuting(foreign.actor());
        let text = refused(runtime.compile_with(commuting, |x: Edge<i64>| own.echo(&x)));
        assert!(text.contains("D0126") && text.contains("`foreign`"), "{text}");
    }
}

#[test]
fn dag_20_every_actor_of_another_runtime_is_listed() {
    let (runtime, other) = (Runtime::new(), Runtime::new());
    let [a, b] = ["a", "b"].map(|name| counter(&other, name, Placement::Inline));
    let text = refused(runtime.compile(|x: Edge<i64>| (a.echo(&x), b.echo(&x))));
    assert!(text.contains("`a`") && text.contains("`b`"), "{text}");
}

#[test]
fn chan_19_options_out_of_bounds_are_refused_by_name() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    for (options, name) in [
        (Options::new().buffer_bytes(999), "buffer_bytes"),
        (Options::new().max_inflight(0), "max_inflight"),
        (Options::new().max_buffered(0), "max_buffered"),
    ] {
        let text = refused(runtime.compile_with(options, |x: Edge<i64>| a.echo(&x)));
        assert!(text.contains("D0108") && text.contains(name), "{text}");
    }
    let small = Options::new().max_payload_bytes(10);
    let text = refused(runtime.compile_with(small, |x: Edge<i64>| a.echo(&x)));
    assert!(
        text.contains("must be at least `buffer_bytes`, which is 65536"),
        "{text}"
    );
    let text = refused(runtime.compile_with(Options::new().max_buffered(0), |x: Edge<i64>| a.echo(&x)));
    assert!(text.contains("it must be at least 1"), "{text}");
}

#[test]
fn dag_20_options_without_effect_are_refused_by_name() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| counter(&runtime, name, Placement::Inline));
    let all = Options::new().inputs(3).commuting(b.actor()).communicator("shm");
    let text = refused(runtime.compile_with(all, |x: Edge<i64>| a.echo(&x)));
    for message in [
        "option `inputs` is 3, and no input of the graph is a `Vec`",
        "option `commuting` names actor `b`, which has no task in the graph",
        "option `communicator` is `shm`, and the graph has no collective",
    ] {
        assert!(text.contains(&format!("error[D0126]: {message}")), "{text}");
    }
    let used = Options::new().inputs(3).commuting(a.actor());
    let echo = |xs: Vec<Edge<i64>>| xs.iter().map(|x| a.echo(x)).collect::<Vec<_>>();
    let graph = runtime.compile_with(used, echo).unwrap();
    assert_eq!(graph.run(vec![1, 2, 3]).unwrap(), [1, 2, 3]);
    let error = graph.run(vec![1, 2]).unwrap_err();
    assert!(error.to_string().contains("Options::inputs"), "{error}");
    let many = Options::new().inputs(usize::MAX);
    let text = refused(runtime.compile_with(many, |xs: Vec<Edge<i64>>| xs));
    assert!(text.contains("D0108") && text.contains("`inputs`"), "{text}");
}

#[test]
fn dag_20_the_rendering_shows_the_users_line_and_a_help() {
    let runtime = Runtime::new();
    let a = runtime.spawn::<Counter>("a", (0,)).inline().expect("spawn");
    let text = refused(runtime.compile(|x: Edge<i64>| {
        let _ = a.inc(&x);
        a.echo(&x)
    }));
    assert!(
        text.contains("let _ = a.inc(&x);"),
        "the source line is missing:\n{text}"
    );
    assert!(text.contains("^^^") && text.contains("help"), "{text}");
}

#[test]
fn dag_05_an_actor_whose_constructor_fails_has_no_handle_to_bind() {
    let runtime = Runtime::new();
    for placement in PLACEMENTS {
        let error = runtime
            .spawn::<Picky>(format!("p-{placement}"), (13,))
            .place(placement)
            .expect_err("refused");
        assert!(
            error.to_string().contains("13 is unlucky"),
            "{placement}: {error}"
        );
    }
}

struct Picky;

#[actor]
impl Picky {
    pub fn new(number: u32) -> Result<Self> {
        if number == 13 {
            Err("13 is unlucky".into())
        } else {
            Ok(Picky)
        }
    }

    pub fn echo(&mut self, x: u32) -> u32 {
        x
    }
}

#[test]
fn d0112_a_worker_that_does_not_load_in_time_and_the_option_are_named() -> Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let pid = Pid::from_raw(a.actor().pid().expect("a process").cast_signed()).expect("a pid");
    kill_process(pid, Signal::STOP)?;
    let options = Options::new().compile_timeout(std::time::Duration::from_millis(20));
    let text = refused(runtime.compile_with(options.clone(), |x: Edge<i64>| a.echo(&x)));
    assert!(text.contains("D0112") && text.contains("worker `a`"), "{text}");
    assert!(text.contains("`Options::compile_timeout` is 20ms"), "{text}");
    kill_process(pid, Signal::CONT)?;
    // Tear-down has a time limit of its own.
    let options = Options::new().teardown_timeout(std::time::Duration::ZERO);
    let b = counter(&runtime, "b", Placement::Process);
    let graph = runtime.compile_with(options, |x: Edge<i64>| b.echo(&x))?;
    assert_eq!(graph.run(4)?, 4);
    Ok(())
}

#[test]
fn d0111_memory_that_cannot_be_had_is_told_with_its_limit() {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let options = Options::new()
        .max_inflight(1 << 20)
        .buffer_bytes(1 << 40)
        .max_payload_bytes(1 << 40);
    let text = refused(runtime.compile_with(options, |x: Edge<i64>| a.echo(&x)));
    assert!(text.contains("D0111") && text.contains("max_inflight"), "{text}");
}

#[test]
fn d0106_a_worker_that_died_just_now_is_told_as_dead() -> Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    for _ in 0..20 {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", Placement::Process);
        let pid = Pid::from_raw(a.actor().pid().expect("a process").cast_signed()).expect("a pid");
        kill_process(pid, Signal::KILL)?;
        match runtime.compile(|x: Edge<i64>| a.echo(&x)) {
            // The worker had loaded its programs before the signal arrived.
            Ok(graph) => {
                let died = graph.run(1).expect_err("it is dead");
                assert!(matches!(died, ExecError::ActorDied(_)), "{died}");
            }
            other => {
                let text = refused(other);
                assert!(text.contains("D0106") && text.contains("signal 9"), "{text}");
            }
        }
    }
    Ok(())
}
