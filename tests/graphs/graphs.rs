//! Shapes of graphs: the results match the bound edges, in every placement.

use crate::actors::{self, Counter, Gate, PLACEMENTS, REMOTE, Text, counter};
use selvedge::prelude::*;
use selvedge_compiler::ir::ChannelKind;

#[test]
fn dag_27_an_echo_runs_again_and_again() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        for x in 0..100 {
            assert_eq!(graph.execute(x).wait()?, x, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_27_results_are_fetched_out_of_order_and_effects_keep_the_order_of_submission() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        let (first, second, third) = (graph.execute(1), graph.execute(1), graph.execute(1));
        assert_eq!(
            (third.wait()?, first.wait()?, second.wait()?),
            (3, 1, 2),
            "{placement}"
        );
    }
    Ok(())
}

#[test]
fn graph_04_methods_of_one_actor_run_in_bind_order() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| {
            let later = a.inc(&x);
            let sooner = a.scale(&a.inc(&x), 10);
            (sooner, later)
        })?;
        assert_eq!(graph.execute(2).wait()?, (40, 2), "{placement}");
    }
    Ok(())
}

#[test]
fn intra_04_one_actors_chain_passes_values_locally() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| (0..4).fold(x, |edge, _| a.scale(&edge, 3)))?;
        assert_eq!(graph.execute(1).wait()?, 81, "{placement}");
        assert!(graph.describe().contains("a.scale#4"), "{}", graph.describe());
        let channels = &graph.plan().channels;
        let local = channels
            .iter()
            .filter(|channel| channel.kind == ChannelKind::Local);
        assert!(
            local.count() >= 3,
            "{placement}: one from each call to the next: {channels:?}"
        );
    }
    Ok(())
}

#[test]
fn dag_01_a_chain_over_four_actors() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let actors: Vec<_> = (0..4)
            .map(|i| counter(&runtime, &format!("a{i}"), placement))
            .collect();
        let graph = runtime.compile(|x: Edge<i64>| actors.iter().fold(x, |edge, a| a.scale(&edge, 2)))?;
        for x in 0..20 {
            assert_eq!(graph.execute(x).wait()?, 16 * x, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_01_scatter_and_gather_over_mixed_placements() -> Result<()> {
    let runtime = Runtime::new();
    let actors = [
        Placement::Inline,
        Placement::Thread,
        Placement::Process,
        Placement::Process,
    ]
    .map(|placement| {
        runtime
            .spawn::<Counter>(format!("{placement}"), (0,))
            .place(placement)
    });
    let actors: Vec<_> = actors.into_iter().collect::<std::result::Result<_, _>>()?;
    let graph = runtime.compile(|x: Edge<i64>| actors.iter().map(|a| a.scale(&x, 2)).collect::<Vec<_>>())?;
    assert_eq!(graph.execute(3).wait()?, vec![6; 4]);
    let graph2 = {
        drop(graph);
        runtime.compile(|x: Edge<i64>| {
            let scattered: Vec<_> = actors.iter().map(|a| a.scale(&x, 3)).collect();
            let first = actors[3].add(&scattered[0], &scattered[1]);
            actors[0].add(&first, &actors[1].add(&scattered[2], &scattered[3]))
        })?
    };
    for x in 0..50 {
        assert_eq!(graph2.execute(x).wait()?, 12 * x);
    }
    Ok(())
}

#[test]
fn task_12_a_value_is_read_twice_by_one_task_and_by_two_tasks() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| {
            let y = a.echo(&x);
            (b.add(&y, &y), b.sum3(&y, &x, &y), a.scale(&y, 5))
        })?;
        assert_eq!(graph.execute(7).wait()?, (14, 21, 35), "{placement}");
    }
    Ok(())
}

#[test]
fn dag_53_an_output_named_twice_is_given_twice_and_the_driver_reads_beside_actors() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| {
            let y = a.scale(&x, 2);
            let z = b.scale(&y, 2);
            [y.clone(), z, y]
        })?;
        for x in 0..10 {
            assert_eq!(graph.execute(x).wait()?, [2 * x, 4 * x, 2 * x], "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_29_the_input_may_pass_straight_through() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| (x.clone(), a.scale(&x, 2)))?;
        for x in 0..30 {
            assert_eq!(graph.execute(x).wait()?, (x, 2 * x), "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_26_inputs_may_be_tuples_arrays_and_vectors() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let tuple = runtime.compile(|(x, y): (Edge<i64>, Edge<i64>)| (b.add(&y, &x), a.scale(&x, 10)))?;
        assert_eq!(tuple.execute((1, 2)).wait()?, (3, 10), "{placement}");
        drop(tuple);
        let array = runtime.compile(|[x, y, z]: [Edge<i64>; 3]| a.add(&a.add(&x, &y), &b.echo(&z)))?;
        assert_eq!(array.execute([1, 2, 3]).wait()?, 6, "{placement}");
        drop(array);
        let options = Options::new().inputs(4);
        let vector = runtime.compile_with(options, |xs: Vec<Edge<i64>>| {
            xs.iter().map(|x| a.scale(x, 2)).collect::<Vec<_>>()
        })?;
        assert_eq!(
            vector.execute(vec![1, 2, 3, 4]).wait()?,
            vec![2, 4, 6, 8],
            "{placement}"
        );
    }
    Ok(())
}

#[test]
fn dag_10_parts_of_a_tuple_go_to_one_actor_two_actors_or_the_driver() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b, c) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
            counter(&runtime, "c", placement),
        );
        let one = runtime.compile(|x: Edge<i64>| {
            let (first, second) = a.pair(&x).split();
            (b.scale(&first, 10), b.scale(&second, 10))
        })?;
        assert_eq!(one.execute(1).wait()?, (10, 20), "{placement}");
        drop(one);
        let two = runtime.compile(|x: Edge<i64>| {
            let (first, second) = a.pair(&x).split();
            (b.scale(&first, 10), c.scale(&second, 10), second)
        })?;
        assert_eq!(two.execute(1).wait()?, (10, 20, 2), "{placement}");
        drop(two);
        // Without split a tuple stays one value.
        let whole = runtime.compile(|x: Edge<i64>| a.pair(&x))?;
        assert_eq!(whole.execute(4).wait()?, (4, 5), "{placement}");
        drop(whole);
        let both = runtime.compile(|x: Edge<i64>| {
            let pair = a.pair(&x);
            let (first, second) = pair.split();
            (pair, b.add(&first, &second))
        })?;
        assert_eq!(both.execute(4).wait()?, ((4, 5), 9), "{placement}");
    }
    Ok(())
}

struct Digits;

#[actor]
impl Digits {
    pub fn new() -> Self {
        Digits
    }

    /// Returns a number whose digits show the order of the arguments.
    pub fn number(&mut self, a: i64, b: &i64, c: i64) -> i64 {
        100 * a + 10 * b + c
    }
}

#[test]
fn task_12_constants_stand_beside_edges() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Digits>("a", ()).place(placement)?;
        let graph = runtime.compile(|x: Edge<i64>| {
            let [three, five] = [3, 5].map(constant);
            let first = a.number(&x, &three, &five);
            (first, a.number(&three, &x, &five), a.number(&three, &five, &x))
        })?;
        for x in 0..5 {
            let expected = (100 * x + 35, 305 + 10 * x, 350 + x);
            assert_eq!(graph.execute(x).wait()?, expected, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn dag_19_a_graph_may_have_a_unit_input() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Counter>("a", (41,)).place(placement)?;
        let graph = runtime.compile(|tick: Edge<()>| a.total(&tick))?;
        assert_eq!(graph.execute(()).wait()?, 41, "{placement}");
    }
    Ok(())
}

#[test]
fn intra_01_views_and_owned_values_of_text_bytes_and_tensors() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let t = runtime.spawn::<Text>("t", ()).place(placement)?;
        let u = runtime.spawn::<Text>("u", ()).place(placement)?;
        let graph = runtime.compile(|(text, numbers): (Edge<String>, Edge<Vec<f32>>)| {
            let bytes = t.bytes(&u.upper(&text));
            (u.sum(&bytes), t.mean(&u.tensor(&numbers)))
        })?;
        let (sum, mean) = graph.execute(("ab".to_owned(), vec![1.0, 2.0, 6.0])).wait()?;
        assert_eq!((sum, mean), (131, 3.0), "{placement}");
    }
    Ok(())
}

#[test]
fn task_02_async_methods_are_driven_on_their_lane() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.later(&a.later(&x)))?;
        assert_eq!(graph.execute(1).wait()?, 3, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_39_many_graphs_one_after_another_on_the_same_actors() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let mut expected = 0;
        for round in 1..=10 {
            let graph = runtime.compile(|x: Edge<i64>| b.inc(&a.inc(&x)))?;
            expected += round;
            assert_eq!(graph.execute(1).wait()?, expected, "{placement}, round {round}");
        }
    }
    Ok(())
}

#[test]
fn dag_33_map_keeps_order_and_overlaps_stages() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| b.scale(&a.echo(&x), 2))?;
        let results = graph.map(0..500).collect::<std::result::Result<Vec<_>, _>>()?;
        assert_eq!(
            results,
            (0..500).map(|x| 2 * x).collect::<Vec<_>>(),
            "{placement}"
        );
    }
    Ok(())
}

/// A stage of a pipeline of two: the later stage ends an execution only when the earlier one has begun the next.
struct Stage;

#[actor]
impl Stage {
    pub fn new() -> Self {
        Stage
    }

    pub fn begin(&mut self, x: i64, #[constant] begun: &str) -> i64 {
        let mut begun = std::fs::File::options().append(true).open(begun).expect("a file");
        std::io::Write::write_all(&mut begun, b".").expect("a file");
        x
    }

    pub fn end(&mut self, x: i64, #[constant] begun: &str, #[constant] last: i64) -> i64 {
        let next = (x + 2).min(last + 1) as u64;
        actors::until("the next execution", || {
            let len = std::fs::metadata(begun).map_or(0, |file| file.len());
            (len >= next).then_some(x)
        })
    }
}

#[test]
fn dag_33_stages_of_two_executions_meet_and_map_takes_no_more_than_may_be_in_flight() -> Result<()> {
    const LAST: i64 = 40;
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Stage>("a", ()).place(placement)?;
        let b = runtime.spawn::<Stage>("b", ()).place(placement)?;
        let begun = Gate::closed();
        let options = Options::new().max_inflight(3);
        let graph = runtime.compile_with(options, |x: Edge<i64>| {
            b.end(&a.begin(&x, begun.path()), begun.path(), LAST)
        })?;
        let taken = std::cell::Cell::new(0);
        let items = (0..=LAST).inspect(|_| taken.set(taken.get() + 1));
        let mut given = 0;
        for result in graph.map(items) {
            assert_eq!(result?, given, "{placement}");
            given += 1;
            // A returned result is not in flight any more; the iterator takes the next item when the caller asks for a
            // result.
            assert!(
                taken.get() < given + 3,
                "{placement}: {} taken, {given} given",
                taken.get()
            );
            let counters = graph.counters();
            assert!(counters.submitted - counters.finished <= 3, "{placement}");
        }
        assert_eq!((given, taken.get()), (LAST + 1, LAST + 1), "{placement}");
    }
    Ok(())
}

#[test]
fn graph_18_simulated_pipeline_parallelism() -> Result<()> {
    // Two stages, three micro-batches, forward then backward on each.
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (s0, s1) = (
            counter(&runtime, "s0", placement),
            counter(&runtime, "s1", placement),
        );
        let graph = runtime.compile(|batches: [Edge<i64>; 3]| {
            let forward: Vec<_> = batches.iter().map(|x| s0.scale(x, 2)).collect();
            let backward: Vec<_> = forward.iter().map(|x| s1.scale(x, 3)).collect();
            backward.iter().map(|x| s0.scale(x, 5)).collect::<Vec<_>>()
        })?;
        for _ in 0..10 {
            assert_eq!(graph.execute([1, 2, 3]).wait()?, vec![30, 60, 90], "{placement}");
        }
    }
    Ok(())
}

#[test]
fn graph_05_a_task_is_ordered_after_an_input_that_its_process_does_not_know() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime
            .compile(|(x, y): (Edge<i64>, Edge<Option<u8>>)| (a.echo(&x).after(&y), a.tick().after(&y), y))?;
        for x in 1..50 {
            assert_eq!(graph.run((x, Some(2)))?, (x, x, Some(2)), "{placement}");
        }
        assert!(
            graph.describe().contains("after arrival of input 1"),
            "{}",
            graph.describe()
        );
        drop(graph);
        // An ordering edge transfers no value, not even if no other task reads the value.
        let graph = runtime.compile(|(x, y): (Edge<i64>, Edge<Vec<u8>>)| a.echo(&x).after(&y).after(&x))?;
        let plan = graph.plan();
        let channels = plan.channels.iter();
        let types: Vec<_> = channels
            .map(|it| &plan.ir.values[it.value.0 as usize].type_name)
            .collect();
        assert!(!types.iter().any(|name| name.contains("Vec")), "{types:?}");
        assert_eq!(graph.run((3, vec![0; 1 << 20]))?, 3, "{placement}");
        drop(graph);
        let graph = runtime.compile(|(x, pair): (Edge<i64>, Edge<(i64, i64)>)| {
            let (first, second) = pair.split();
            (a.echo(&x).after(&pair), first, second)
        })?;
        assert_eq!(graph.run((3, (4, 5)))?, (3, 4, 5), "{placement}");
    }
    Ok(())
}
